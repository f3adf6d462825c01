"""What a request holds: which part of an observation goes under which of the server's keys.

    pixels/image=observation/image                  a leaf, under a key
    pixels/top:chw=images[cam_high]                 channels first, in a map below `images`
    robot_state/eef/pos+robot_state/eef/quat:axis_angle=observation/state      joined
    instruction=prompt                              the task, in words

Written by the user, or one of the presets below, each of which sends what a published loop sends.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.spaces import AnySpace, leaves
from envhub.wire.values import Array
from envhub_servers.pictures import is_picture, resize_with_pad, turn

Size = tuple[int, int]
"""Height and width of pictures."""
INSTRUCTION = "instruction"
"""Stands for the task, in words."""
WHOLE = "observation"
"""The name of an observation that is a single array."""
_TARGET = re.compile(r"[A-Za-z0-9_./-]{1,100}(\[[A-Za-z0-9_./-]{1,100}\])*")


@dataclass(frozen=True, slots=True)
class Preset:
    """What a published loop sends."""

    keys: str
    size: Size | None = None
    """Of pictures; None: as they are."""
    images: str | None = None
    """Which way up, as in the conventions; None: as they are."""
    steps: int | None = None
    """Actions per look."""
    loop: str = ""
    """Where it is published."""


PRESETS: Mapping[str, Preset] = {
    "libero": Preset(
        "pixels/image=observation/image,pixels/image2=observation/wrist_image,"
        "robot_state/eef/pos+robot_state/eef/quat:axis_angle+robot_state/gripper/qpos"
        "=observation/state,instruction=prompt",
        (224, 224),
        "upright",
        5,
        "openpi's examples/libero/main.py",
    ),
    "droid": Preset(
        "pixels/exterior_image_1_left=observation/exterior_image_1_left,"
        "pixels/wrist_image_left=observation/wrist_image_left,"
        "joint_position=observation/joint_position,"
        "gripper_position=observation/gripper_position,instruction=prompt",
        (224, 224),
        None,
        8,
        "openpi's examples/droid/main.py",
    ),
    "roboarena": Preset(
        "pixels/exterior_image_0_left=observation/exterior_image_0_left,"
        "pixels/exterior_image_1_left=observation/exterior_image_1_left,"
        "pixels/wrist_image_left=observation/wrist_image_left,"
        "joint_position=observation/joint_position,"
        "gripper_position=observation/gripper_position,instruction=prompt",
        (180, 320),
        None,
        None,
        "RoboArena's client",
    ),
    "aloha": Preset(
        "pixels/top:chw=images[cam_high],agent_pos=state",
        (224, 224),
        None,
        10,
        "openpi's examples/aloha_sim",
    ),
    "metaworld": Preset(
        "pixels=observation/image,agent_pos=observation/state,instruction=prompt", (224, 224)
    ),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A leaf of an observation, and what is made of it."""

    leaf: str
    change: str
    """One of `_CHANGES`, or ""."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the server, and what it holds."""

    parts: tuple[Part, ...]
    target: tuple[str, ...]
    """The key, and the keys of the maps below it."""

    @property
    def shown(self) -> str:
        """The key as it is written: `images[cam_high]`."""
        first, *rest = self.target
        return first + "".join(f"[{part}]" for part in rest)


class Request:
    """Makes the server's request of an observation."""

    def __init__(
        self, entries: Sequence[Entry], size: Size | None = None, *, turned: bool = False
    ) -> None:
        """Take the keys.

        Args:
            entries: From `read_keys`.
            size: Height and width of pictures; None: as they are.
            turned: Whether pictures are turned by 180 degrees.
        """
        self._entries = entries
        self._size = size
        self._turned = turned
        parts = [part.leaf for entry in entries for part in entry.parts]
        self.needs = frozenset(leaf for leaf in parts if leaf != INSTRUCTION)

    def check(self, space: AnySpace, name: str) -> None:
        """Compare the keys with the observations of a benchmark.

        Args:
            space: Of the observations.
            name: Of the benchmark.

        Raises:
            ContractError: A part is not there, or cannot be changed as is asked; has both lists.
        """
        known = {leaf.path: leaf for leaf in leaves(space)}
        for entry in self._entries:
            for part in entry.parts:
                if part.leaf == INSTRUCTION and len(entry.parts) == 1 and not part.change:
                    continue
                leaf = known.get(part.leaf)
                if leaf is None:
                    raise ContractError(
                        f"keys names {part.leaf!r}, which {name} does not have. "
                        f"{_compare(self._entries, known)}"
                    )
                wrong = _find_wrong(part, leaf.shape, leaf.dtype, joined=len(entry.parts) > 1)
                if wrong is not None:
                    raise ContractError(f"keys cannot send {part.leaf} {leaf.shape} {wrong}.")

    def of(self, leaf: Callable[[str], Any], instruction: str) -> dict[str, Any]:
        """Make a request.

        Args:
            leaf: Returns the value of a leaf of the observation.
            instruction: The task, in words.
        """
        request: dict[str, Any] = {}
        for entry in self._entries:
            values = [
                instruction if part.leaf == INSTRUCTION else self._changed(leaf(part.leaf), part)
                for part in entry.parts
            ]
            *above, last = entry.target
            into = request
            for key in above:
                into = into.setdefault(key, {})
            into[last] = values[0] if len(values) == 1 else np.concatenate(values)
        return request

    def _changed(self, value: Any, part: Part) -> Any:
        if isinstance(value, np.ndarray) and is_picture(value.shape, value.dtype):
            if self._turned:
                value = turn(value)
            if self._size is not None:
                value = resize_with_pad(value, *self._size)
        return value if not part.change else _CHANGES[part.change](value)


