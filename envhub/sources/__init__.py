"""Where benchmarks come from."""
