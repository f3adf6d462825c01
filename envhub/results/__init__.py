"""What a run leaves behind, and what people read of it. Runs in the host."""
