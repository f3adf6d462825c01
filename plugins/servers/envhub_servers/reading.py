"""What a request to `envhub serve` holds, checked against what the policy reads."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from envhub.declarations import NAME
from envhub.errors import ContractError, UsageError
from envhub.wire.messages import EpisodeInfo
from envhub.wire.spaces import Leaf
from envhub_servers.keys import INSTRUCTION, PRESETS, WHOLE, Entry, read_keys
from envhub_servers.pictures import is_picture

MAX_TEXT = 20_000
"""Characters of an instruction, or of another text."""
_LIBERO = (
    "observation.images.image=observation/image,"
    "observation.images.image2=observation/wrist_image,"
    "observation.state=observation/state,instruction=prompt"
)
CONVERTED: Mapping[tuple[str, str], str] = {
    ("openpi", "libero"): _LIBERO,
    ("roboarena", "libero"): _LIBERO,
    ("vla-eval", "libero"): (
        "observation.images.image=images[agentview],observation.images.image2=images[wrist],"
        "observation.state=states,instruction=task_description"
    ),
}
"""What clients of a benchmark send to a policy that reads LeRobot's names, by protocol."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which keys of a request hold the leaves that the policy reads."""

    text: str
    """The keys, as the client writes them."""
    entries: tuple[Entry, ...]
    leaves: Mapping[str, Leaf]

    @property
    def keys(self) -> list[str]:
        """The keys, as they are written."""
        return [entry.shown for entry in self.entries]

    def fill(self, request: Mapping[str, Any], into: Mapping[str, Any]) -> dict[str, str]:
        """Write a request's arrays into the memory of its connection; return its texts.

        Args:
            request: From a client, who is not trusted.
            into: The arrays by leaf.

        Raises:
            ContractError: Something is missing, or has another shape or dtype.
        """
        texts: dict[str, str] = {}
        for entry in self.entries:
            if entry.parts[0].leaf == INSTRUCTION:
                continue
            value = _found(request, entry, self.keys)
            for leaf, part in self._split(entry, value):
                if leaf.dtype is None:
                    texts[leaf.path] = _text(part, entry.shown)
                else:
                    into[leaf.path][0] = _fitted(part, leaf, entry.shown)
        return texts

    def instruction(self, request: Mapping[str, Any]) -> str:
        """Return the task, in words; "" if the request says none."""
        entry = next((e for e in self.entries if e.parts[0].leaf == INSTRUCTION), None)
        if entry is None:
            return ""
        value: Any = request
        for key in entry.target:
            value = value.get(key) if isinstance(value, Mapping) else None
        return "" if value is None else _text(value, entry.shown)

    def _split(self, entry: Entry, value: Any) -> list[tuple[Leaf, Any]]:
        leaves = [self.leaves[part.leaf] for part in entry.parts]
        if len(leaves) == 1:
            chw = entry.parts[0].change == "chw" and isinstance(value, np.ndarray)
            return [(leaves[0], np.moveaxis(value, 0, -1) if chw and value.ndim == 3 else value)]
        sizes = [math.prod(leaf.shape) for leaf in leaves]
        joined = np.asarray(value)
        if joined.shape != (sum(sizes),):
            raise ContractError(
                f"{entry.shown} has the shape {joined.shape}; the policy reads ({sum(sizes)},)."
            )
        return list(zip(leaves, np.split(joined, np.cumsum(sizes)[:-1]), strict=True))


def make_reading(text: str | None, leaves: Sequence[Leaf], protocol: str) -> Reading:
    """Compare keys with what the policy reads.

    Args:
        text: `ours=theirs,...`, a preset, or None: the names of the leaves themselves.
        leaves: What the policy reads.
        protocol: Of the server; vla-eval has maps of pictures and states.

    Raises:
        UsageError: They do not hold it; has both lists.
    """
    written = _written(text, protocol) if text else _own_keys(leaves, protocol)
    try:
        entries = read_keys(written)
    except ContractError as exc:
        raise UsageError(f"--{exc}") from exc
    known = {leaf.path or WHOLE: leaf for leaf in leaves}
    held = {part.leaf for entry in entries for part in entry.parts}
    changed = any(part.change not in ("", "chw") for entry in entries for part in entry.parts)
    if held - {INSTRUCTION} != {*known} or changed:
        raise UsageError(
            f"--keys must hold what the policy reads, and no more: {', '.join(known)}. "
            f"{'What is turned into axis_angle cannot be turned back. ' if changed else ''}"
            f"Found {', '.join(sorted(held))}."
        )
    return Reading(written, entries, known)


