"""Environments: normalizing what files return, and what policies see of them."""
