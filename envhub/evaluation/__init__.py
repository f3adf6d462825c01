"""Running the episodes of a plan."""
