"""How long a server says it took, over a run."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

_NAMES = 20
_KEPT = 10_000
_EACH = 100
"""Answers after which the medians are no longer taken for each."""


class Timings:
    """Medians of the server's own figures."""

    def __init__(self) -> None:
        self._seen: dict[str, list[float]] = defaultdict(list)
        self._new = False

    def add(self, timings: Mapping[str, Any]) -> None:
        """Add what an answer says; what is no number is left out."""
        for name, value in timings.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            known = name in self._seen or len(self._seen) < _NAMES
            if number and known and 0 <= value < float("inf") and len(name) <= 100:
                self._new = True
                if len(self._seen[name]) < _KEPT:
                    self._seen[name].append(float(value))

    def take(self) -> dict[str, str]:
        """Return the medians, if there is a new figure since."""
        count = max(map(len, self._seen.values()), default=0)
        if not self._new or (count > _EACH and count % _EACH):
            return {}
        self._new = False
        return {
            f"server_{name}": f"median {sorted(seen)[len(seen) // 2]:.4g} of {len(seen)}"
            for name, seen in self._seen.items()
        }
