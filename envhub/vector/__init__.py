"""Vector environments whose envs run in workers. Runs in the host."""
