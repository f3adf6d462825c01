"""From a reference to verified files. Runs in the host, and executes nothing of what it fetches."""
