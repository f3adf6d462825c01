"""What keeps foreign code in.

The host chooses and starts it, the guard supervises it, the worker shuts itself in.
"""
