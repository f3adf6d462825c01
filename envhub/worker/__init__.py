"""Code that runs in a worker, its guard, the fork server or a policy's own process.

The host process runs it only for `--workers 0`.
"""
