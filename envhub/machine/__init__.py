"""The resources of this machine: its cores, its memory, its GL backends.

Runs in the host, and in workers that render.
"""
