"""The files of a run, and the summary of its results. Runs in the host."""
