"""Build interpreters for benchmarks with uv. Runs in the host."""
