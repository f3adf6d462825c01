"""Starting workers, sending them requests, waiting for answers, ending them. Runs in the host."""
