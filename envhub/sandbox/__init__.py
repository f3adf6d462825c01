"""Keep foreign code in a sandbox.

The host chooses the sandbox and starts the worker (`choose`, `bubblewrap`), the guard supervises it
(`supervisor`), and the worker confines itself before it loads foreign code (`inside`).
"""
