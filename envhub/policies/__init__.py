"""Policies: the contract, the built-in ones, and calling them."""
