"""A run as one HTML file that opens from disk. Runs in the host; runs nothing of the benchmark."""
