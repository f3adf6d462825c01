"""From a request to records: prepare, then play. Runs in the host."""
