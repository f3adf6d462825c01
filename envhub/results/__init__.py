"""Results: what a run leaves behind, and what people read of it."""
