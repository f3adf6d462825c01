"""Processes that run environment code, and the border between them and this one."""
