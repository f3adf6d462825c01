"""Projects for authors of benchmarks and policies, made from templates. Runs in the host."""
