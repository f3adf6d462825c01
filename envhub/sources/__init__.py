"""Turn a reference into verified files. Runs in the host and never executes fetched code."""
