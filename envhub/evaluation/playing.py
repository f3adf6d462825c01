"""An episode under way, from the first reset to its record."""

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from envhub.errors import ContractError, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from envhub.records import End, Episode, EpisodeError, EpisodeRecord, Status
from envhub.types import Task
from envhub.worker.protocol import Told

Array = np.ndarray[Any, Any]

_MOST = 1e100
"""A return beyond it is no use: the mean of several might not be finite."""


class Playing:
    """What has happened so far. The host alone computes what is recorded."""

    def __init__(self, episode: Episode, task: Task, attempt: int) -> None:
        self.episode = episode
        self.task = task
        self.attempt = attempt
        self.alone = False
        """Whether the policy is asked about no other episode at the same time."""
        self.began = False
        """Whether the policy was told of it."""
        self.steps = 0
        """Steps taken."""
        self.left = task.horizon
        """Steps to the horizon."""
        self.until_success = task.success == "once"
        """Whether the first success ends the episode."""
        self.ended = False
        """Whether it is over."""
        self._return = 0.0
        self._rewards: list[float] = []
        self._successes: list[bool | None] = []
        self._actions: list[Array] = []
        self._terminated = False
        self._truncated = False
        self._started = time.monotonic()

    @property
    def told(self) -> Told:
        """The episode, for its policy."""
        episode, description = self.episode, self.task.description
        return Told(
            episode.number, episode.suite, episode.task, description, episode.index, episode.seed
        )

    @property
    def options(self) -> dict[str, int] | None:
        """What the env's reset is given."""
        state = self.episode.init_state
        return None if state is None else {"init_state": state}

    def add(
        self,
        actions: Array,
        rewards: Sequence[float],
        successes: Sequence[bool | None],
        *,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """Take in steps.

        Raises:
            ContractError: A reward is not finite, or they add up to too much.
        """
        total = self._return
        for index, reward in enumerate(rewards):
            # One after the other: a sum of partial sums would differ in its last bits.
            total += reward
            if not abs(total) <= _MOST:
                step = self.steps + index
                raise ContractError(f"The env gave the reward {reward} at step {step}.")
        self._return = total
        self._actions.append(actions)
        self._rewards.extend(rewards)
        self._successes.extend(successes)
        self._terminated, self._truncated = terminated, truncated
        self.steps += len(rewards)
        self.left -= len(rewards)
        won = self.until_success and self._successes[-1] is True
        self.ended = terminated or truncated or won or self.left <= 0

    def actions(self) -> Array | None:
        """All actions, for replay; None before the first."""
        return np.concatenate(self._actions) if self._actions else None

    def record(self, space: Space[Any]) -> EpisodeRecord:
        """How it ended."""
        if self.until_success and self._successes[-1] is True:
            end: End = "success"
        else:
            end = "terminated" if self._terminated else "truncated"
        return self._record("ok", end, None, space)

    def failed(self, error: WorkerError | ContractError, space: Space[Any] | None) -> EpisodeRecord:
        """How it ended, if something went wrong."""
        where = getattr(error, "where", "env")
        match error:
            case WorkerTimeout():
                status: Status = "timeout"
            case WorkerDied():
                status = "worker_died"
            case _:
                status = "policy_error" if where == "policy" else "env_error"
        kind = error.kind if isinstance(error, WorkerRaised) else type(error).__name__
        place: Any = "worker" if status == "worker_died" and where == "env" else where
        told = EpisodeError(place, kind, str(error), self.steps)
        return self._record(status, "error", told, space)

    def _record(
        self,
        status: Status,
        end: End,
        error: EpisodeError | None,
        space: Space[Any] | None,
    ) -> EpisodeRecord:
        episode, actions = self.episode, self.actions()
        first = self._successes.index(True) + 1 if True in self._successes else None
        return EpisodeRecord(
            suite=episode.suite,
            task=episode.task,
            episode=episode.index,
            seed=episode.seed,
            init_state=episode.init_state,
            status=status,
            success=None if error else self._success(),
            success_step=first,
            end=end,
            return_=self._return,
            steps=self.steps,
            out_of_bounds=_out_of_bounds(actions, space),
            trace=self._trace(actions),
            seconds=round(time.monotonic() - self._started, 4),
            attempts=self.attempt,
            error=error,
            number=episode.number,
        )

    def _success(self) -> bool | None:
        """By the task's rule; None if the env never said."""
        if all(success is None for success in self._successes):
            return None
        if self.task.success == "at_end":
            return self._successes[-1] is True
        return True in self._successes

    def _trace(self, actions: Array | None) -> str:
        digest = hashlib.sha256()
        if actions is not None:
            digest.update(f"{actions.dtype.str}{actions.shape}".encode())
            digest.update(np.ascontiguousarray(actions).tobytes())
        digest.update(np.asarray(self._rewards, "<f8").tobytes())
        digest.update(bytes(2 if s is None else int(s) for s in self._successes))
        digest.update(bytes((self._terminated, self._truncated)))
        return f"sha256:{digest.hexdigest()}"


def _out_of_bounds(actions: Array | None, space: Space[Any] | None) -> int:
    """The number of actions with a value outside the action space."""
    if actions is None:
        return 0
    match space:
        case Box():
            outside = (actions < space.low) | (actions > space.high)
        case Discrete() | MultiDiscrete():
            top = space.start + (space.n if isinstance(space, Discrete) else space.nvec)
            outside = (actions < space.start) | (actions >= top)
        case _:
            return 0
    return int(outside.reshape(len(actions), -1).any(axis=1).sum())
