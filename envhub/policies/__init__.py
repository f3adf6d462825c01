"""The contract of policies, and how they are found, loaded and called.

Policies are found in the host, and loaded and called in the process that they run in.
"""
