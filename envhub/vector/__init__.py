"""Vector environments whose envs live in workers. Runs in the host."""
