"""Asks a question where nobody answers."""

input("Do you accept the licence? ")
