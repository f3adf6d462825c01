"""What this machine can do: its cores, its memory, its GL backends.

Runs in the host, and in workers that draw.
"""
