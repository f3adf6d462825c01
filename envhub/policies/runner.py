"""Calling a policy, and checking what it answers. Runs wherever the policy lives."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.envs.observations import to_lerobot
from envhub.errors import ContractError
from envhub.policies.contract import Context, PolicyFacts, facts_of

Array = np.ndarray[Any, Any]
Convert = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Runner:
    """A policy, for one pair of spaces."""

    def __init__(
        self,
        policy: Any,
        leaves: Sequence[str],
        action_space: Space[Any],
        convert: Convert | None = None,
    ) -> None:
        """Take a policy.

        Args:
            policy: What a factory made.
            leaves: The leaf paths of the observation.
            action_space: Of one env.
            convert: The benchmark's own conversion to LeRobot's format.

        Raises:
            ContractError: It is no policy.
        """
        self.facts: PolicyFacts = facts_of(policy, leaves)
        self._policy = policy
        self._convert = convert
        self._shape = action_space.shape or ()
        self._dtype = np.dtype(action_space.dtype)
        self._filler: Context | None = None

    def start(self, episode: Context) -> None:
        """Tell the policy that an episode begins."""
        start = getattr(self._policy, "start", None)
        if start is not None:
            start(episode)

    def finish(self, episode: Context) -> None:
        """Tell the policy that an episode has ended."""
        finish = getattr(self._policy, "finish", None)
        if finish is not None:
            finish(episode)

    def close(self) -> None:
        """Tell the policy that it is not needed any more."""
        close = getattr(self._policy, "close", None)
        if close is not None:
            close()

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

    def _padded(self, observation: Any, episodes: Sequence[Context], size: int) -> Array:
        """One call of exactly `size` rows; the last row is repeated, for an episode of its own."""
        missing = size - len(episodes)
        if not missing:
            return self._call(observation, episodes)
        if self._filler is None:
            self._filler = copy.deepcopy(episodes[-1])
            self._filler.memory = {}
            self.start(self._filler)
        index = np.r_[0 : len(episodes), [len(episodes) - 1] * missing]
        filled = [*episodes, *([self._filler] * missing)]
        return self._call(_rows(observation, index), filled)[: len(episodes)]

    def _call(self, observation: Any, episodes: Sequence[Context]) -> Array:
        if self.facts.format == "lerobot":
            descriptions = [episode.description for episode in episodes]
            observation = to_lerobot(observation, descriptions, convert=self._convert)
        return self._checked(self._policy.act(observation, episodes), len(episodes))

    def _checked(self, answer: Any, rows: int) -> Array:
        actions = _array(answer)
        if actions.shape == (rows, *self._shape):
            actions = actions.reshape(rows, 1, *self._shape)
        good = actions.ndim == 2 + len(self._shape) and actions.shape[0] == rows
        if not good or actions.shape[2:] != self._shape or actions.shape[1] < 1:
            due = f"{(rows, *self._shape)}, or {(rows, 'chunk', *self._shape)}"
            shape = np.shape(_array(answer))
            raise ContractError(f"act() returned actions of shape {shape}; due is {due}.")
        if not np.can_cast(actions.dtype, self._dtype, "same_kind"):
            found = f"act() returned actions of dtype {actions.dtype}"
            raise ContractError(f"{found}; the action space has {self._dtype}.")
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise ContractError("act() returned an action that is not finite.")
        return actions.astype(self._dtype)


def _array(answer: Any) -> Array:
    """The answer as an array, from whatever library."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
    try:
        array = np.asarray(answer)
    except (ValueError, TypeError) as exc:
        raise ContractError(f"act() returned a {type(answer).__name__}, no array: {exc}.") from exc
    if array.dtype.kind not in "biuf":
        raise ContractError(f"act() returned a {type(answer).__name__} of dtype {array.dtype}.")
    return array


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
