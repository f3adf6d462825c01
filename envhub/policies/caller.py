"""Calling a policy, and checking what it answers. Runs wherever the policy lives."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.errors import ContractError
from envhub.observations import to_lerobot
from envhub.policies.contract import PADDING, Context, facts_of, make_rng
from envhub.types import PolicyFacts
from envhub.wire.values import Array

_FEW = 32
"""So many numbers are compared one by one before numpy has begun."""


class PolicyCaller:
    """A policy, for one pair of spaces."""

    def __init__(
        self,
        policy: Any,
        leaves: Sequence[str],
        action_space: Space[Any],
    ) -> None:
        """Take a policy.

        Args:
            policy: What a factory made.
            leaves: The leaf paths of the raw observation.
            action_space: Of one env.

        Raises:
            ContractError: It is no policy.
        """
        self.facts: PolicyFacts = facts_of(policy, leaves)
        self._policy = policy
        self._shape = action_space.shape or ()
        self._dtype = np.dtype(action_space.dtype)
        self._castable = self._dtype
        self._range = _range(self._dtype)

    def start(self, episode: Context) -> None:
        """Tell the policy that an episode begins."""
        start = getattr(self._policy, "start", None)
        if start is not None:
            start(episode)

    def finish(self, episode: Context) -> None:
        """Tell the policy that an episode has ended."""
        self._tell("finish", episode)

    def close(self) -> None:
        """Tell the policy that it is not needed any more."""
        self._tell("close")

    def act(self, observation: Any, episodes: Sequence[Context]) -> Array:
        """The actions for a batch of observations, a chunk for each row.

        Returns:
            An array of the action space's dtype and shape `(rows, chunk, *action)`.

        Raises:
            ContractError: The policy answered something else.
        """
        size = self.facts.batch
        if size is None:
            return self._call(observation, episodes)
        parts = [
            self._padded(_rows(observation, slice(at, at + size)), episodes[at : at + size], size)
            for at in range(0, len(episodes), size)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _tell(self, method: str, *about: Context) -> None:
        """Tell the policy of an end. What it makes of it is too late for any record."""
        try:
            getattr(self._policy, method, lambda *_: None)(*about)
        except Exception:
            traceback.print_exc()

    def _padded(self, observation: Any, episodes: Sequence[Context], size: int) -> Array:
        """One call of exactly `size` rows.

        The last row is repeated, for episodes that have just begun: their memories are as `start`
        leaves them, so that the policy meets nothing that it would not meet otherwise.
        """
        count = len(episodes)
        fillers = [_filler(episodes[-1]) for _ in range(size - count)]
        for filler in fillers:
            self.start(filler)
        index = np.minimum(np.arange(size), count - 1)
        actions = self._call(_rows(observation, index), [*episodes, *fillers])[:count]
        for filler in fillers:
            self.finish(filler)
        return actions

    def _call(self, observation: Any, episodes: Sequence[Context]) -> Array:
        if self.facts.format == "lerobot":
            descriptions = [episode.description for episode in episodes]
            observation = to_lerobot(observation, descriptions)
        return self._checked(self._policy.act(observation, episodes), len(episodes))

    def _checked(self, answer: Any, rows: int) -> Array:
        actions = _array(answer)
        shape = actions.shape
        if shape == (rows, *self._shape):
            actions = actions.reshape(rows, 1, *self._shape)
        elif shape[:1] != (rows,) or shape[2:] != self._shape or shape[1:2] == (0,):
            due = f"{(rows, *self._shape)}, or {(rows, 'chunk', *self._shape)}"
            raise ContractError(f"act() returned actions of shape {shape}; due is {due}.")
        if actions.dtype is not self._castable:
            if not np.can_cast(actions.dtype, self._dtype, "same_kind"):
                found = f"act() returned actions of dtype {actions.dtype}"
                raise ContractError(f"{found}; the action space has {self._dtype}.")
            self._castable = actions.dtype
        if not self._within_range(actions):
            problem = "not finite" if self._dtype.kind == "f" else "too large"
            raise ContractError(f"act() returned an action that is {problem} for {self._dtype}.")
        return actions.astype(self._dtype)

    def _within_range(self, actions: Array) -> bool:
        """Whether the action space's dtype holds them all; not a number is nowhere within."""
        least, most = self._range
        if actions.size <= _FEW:
            return all(least <= value <= most for value in actions.ravel().tolist())
        low, high = np.minimum.reduce(actions, None), np.maximum.reduce(actions, None)
        return bool(least <= low and high <= most)


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the greatest number of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return dtype.type(limits.min).item(), dtype.type(limits.max).item()


def _filler(episode: Context) -> Context:
    """An episode that only fills a batch."""
    rng = make_rng(episode.seed, episode.task)
    about = episode.suite, episode.task, episode.description
    return Context(*about, PADDING, episode.seed, rng=rng)


def _array(answer: Any) -> Array:
    """The answer as an array, from whatever library."""
    array = answer if type(answer) is np.ndarray else _converted(answer)
    if array.dtype.kind not in "biuf":
        raise ContractError(f"act() returned a {type(answer).__name__} of dtype {array.dtype}.")
    return array


def _converted(answer: Any) -> Array:
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
    try:
        return np.asarray(answer)
    except (ValueError, TypeError) as exc:
        raise ContractError(f"act() returned a {type(answer).__name__}, no array: {exc}.") from exc


def _rows(observation: Any, index: Any) -> Any:
    """Some rows of a batch."""
    if isinstance(observation, Mapping):
        return {key: _rows(value, index) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_rows(value, index) for value in observation)
    if isinstance(observation, list):  # texts
        chosen = range(len(observation))[index] if isinstance(index, slice) else index
        return [observation[row] for row in chosen]
    return observation[index]
