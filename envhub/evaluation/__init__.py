"""From a request to records: prepare, then play the episodes. Runs in the host."""
