"""Stands for a simulator that takes long to import."""
