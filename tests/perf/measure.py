"""What the benchmarks share: running cases in turns, and printing what they took."""

import json as json_format
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def alternate(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run all cases in each round, in any order, so that what else happens meets each alike.

    Args:
        cases: Each returns what it measured, most often seconds.
        rounds: How often each runs; one round before them does not count.

    Returns:
        What each case returned, round by round.
    """
    measured: dict[str, list[float]] = {name: [] for name in cases}
    order, shuffle = list(cases), random.Random(0).shuffle
    for number in range(rounds + 1):
        shuffle(order)
        for name in order:
            value = cases[name]()
            if number:
                measured[name].append(value)
    return measured


def report(title: str, rows: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """Print rows that have the same keys, as a table or as JSON."""
    if json:
        print(json_format.dumps({"title": title, "rows": list(rows)}, indent=2))
        return
    table = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    print(title)
    for line in table:
        first, *others = zip(line, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        print("  " + "  ".join(cells))


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
