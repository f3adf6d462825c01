"""A policy where it acts: loading it, calling it, checking its answers.

Runs in the policy's own process or in a worker; with `--workers 0`, or for a policy object of the
program, in the host's process.
"""