def _written(text: str, protocol: str) -> str:
    """Return the keys of a preset, or those that the user has written."""
    preset = PRESETS.get(text)
    return CONVERTED.get((protocol, text), text if preset is None else preset.keys)


def _own_keys(leaves: Sequence[Leaf], protocol: str) -> str:
    """Return the keys of a server whose user names none."""
    if protocol != "vla-eval":
        own = ",".join(f"{leaf.path or WHOLE}={leaf.path or WHOLE}" for leaf in leaves)
        return f"{own},{INSTRUCTION}=prompt" if own else f"{INSTRUCTION}=prompt"
    pictures = [leaf for leaf in leaves if leaf.dtype and is_picture(leaf.shape, leaf.dtype)]
    states = [leaf for leaf in leaves if leaf not in pictures]
    keys = [f"{leaf.path or WHOLE}=images[{_last(leaf)}]" for leaf in pictures]
    if len(states) == 1:
        keys.append(f"{states[0].path or WHOLE}=states")
    else:
        keys += [f"{leaf.path}=states[{_last(leaf)}]" for leaf in states]
    return ",".join([*keys, f"{INSTRUCTION}=task_description"])


def _last(leaf: Leaf) -> str:
    return leaf.path.rpartition("/")[2].rpartition(".")[2] or WHOLE


@dataclass(frozen=True, slots=True)
class Told:
    """What the key `envhub` of a request says of its episode."""

    suite: str
    task: str
    index: int
    seed: int
    step: int

    def episode(self, number: int, instruction: str) -> EpisodeInfo:
        """Return the episode, whose instruction the client has chosen."""
        return EpisodeInfo(
            number, self.suite, self.task, instruction, self.index, self.seed, fixed=True
        )


def read_context(said: Any) -> Told:
    """Read the key `envhub` of a request.

    Raises:
        ContractError: It does not say what a policy is told of an episode.
    """
    form = "The key envhub must have suite, task, index, seed and step"
    if not isinstance(said, Mapping) or not {*Told.__slots__} <= {*said}:
        raise ContractError(f"{form}.")
    for name in ("suite", "task"):
        if not isinstance(said[name], str) or not NAME.fullmatch(said[name]):
            raise ContractError(f"{form}: {name} is no name.")
    for name in ("index", "seed", "step"):
        if type(said[name]) is not int or not 0 <= said[name] < 2**63:
            raise ContractError(f"{form}: {name} is no whole number.")
    return Told(**{name: said[name] for name in Told.__slots__})


def make_context(number: int, instruction: str, index: int) -> EpisodeInfo:
    """Return an episode of a client that says nothing of it: with a seed of its own."""
    return EpisodeInfo(
        number, "served", "served", instruction, index, secrets.randbits(31), fixed=True
    )


def _found(request: Mapping[str, Any], entry: Entry, keys: list[str]) -> Any:
    value: Any = request
    for key in entry.target:
        if not isinstance(value, Mapping) or key not in value:
            raise ContractError(
                f"The request has no {entry.shown}. It has {', '.join(request) or 'nothing'}; the "
                f"policy reads {', '.join(keys)}."
            )
        value = value[key]
    return value


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ContractError(f"{key} must be a text of at most {MAX_TEXT} characters.")
    return value


def _fitted(value: Any, leaf: Leaf, key: str) -> Any:
    array = (
        np.asarray(value)
        if isinstance(value, np.ndarray | np.generic | list | int | float)
        else None
    )
    if array is None or array.dtype.kind not in "biuf":
        raise ContractError(f"{key} must be an array of numbers, found {type(value).__name__}.")
    if array.shape != leaf.shape:
        raise ContractError(f"{key} has the shape {array.shape}; the policy reads {leaf.shape}.")
    assert leaf.dtype is not None
    if not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
        raise ContractError(f"{key} has the dtype {array.dtype}; the policy reads {leaf.dtype}.")
    return array
