"""The interpreters that workers run in, and what they may see."""
