"""What `make_env` adds to envs, so that a program counts as `eval` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from envhub.declarations import MAX_HORIZON
from envhub.wire.step_results import success_of
from envhub.wire.values import Array

HORIZON, INIT_STATE = "_max_episode_steps", "init_state_id"
"""The attributes by which LeRobot's programs ask for the horizon and the next initial state."""

INSTRUCTION = "task_description"
"""That by which they ask what a policy is told."""

_CHOSEN = {HORIZON: (1, MAX_HORIZON), INIT_STATE: (0, 2**31)}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a task's episodes that the host holds; by default it adds nothing."""

    horizon: int | None = None
    """The number of steps after which an episode is truncated; None: when the env says so."""
    max_steps: int | None = None
    """Replaces the horizon, for the programs that ask for it too."""
    init_states: int = 0
    """If positive, resets start from the stored states, one after the other."""
    until_success: bool = False
    """Whether the first success terminates the episode."""
    instruction: str | None = None
    """Replaces what the envs say that is to be done."""
    named_success: bool = False
    """Whether `info` has `is_success` wherever the env says `success`."""


PLAIN = Rules()
"""Envs as they are."""


def name_success(info: dict[str, Any]) -> None:
    """Add `is_success` to an info that has `success` only."""
    if "is_success" not in info and info.get("success") is not None:
        info["is_success"] = success_of(info)


class InitStates:
    """Which stored state each env starts its next episode from.

    Counted as LeRobot 0.6.1 does: env i of n starts from state i, and moves on by n at each reset.
    """

    def __init__(self, envs: int, count: int) -> None:
        self._count = count
        self.following = list(range(envs))
        """By env; may exceed the number of states, which then begin anew."""

    def choose(self, row: int, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the options of an env's reset, with the state unless they name one."""
        if not self._count or "init_state" in (options or {}):
            return options
        state = self.following[row] % self._count
        self.following[row] += len(self.following)
        return {**(options or {}), "init_state": state}


def check_chosen(name: str, values: Sequence[Any]) -> list[int]:
    """Return the values that a program sets one of the attributes to.

    Raises:
        ValueError: One of them is not a whole number, or is out of range.
    """
    low, high = _CHOSEN[name]
    for value in values:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not low <= value <= high:
            raise ValueError(f"{name} must be a whole number from {low} to {high}, found {value!r}")
    return [int(value) for value in values]


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
