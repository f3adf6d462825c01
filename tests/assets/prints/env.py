"""Prints more than anybody reads, some of it terminal escapes, and raises."""

import sys

for number in range(20_000):
    print("noise", number)
print("\x1b[2J\x1b]0;owned\x07\x1b[31mred\rgone", file=sys.stderr)
raise ValueError("bad \x1b[31mcolor")
