"""Code that runs in a worker, its guard or a policy's own process.

The host process runs it only for `--workers 0`.
"""
