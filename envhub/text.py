"""Text for people: aligned columns and counted nouns. Pure, and fast to import, unlike rich."""

import textwrap
from collections.abc import Collection, Sequence

GAP = 2
"""Spaces between two columns."""


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return one line per row, with columns as wide as their widest cells.

    Args:
        rows: The cells; every row has as many.
        right: The columns that are aligned to the right, such as numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * GAP)
        .join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def fold(text: str, width: int, indent: str = "") -> list[str]:
    """Return lines that are not too wide; a word that is keeps a line of its own.

    Args:
        text: Words between spaces.
        width: Columns.
        indent: What every line but the first begins with.
    """
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless there is one: `1 task`, `2 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
