"""Loggers of runs: one module with hooks for each tool, imported for `--log NAME` alone."""
