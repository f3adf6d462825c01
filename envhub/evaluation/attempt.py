"""One attempt at an episode, from the first reset to its record."""

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from envhub.declarations import Task
from envhub.errors import ContractError, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from envhub.evaluation.outcome import Outcome
from envhub.options import Delays
from envhub.records import End, Episode, EpisodeError, EpisodeRecord, Status
from envhub.results.arrays import STEP
from envhub.wire.delayed import DelayedActions
from envhub.wire.first_observation import hash_state
from envhub.wire.messages import EpisodeInfo, First
from envhub.wire.values import Array


class Attempt:
    """The steps of an episode so far. Only the host computes what is recorded."""

    def __init__(
        self,
        episode: Episode,
        task: Task,
        number: int,
        told: str | None = None,
        delays: Delays | None = None,
        *,
        retold: bool = False,
    ) -> None:
        """Begin.

        Args:
            episode: The episode.
            task: Its task.
            number: Counts the attempts at the episode, from 1.
            told: The user's instruction, whatever the env says; None: the env's or the task's.
            delays: How late the policy's actions are; None: the world waits for it.
            retold: Whether what the env says replaces the policy's own instruction, too.
        """
        self.episode = episode
        self.task = task
        self.number = number
        """Counts the attempts at the episode, from 1."""
        self.alone = False
        """Whether the policy acts for this episode alone, not in a batch with others."""
        self.began = False
        """Whether the policy has been told that the episode began."""
        self.outcome = Outcome(task)
        self.delays = delays
        self._delayed: DelayedActions | None = None
        self._counts: tuple[int, int] | tuple[None, None] = (0, 0) if delays else (None, None)
        self._fixed = told is not None
        self._retold = retold
        self._state: bytes | None = None
        self._instruction = None if told == task.description else told
        self._first: tuple[bytes, tuple[str, ...] | None] | None = None
        self._actions: list[Array] = []
        self._started = time.monotonic()

    @property
    def info(self) -> EpisodeInfo:
        """What the policy is told about the episode."""
        episode, description = self.episode, self._instruction or self.task.description
        return EpisodeInfo(
            episode.number,
            episode.suite,
            episode.task,
            description,
            episode.index,
            episode.seed,
            self._fixed or (self._retold and self._instruction is not None),
        )

    def instruct(self, description: str | None) -> None:
        """Use the instruction that the env gave at its reset; None: the task's."""
        if self._fixed:
            return
        same = description == self.task.description
        self._instruction = None if same else description

    @property
    def first(self) -> tuple[bytes, tuple[str, ...] | None] | None:
        """The digest of the first observation, with its leaves if not all; None: not observed."""
        return None if self._first is None or self._first[1] == () else self._first

    def begin_with(self, first: First | None, asked: tuple[str, ...] | None) -> None:
        """Note what the env was reset to: its observation or, where there is none, its state.

        Args:
            first: The digest of the observation; None: no leaf of it was filled.
            asked: The leaves that the env was asked for; None: all.
        """
        if first is None:
            self._first = hash_state(self.episode.init_state, self.episode.seed), ()
        else:
            self._first = (
                first.digest,
                None if first.whole or asked is None else tuple(sorted(asked)),
            )

    def end_in(self, state: bytes | None) -> None:
        """Note the digest of the env's state at the episode's end, if the env says it."""
        self._state = state

    def committed(self, space: Space[Any]) -> Array | None:
        """Return the actions until a call's result is there, if results are late.

        Args:
            space: The action space.
        """
        if self.delays is None:
            return None
        if self._delayed is None:
            episode = self.episode
            self._delayed = DelayedActions(
                self.delays, space, seed=episode.seed, task=episode.task, index=episode.index
            )
        return self._delayed.begin_call()

    def delayed(self, chunk: Array) -> Array:
        """Return the actions to take until the next call, of a chunk that the policy answered."""
        return chunk if self._delayed is None else self._delayed.take(chunk)

    def count_calls(self, calls: int, held: int) -> None:
        """Note what a worker says of the calls of its policy, and of the steps meanwhile."""
        if self.delays is not None:
            self._counts = calls, held

    @property
    def options(self) -> dict[str, int] | None:
        """The options of the env's reset."""
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
        """Add steps.

        Raises:
            ContractError: A reward is not finite, or the return is too large.
        """
        self.outcome.add(rewards, successes, terminated=terminated, truncated=truncated)
        self._actions.append(actions)
        if self._delayed is not None:
            self._delayed.taken(len(actions))
            self._counts = self._delayed.calls, self._delayed.held

    def actions(self) -> Array | None:
        """Return all actions, for replay; None before the first step."""
        if len(self._actions) > 1:
            self._actions = [np.concatenate(self._actions)]
        return self._actions[0] if self._actions else None

    def steps(self) -> Array | None:
        """Return reward and flags of every step: what `trace` hashes beside the actions.

        None before the first step.
        """
        outcome = self.outcome
        if not outcome.rewards:
            return None
        steps = np.zeros(len(outcome.rewards), STEP)
        steps["reward"] = outcome.rewards
        steps["success"] = [-1 if s is None else int(s) for s in outcome.successes]
        # No step but the last can have ended the episode.
        steps["terminated"][-1] = outcome.terminated
        steps["truncated"][-1] = outcome.truncated
        return steps

    def record(self, space: Space[Any]) -> EpisodeRecord:
        """Make the record of an attempt that ended."""
        return self._record("ok", self.outcome.end, None, space)

    def failed(self, error: WorkerError | ContractError, space: Space[Any] | None) -> EpisodeRecord:
        """Make the record of an attempt that failed."""
        where = getattr(error, "where", "env")
        match error:
            case WorkerTimeout():
                status: Status = "timeout"
            case WorkerDied():
                status = "worker_died"
            case _:
                status = "policy_error" if where == "policy" else "env_error"
        name = error.kind if isinstance(error, WorkerRaised) else type(error).__name__
        place: Any = "worker" if status == "worker_died" and where == "env" else where
        trace = error.traceback if isinstance(error, WorkerRaised) else None
        recorded = EpisodeError(place, name, str(error), self.outcome.steps, trace or None)
        return self._record(status, "error", recorded, space)

    def _record(
        self,
        status: Status,
        end: End,
        error: EpisodeError | None,
        space: Space[Any] | None,
    ) -> EpisodeRecord:
        episode, outcome, actions = self.episode, self.outcome, self.actions()
        digest, leaves = self._first or (None, None)
        return EpisodeRecord(
            suite=episode.suite,
            task=episode.task,
            episode=episode.index,
            seed=episode.seed,
            init_state=episode.init_state,
            status=status,
            success=None if error else outcome.success,
            success_step=outcome.success_step,
            end=end,
            return_=outcome.return_,
            steps=outcome.steps,
            out_of_bounds=_out_of_bounds(actions, space),
            trace=hash_trace(actions, self.steps()),
            seconds=round(time.monotonic() - self._started, 4),
            attempts=self.number,
            error=error,
            number=episode.number,
            description=self._instruction,
            first_observation=f"sha256:{digest.hex()}" if digest else None,
            first_leaves=leaves,
            calls=self._counts[0],
            held=self._counts[1],
            end_state=f"sha256:{self._state.hex()}" if self._state else None,
        )


def hash_trace(actions: Array | None, steps: Array | None) -> str:
    """Hash the actions, rewards and flags; the flags of an end are those of the last step."""
    steps = np.zeros(0, STEP) if steps is None else steps
    digest = hashlib.sha256()
    if actions is not None:
        digest.update(f"{actions.dtype.str}{actions.shape}".encode())
        digest.update(np.ascontiguousarray(actions).tobytes())
    digest.update(np.ascontiguousarray(steps["reward"]).tobytes())
    digest.update(np.where(steps["success"] < 0, 2, steps["success"]).astype(np.uint8).tobytes())
    last = steps[-1] if len(steps) else np.zeros((), STEP)
    digest.update(bytes((bool(last["terminated"]), bool(last["truncated"]))))
    return f"sha256:{digest.hexdigest()}"


def _out_of_bounds(actions: Array | None, space: Space[Any] | None) -> int:
    """Count the actions with a value outside the action space."""
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
