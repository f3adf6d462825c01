"""What host and worker must agree on: frames, messages, shared memory, spaces.

Runs on both sides.
"""
