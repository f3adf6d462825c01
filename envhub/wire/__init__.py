"""The protocol between host and worker: frames, messages, shared memory, spaces.

Runs on both sides.
"""
