"""Interpreters that uv builds for benchmarks. Runs in the host."""
