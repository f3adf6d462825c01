"""Raises while it is imported."""

raise RuntimeError("the scene file is damaged")
