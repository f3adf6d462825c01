"""Starting, asking and ending workers. Runs in the host."""
