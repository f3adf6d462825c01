"""Calls a policy and checks its answers, in the process that the policy runs in."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.errors import ContractError
from envhub.observations import to_lerobot
from envhub.types import Batch, Outlier, PolicyFacts
from envhub.wire.policy_contract import PADDING, Chunks, Context, facts_of, make_rng
from envhub.wire.values import Array

_FEW = 32
"""Up to this many numbers, comparing them in Python is faster than a call of numpy."""


class PolicyCaller:
    """Calls a policy, for one pair of spaces."""

    def __init__(
        self,
        policy: Any,
        leaves: Sequence[str],
        action_space: Space[Any],
        batch: Batch = 1,
    ) -> None:
        """Take a policy.

        Args:
            policy: The object that a factory returned.
            leaves: The leaf paths of the raw observation.
            action_space: The action space of one env.
            batch: The rows of its calls if it declares none.

        Raises:
            ContractError: The object is not a policy.
        """
        self.facts: PolicyFacts = facts_of(policy, leaves, batch)
        self._told = {*self.facts.remarks}
        self.action_space = action_space
        self._policy = policy
        self._shape = action_space.shape or ()
        self._dtype = np.dtype(action_space.dtype)
        self._castable = self._dtype
        self._range = _range(self._dtype)

    def check_space(self, space: Space[Any]) -> None:
        """Show the policy the space of observations that the benchmark's own code converts."""
        check = getattr(self._policy, "check_space", None)
        if check is not None:
            check(space)

    def start(self, episode: Context) -> None:
        """Tell the policy that an episode begins."""
        start = getattr(self._policy, "start", None)
        if start is not None:
            start(episode)

    def finish(self, episode: Context) -> None:
        """Tell the policy that an episode has ended."""
        self._notify("finish", episode)

    def close(self) -> None:
        """Tell the policy that it is not needed any more."""
        self._notify("close")

    def act(self, observation: Any, episodes: Sequence[Context]) -> Chunks:
        """Return the actions for a batch of observations, one chunk per row.

        Returns:
            An array of the action space's dtype and shape `(rows, chunk, *action)`, or a list of
            arrays `(chunk, *action)` if their lengths differ.

        Raises:
            ContractError: The policy returned something else.
        """
        if self.facts.batch in ("any", len(episodes)):
            return self._call(observation, episodes)
        return self.act_by_call(lambda part: _rows(observation, part), episodes)

    def act_by_call(self, observe: Callable[[slice], Any], episodes: Sequence[Context]) -> Chunks:
        """Return the actions for rows whose observations are made call by call.

        So a call sees the same memory whichever rows other calls are for: the last bits of a
        result can depend on how its inputs are aligned.

        Args:
            observe: Returns the observations of some of the rows.
            episodes: One per row.
        """
        count = len(episodes)
        size = count if self.facts.batch == "any" else self.facts.batch
        parts = [
            self._padded(observe(slice(at, at + size)), episodes[at : at + size], size)
            for at in range(0, count, size)
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def take_outliers(self) -> tuple[Outlier, ...]:
        """Return the numbers far outside its training data that the policy has met since."""
        take = getattr(self._policy, "take_outliers", None)
        return () if take is None else tuple(take())

    def take_remarks(self) -> tuple[str, ...]:
        """Return the sentences for the user that the policy has added since."""
        remarks = map(str, getattr(self._policy, "remarks", ()))
        new = tuple(remark for remark in remarks if remark not in self._told)
        self._told |= {*new}
        return new

    def take_about(self) -> dict[str, str]:
        """Return what a run is to record of the policy, as far as it has changed since."""
        take = getattr(self._policy, "take_about", None)
        return {} if take is None else {str(k): str(v) for k, v in take().items()}

    def _notify(self, method: str, *args: Context) -> None:
        """Call a method of the policy, if it has it; an error is too late for any record."""
        try:
            getattr(self._policy, method, lambda *_: None)(*args)
        except Exception:
            traceback.print_exc()

    def _padded(self, observation: Any, episodes: Sequence[Context], size: int) -> Chunks:
        """Call the policy with exactly `size` rows.

        The last row is repeated for filler episodes that have just begun. Their memories are as
        `start` leaves them, so the policy sees nothing unusual.
        """
        count = len(episodes)
        if count == size:
            return self._call(observation, episodes)
        fillers = [_filler(episodes[-1]) for _ in range(size - count)]
        for filler in fillers:
            self.start(filler)
        index = np.minimum(np.arange(size), count - 1)
        actions = self._call(_rows(observation, index), [*episodes, *fillers])[:count]
        for filler in fillers:
            self.finish(filler)
        return actions

    def _call(self, observation: Any, episodes: Sequence[Context]) -> Chunks:
        if self.facts.format == "lerobot":
            descriptions = [episode.description for episode in episodes]
            observation = to_lerobot(observation, descriptions)
        return self._checked(self._policy.act(observation, episodes), len(episodes))

    def _checked(self, answer: Any, rows: int) -> Chunks:
        if isinstance(answer, list | tuple):
            chunks = [_array(chunk) for chunk in answer]
            if len({chunk.shape for chunk in chunks}) > 1 and self._are_chunks(chunks):
                return self._checked_chunks(chunks, rows)
            # Tensors on any device, which numpy does not stack.
            answer = np.stack(chunks) if _are_alike(chunks) else answer
        return self._checked_array(_array(answer), rows)

    def _are_chunks(self, chunks: list[Array]) -> bool:
        """Whether the arrays are chunks of actions, which differ in their lengths."""
        return all(chunk.ndim > 0 and chunk.shape[1:] == self._shape for chunk in chunks)

    def _checked_chunks(self, chunks: list[Array], rows: int) -> list[Array]:
        if len(chunks) != rows:
            raise ContractError(f"act() returned {len(chunks)} chunks for {rows} rows.")
        empty = next((row for row, chunk in enumerate(chunks) if not len(chunk)), None)
        if empty is not None:
            raise ContractError(f"act() returned a chunk without actions for row {empty}.")
        return [self._cast(chunk) for chunk in chunks]

    def _checked_array(self, actions: Array, rows: int) -> Array:
        shape = actions.shape
        if shape == (rows, *self._shape):
            actions = actions.reshape(rows, 1, *self._shape)
        elif shape[:1] != (rows,) or shape[2:] != self._shape or shape[1:2] == (0,):
            expected = f"{(rows, *self._shape)} or {(rows, 'chunk', *self._shape)}"
            raise ContractError(f"act() returned actions of shape {shape}; expected {expected}.")
        return self._cast(actions)

    def _cast(self, actions: Array) -> Array:
        """Convert actions to the dtype of the action space.

        Raises:
            ContractError: It cannot represent them.
        """
        if actions.dtype is not self._castable:
            if not np.can_cast(actions.dtype, self._dtype, "same_kind"):
                problem = f"act() returned actions of dtype {actions.dtype}"
                raise ContractError(f"{problem}; the action space has {self._dtype}.")
            self._castable = actions.dtype
        if not self._within_range(actions):
            problem = "not finite" if self._dtype.kind == "f" else "too large"
            raise ContractError(f"act() returned an action that is {problem} for {self._dtype}.")
        return actions.astype(self._dtype)

    def _within_range(self, actions: Array) -> bool:
        """Whether the action space's dtype can represent all actions; NaN never counts as such."""
        least, most = self._range
        if actions.size <= _FEW:
            return all(least <= value <= most for value in actions.ravel().tolist())
        low, high = np.minimum.reduce(actions, None), np.maximum.reduce(actions, None)
        return bool(least <= low and high <= most)


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the greatest number of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return dtype.type(limits.min).item(), dtype.type(limits.max).item()


def _joined(parts: Sequence[Chunks]) -> Chunks:
    """Join the answers of several calls, whose chunks may have different lengths."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and _are_alike([array[0] for array in arrays]):
        return np.concatenate(arrays)
    return [chunk for part in parts for chunk in part]


def _are_alike(arrays: Sequence[Array]) -> bool:
    return len({(array.shape, array.dtype) for array in arrays}) == 1


def _filler(episode: Context) -> Context:
    """Make an episode that only fills a batch."""
    rng = make_rng(episode.seed, episode.task)
    return Context(episode.suite, episode.task, episode.description, PADDING, episode.seed, rng=rng)


def _array(answer: Any) -> Array:
    """Convert the answer to a numpy array, from any library."""
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
        raise ContractError(
            f"act() returned a {type(answer).__name__}, not an array: {exc}."
        ) from exc


def _rows(observation: Any, index: Any) -> Any:
    """Return some rows of a batch."""
    if isinstance(observation, Mapping):
        return {key: _rows(value, index) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_rows(value, index) for value in observation)
    if isinstance(observation, list):  # texts
        chosen = range(len(observation))[index] if isinstance(index, slice) else index
        return [observation[row] for row in chosen]
    return observation[index]
