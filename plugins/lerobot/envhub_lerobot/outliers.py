"""Values of a state that lie far outside the statistics that a checkpoint was normalized with.

The usual reasons are another layout of the state, other units or another robot: the checkpoint then
acts on numbers that it never saw. Runs where the policy lives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envhub.types import Outlier
from envhub.wire.policy_contract import Context

DEVIATIONS = 10.0
"""Standard deviations from the mean that are far: a robot's joints stay within three."""
MARGIN = 1e-3
"""For values that never changed in training, whose deviation is 0."""
_LARGEST = 1e300
_KEYS = ("mean", "std", "min", "max")


class OutlierFinder:
    """Looks at the states of each task's first episode, which is the same one in every run."""

    def __init__(self, statistics: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the statistics of a checkpoint.

        Args:
            statistics: By feature, the arrays `mean`, `std`, `min` and `max`, as far as there are.
        """
        self._statistics = {
            feature: {key: _flat(each[key]) for key in _KEYS if key in each}
            for feature, each in statistics.items()
        }
        self._limits = {
            feature: limits
            for feature, each in self._statistics.items()
            if (limits := limits_of(each)) is not None
        }
        self._told: set[tuple[str, str, int]] = set()
        self._found: list[Outlier] = []

    def look(self, frame: Mapping[str, Any], episode: Context) -> None:
        """Compare the features of one row, before they are normalized."""
        if episode.index != 0:
            return
        for feature, (low, high) in self._limits.items():
            if feature in frame:
                values = _flat(frame[feature])
                if values.shape == low.shape:
                    self._note(feature, values, (values < low) | (values > high), episode.task)

    def take(self) -> tuple[Outlier, ...]:
        """Return what was found since the last time."""
        found, self._found = tuple(self._found), []
        return found

    def _note(self, feature: str, values: Any, far: Any, task: str) -> None:
        for index in np.flatnonzero(far).tolist():
            if (task, feature, index) not in self._told:
                self._told.add((task, feature, index))
                arrays = self._statistics[feature].items()
                statistics = {key: _number(array[index]) for key, array in arrays}
                value = _number(values[index])
                self._found.append(Outlier(task, feature, index, value, statistics))


def limits_of(statistics: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return the lowest and the highest values that are not far outside; None if nothing says.

    A value is far outside if it is more than ten standard deviations from the mean, and beyond the
    extremes by more than the distance between them; of what the statistics do not have, neither.
    """
    lows, highs = [], []
    with np.errstate(invalid="ignore", over="ignore"):  # of infinities, beyond which nothing is
        if "mean" in statistics and "std" in statistics:
            lows.append(statistics["mean"] - DEVIATIONS * statistics["std"])
            highs.append(statistics["mean"] + DEVIATIONS * statistics["std"])
        if "min" in statistics and "max" in statistics:
            span = statistics["max"] - statistics["min"]
            lows.append(statistics["min"] - span)
            highs.append(statistics["max"] + span)
    if not lows or len({array.shape for array in (*lows, *highs)}) > 1:
        return None
    return np.min(lows, axis=0) - MARGIN, np.max(highs, axis=0) + MARGIN


def state_statistics(steps: Sequence[Any], features: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the statistics of some features, from the steps of a checkpoint's preprocessor."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        known = getattr(step, "stats", None) or {}
        found |= {feature: dict(known[feature]) for feature in features if feature in known}
    return found


def _number(value: Any) -> float:
    """Return a number as JSON has it: without infinities."""
    return float(np.clip(value, -_LARGEST, _LARGEST))


def _flat(values: Any) -> Any:
    """Return numbers of any library as a flat array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, np.float64).reshape(-1)