def read_keys(text: str) -> tuple[Entry, ...]:
    """Read `ours=theirs,...`.

    Raises:
        ContractError: The text is something else.
    """
    entries = []
    for pair in text.split(","):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (equals and ours and _TARGET.fullmatch(theirs)):
            raise ContractError(
                f"keys must be one of {', '.join(PRESETS)}, or be written ours=theirs,ours=theirs; "
                f"found {pair!r}."
            )
        target = tuple(part.rstrip("]") for part in theirs.split("["))
        entries.append(Entry(tuple(_read_part(part) for part in ours.split("+")), target))
    targets = [entry.target for entry in entries]
    if len({*targets}) < len(targets):
        raise ContractError(f"keys names one of the server's keys twice: {text!r}.")
    return tuple(entries)


def name_leaves(entries: Sequence[Entry], space: AnySpace) -> tuple[Entry, ...]:
    """Return the keys with the path of an observation that is a single array, where they name it.

    Args:
        entries: From `read_keys`.
        space: Of the observations.
    """
    if [leaf.path for leaf in leaves(space)] != [""]:
        return tuple(entries)
    return tuple(
        replace(
            entry,
            parts=tuple(
                replace(part, leaf="") if part.leaf == WHOLE else part for part in entry.parts
            ),
        )
        for entry in entries
    )


def read_targets(text: str) -> list[str]:
    """Return the server's keys of a text of keys."""
    return [entry.shown for entry in read_keys(text)]


def _compare(entries: Sequence[Entry], known: Iterable[str]) -> str:
    """Return both lists: what the keys send, and what a benchmark has."""
    wanted = ", ".join(f"{'+'.join(p.leaf for p in e.parts)}={e.shown}" for e in entries)
    return (
        f"The keys are {wanted}; the benchmark has "
        f"{', '.join(path or WHOLE for path in known)}, {INSTRUCTION}."
    )


def _read_part(text: str) -> Part:
    leaf, colon, change = text.strip().partition(":")
    if colon and change not in _CHANGES:
        raise ContractError(f"keys changes {leaf} by {change!r}; known are {', '.join(_CHANGES)}.")
    return Part(leaf, change)


def _find_wrong(part: Part, shape: tuple[int, ...], dtype: Any, *, joined: bool) -> str | None:
    if part.change == "axis_angle" and shape != (4,):
        return "as axis_angle: that takes a quaternion of 4 numbers"
    if part.change == "chw" and len(shape) != 3:
        return "as chw: that takes a picture"
    return "joined: only rows of numbers are" if joined and (len(shape) != 1 or not dtype) else None


def _axis_angle(quaternion: Array) -> Array:
    """Turn a quaternion (x, y, z, w) into axis times angle, as robosuite and openpi's loop do."""
    w = min(1.0, max(-1.0, float(quaternion[3])))
    denominator = math.sqrt(1.0 - w * w)
    if math.isclose(denominator, 0.0):
        return np.zeros(3)
    turned: Array = (quaternion[:3] * 2.0 * math.acos(w)) / denominator
    return turned


def _channels_first(picture: Array) -> Array:
    return np.ascontiguousarray(np.transpose(picture, (2, 0, 1)))


_CHANGES: Mapping[str, Callable[[Array], Array]] = {
    "axis_angle": _axis_angle,
    "chw": _channels_first,
}
