"""EnvHub's evaluations on the nodes of a Ray cluster."""
