"""Counts the steps of episodes, to truncate them at their horizon."""

from collections.abc import Sequence

import numpy as np

from envhub.wire.values import Array

_NEVER = 2**62
"""Steps; an episode without a horizon is truncated after so many."""


class EpisodeClock:
    """The lengths of the episodes of several envs, which mostly step together.

    A step of all envs costs an addition and a comparison: lengths are differences between the
    number of steps taken and that at the episode's beginning.
    """

    def __init__(self, envs: int, horizon: int | None) -> None:
        self._horizons = np.full(envs, _NEVER if horizon is None else horizon, np.int64)
        self._time = 0
        self._began = np.zeros(envs, np.int64)
        self._plan()

    def set_horizons(self, horizons: Sequence[int]) -> None:
        """Replace the horizon of each env, also for the episodes that have begun."""
        self._horizons[:] = horizons
        self._plan()

    def begin(self, row: int | slice) -> None:
        """Note that an env was reset."""
        self._began[row] = self._time
        self._plan()

    def tick(self) -> bool:
        """Note a step of all envs; returns whether an episode has reached its horizon."""
        self._time += 1
        return self._time >= self._due

    def tick_row(self, row: int) -> bool:
        """Note a step of one env; returns whether its episode has reached its horizon."""
        self._began[row] -= 1
        self._plan()
        return bool(self._time - self._began[row] >= self._horizons[row])

    def at_horizon(self) -> Array:
        """Return for each env whether its episode has reached its horizon."""
        return self._time - self._began >= self._horizons

    def _plan(self) -> None:
        self._due = int((self._began + self._horizons).min())
