"""How long a policy takes to act: its calls counted by duration, so that runs of any length add up.

    "latency": {"calls": 1200, "p50": 0.0031, "p95": 0.0098, "counts": {"164": 700, ...}}

A count's key is the duration's logarithm: durations from one to the next are 5 % apart, so that a
percentile is right within 2.5 %.
"""

import math
import re
from collections import Counter

from envhub.run_info import LatencyInfo

_LEAST = 1e-6
_STEP = math.log(1.05)
_KEY = re.compile("[0-9]{1,3}")
"""Up to centuries."""


class Latency:
    """The durations of the calls of `act`."""

    def __init__(self, recorded: LatencyInfo | None = None) -> None:
        """Take what `run.json` has of earlier calls; None: there were none.

        Counts that nothing here has written are left out: the file may be another's.
        """
        counts = recorded.counts if recorded else {}
        self._counts = Counter(
            {int(key): n for key, n in counts.items() if _KEY.fullmatch(key) and n > 0}
        )

    @property
    def calls(self) -> int:
        """The number of calls."""
        return self._counts.total()

    def add(self, seconds: float, calls: int = 1) -> None:
        """Count calls that took so long each."""
        self._counts[max(0, int(math.log(max(seconds, _LEAST) / _LEAST) / _STEP))] += calls

    def include(self, other: "Latency") -> None:
        """Count the calls of another session, too."""
        self._counts.update(other._counts)

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share of the calls ended.

        Raises:
            ValueError: There was no call.
        """
        left = share * self.calls
        for key in sorted(self._counts):
            left -= self._counts[key]
            if left <= 0:
                return _LEAST * math.exp((key + 0.5) * _STEP)
        raise ValueError("no call was counted")

    def durations(self) -> dict[float, int]:
        """Return the seconds that calls took, and how many took so long."""
        middles = {key: _LEAST * math.exp((key + 0.5) * _STEP) for key in self._counts}
        return {middles[key]: self._counts[key] for key in sorted(self._counts)}

    def info(self) -> LatencyInfo | None:
        """Return what `run.json` is to say; None if there was no call."""
        if not self.calls:
            return None
        return LatencyInfo(
            calls=self.calls,
            p50=round(self.percentile(0.5), 6),
            p95=round(self.percentile(0.95), 6),
            counts={str(key): self._counts[key] for key in sorted(self._counts)},
        )
