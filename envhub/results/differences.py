"""How two observations, two courses of an episode and two series of actions differ. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from envhub.results.arrays import STEP
from envhub.wire.values import Array

Observed = Mapping[str, Array]
"""The leaves of an observation."""

ROUNDING = 1e-6
"""How far numbers of a state are apart by rounding, absolutely or in relation to them: float32 has
1.2e-7, and other kernels of OpenBLAS gave 2e-16 in float64."""
_MEAN, _LARGEST = 0.5, 32
"""Levels of 255 that pictures differ by at most, on average and at worst, where only the last bits
of their drawing differ: MuJoCo 3.3.0 and 3.3.7 gave 0.2 and 14 in LIBERO's libero_10."""
_JUMP = 100.0
"""A difference that is so many times larger than any before did not grow out of it."""

Finding = Literal["same", "same to rounding", "differs"]
_ORDER: tuple[Finding, ...] = ("same", "same to rounding", "differs")


def worst(findings: Sequence[Finding]) -> Finding:
    """Return the finding that says most."""
    return max(findings, key=_ORDER.index, default="same")


@dataclass(frozen=True, slots=True)
class PictureDifference:
    """A picture of a first observation, under A's and under B's versions."""

    suite: str
    task: str
    episode: int
    leaf: str
    a: Array
    b: Array

    @property
    def alike(self) -> bool:
        """Whether both have one size."""
        return bool(self.a.shape == self.b.shape)

    @property
    def brighter(self) -> float:
        """How many levels B is brighter than A on average."""
        return float(np.mean(self.b, dtype=float) - np.mean(self.a, dtype=float))

    def _gaps(self) -> Array:
        return np.abs(self.a.astype(np.int16) - self.b)

    @property
    def mean(self) -> float:
        """The mean difference of a channel of a pixel, in levels."""
        return float(self._gaps().mean()) if self.alike else 255.0

    @property
    def largest(self) -> int:
        """The largest one."""
        return int(self._gaps().max()) if self.alike else 255

    @property
    def finding(self) -> Finding:
        """Whether they differ by more than the last bits of drawing."""
        if self.alike and np.array_equal(self.a, self.b):
            return "same"
        small = self.mean <= _MEAN and self.largest <= _LARGEST
        return "same to rounding" if small else "differs"

    @property
    def words(self) -> str:
        """How B differs from A."""
        if not self.alike:
            return f"{_size(self.a)} in A, {_size(self.b)} in B"
        for words, turned in _turned(self.a):
            if np.array_equal(turned, self.b):
                return words
        apart = f"{self.mean:.1f} apart on average and {self.largest} at most"
        if self.finding == "same to rounding":
            return f"{apart}, in levels of 255"
        shade = f"{abs(self.brighter):.1f} levels {'brighter' if self.brighter > 0 else 'darker'}"
        return f"{shade}, {apart}"

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "suite": self.suite,
            "task": self.task,
            "episode": self.episode,
            "leaf": self.leaf,
            "finding": self.finding,
            "mean": self.mean,
            "largest": self.largest,
            "brighter": self.brighter,
            "words": self.words,
        }


def side_by_side(found: PictureDifference) -> Array:
    """Return A, B and their difference in one picture of three channels."""
    one, other = (_three_channels(each) for each in (found.a, found.b))
    parts = [one, other]
    if found.alike:
        parts.append(np.abs(one.astype(np.int16) - other).astype(np.uint8))
    height = max(len(part) for part in parts)
    padded = [np.pad(p, ((0, height - len(p)), (0, 4), (0, 0)), constant_values=255) for p in parts]
    return np.concatenate(padded, axis=1)[:, :-4]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the courses of one episode part, when the same actions are taken in other versions."""

    task: str
    episode: int
    whose: str
    """The run whose actions were taken: A or B."""
    steps: int
    """Those that were compared."""
    first: int | None = None
    """The first step, from 1, that is not bit-equal; 0: the reset."""
    apart: int | None = None
    """The first step at which a state is apart by more than rounding."""
    leaf: str | None = None
    """The number that is farthest apart then, such as `agent_pos[1]`."""
    by: float = 0.0
    """How far it is apart then."""
    largest: float = 0.0
    """The largest difference of a state within the episode."""
    reward: int | None = None
    """The first step whose reward differs by more than rounding."""
    success: int | None = None
    """The first step in which only one succeeds, or ends."""

    @property
    def finding(self) -> Finding:
        """Whether they part by more than rounding."""
        if self.apart is not None or self.reward is not None or self.success is not None:
            return "differs"
        return "same" if self.first is None else "same to rounding"

    @property
    def words(self) -> str:
        """What was found, after the name of the episode."""
        if self.finding == "same":
            return f"bit-equal in all {self.steps} steps"
        if self.finding == "same to rounding":
            return f"equal to rounding in all {self.steps} steps (at most {self.largest:.1g} apart)"
        begin = f"equal to rounding until step {self.apart}" if self.apart else "apart at the reset"
        parts = []
        if self.apart is not None:
            parts.append(f"{begin}, where {self.leaf} is {self.by:.1g} apart")
            if self.largest > self.by:
                parts.append(f"at most {self.largest:.2g} apart later")
        if self.reward is not None:
            parts.append(f"rewards part at step {self.reward}")
        if self.success is not None:
            parts.append(f"success or end part at step {self.success}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        names = ("task", "episode", "whose", "steps", "first", "apart", "leaf", "by", "largest")
        content = {name: getattr(self, name) for name in names}
        return content | {"reward": self.reward, "success": self.success, "finding": self.finding}


def is_picture(value: object) -> bool:
    """Whether a leaf of an observation is a picture."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.uint8
        and value.ndim == 3
        and value.shape[2] in (1, 3)
    )


def find_divergence(
    where: tuple[str, int, str],
    a: Sequence[Observed],
    b: Sequence[Observed],
    steps: tuple[Array | None, Array | None],
) -> Divergence:
    """Compare two courses of an episode.

    Args:
        where: The task, the episode and the run whose actions were taken.
        a: The states at the reset and after every step, in one version.
        b: Those in another one.
        steps: Rewards and flags of both.
    """
    first = apart = None
    leaf, by, largest = None, 0.0, 0.0
    for step, (one, other) in enumerate(zip(a, b, strict=False)):
        name, gap, beyond, equal = _compare_states(one, other)
        if not equal and first is None:
            first = step
        if beyond and apart is None:
            apart, leaf, by = step, name, gap
        largest = max(largest, gap)
    old, new = (np.zeros(0, STEP) if each is None else each for each in steps)
    count = min(len(old), len(new))
    rewards = old["reward"][:count], new["reward"][:count]
    reward = _first(~np.isclose(*rewards, ROUNDING, ROUNDING))
    names = ("success", "terminated", "truncated")
    success = _first(np.any([old[name][:count] != new[name][:count] for name in names], axis=0))
    if success is None and len(old) != len(new):
        success = count + 1
    if first is None:
        first = _first(rewards[0] != rewards[1])
    return Divergence(*where, count, first, apart, leaf, by, largest, reward, success)


def _first(found: Array) -> int | None:
    """Return the first step, from 1, that something is true of."""
    return int(np.argmax(found)) + 1 if found.any() else None


@dataclass(frozen=True, slots=True)
class ActionDifference:
    """Where two policies part that saw the same until then."""

    task: str
    episode: int
    steps: int
    first: int | None = None
    """The first step, from 1, whose action is not bit-equal."""
    by: float = 0.0
    """How far the actions are apart then."""
    apart: int | None = None
    """The first step at which they are apart by more than rounding."""
    gap: float = 0.0
    """How far they are apart then."""
    before: float = 0.0
    """How far they were apart at most before that step."""

    @property
    def finding(self) -> Finding:
        """Whether they part by more than rounding that grows."""
        if self.first is None:
            return "same"
        if self.apart is None:
            return "same to rounding"
        grown = self.may_grow and self.gap <= _JUMP * self.before
        return "same to rounding" if grown else "differs"

    @property
    def may_grow(self) -> bool:
        """Whether the actions differed in their last digits before they were apart, if they are."""
        return self.first is None or self.apart is None or self.first < self.apart

    @property
    def words(self) -> str:
        """What was found, after the name of the episode."""
        if self.finding == "same":
            return f"bit-equal in all {self.steps} steps"
        if self.finding == "same to rounding":
            grown = f", which grows to {self.gap:.1g} by step {self.apart}" if self.apart else ""
            return f"from step {self.first} on they part by {self.by:.1g}{grown}"
        return f"the actions part at step {self.apart}, by {self.gap:.2g}"


_ACTION = 1e-3
"""How far actions of one policy are apart by rounding; batches of 8 rows gave 1e-5."""


def compare_actions(where: tuple[str, int], a: Array | None, b: Array | None) -> ActionDifference:
    """Compare the actions of one episode; they saw the same until the first that differs.

    Args:
        where: The task and the episode.
        a: The actions of A.
        b: Those of B.
    """
    if a is None or b is None or a.shape[1:] != b.shape[1:]:
        same = a is b
        return ActionDifference(*where, 0, None if same else 1, 0.0, None if same else 1)
    count = min(len(a), len(b))
    if not count:
        return ActionDifference(*where, 0)
    one, other = (each[:count].reshape(count, -1).astype(float) for each in (a, b))
    gaps = np.nan_to_num(np.abs(one - other), nan=np.inf).max(axis=1, initial=0.0)
    if not gaps.any():
        return ActionDifference(*where, count)
    first = int(np.flatnonzero(gaps)[0])
    close = np.isclose(one, other, _ACTION, _ACTION).all(axis=1)
    apart = None if close.all() else int(np.argmin(close))
    before = float(gaps[:apart].max(initial=0.0))
    return ActionDifference(
        *where,
        count,
        first + 1,
        float(gaps[first]),
        None if apart is None else apart + 1,
        0.0 if apart is None else float(gaps[apart]),
        before,
    )


def _compare_states(a: Observed, b: Observed) -> tuple[str | None, float, bool, bool]:
    """Compare the numbers of two observations.

    Returns:
        The number that is farthest apart, how far, whether any is by more than rounding, and
        whether all are equal.
    """
    found: tuple[str | None, float] = (None, 0.0)
    beyond, equal = False, True
    for path in (*a, *(path for path in b if path not in a)):
        one, other = a.get(path), b.get(path)
        if one is None or other is None or one.shape != other.shape:
            return path, np.inf, True, False
        if np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            continue
        equal = False
        first, second = one.astype(float), other.astype(float)
        gaps = np.nan_to_num(np.abs(first - second), nan=np.inf)
        beyond |= not np.allclose(first, second, ROUNDING, ROUNDING, equal_nan=True)
        place = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
        gap = float(gaps[place])
        if gap > found[1]:
            index = f"[{', '.join(map(str, map(int, place)))}]" if place else ""
            found = f"{path or 'the observation'}{index}", gap
    return *found, beyond, equal


def compare_first_states(a: Observed, b: Observed) -> tuple[Finding, str]:
    """Compare the numbers of two first observations; return the finding and its words."""
    name, gap, beyond, equal = _compare_states(a, b)
    if equal:
        return "same", ""
    return ("differs" if beyond else "same to rounding"), f"{name} is {gap:.1g} apart"


def _turned(picture: Array) -> list[tuple[str, Array]]:
    return [
        ("turned by 180 degrees", picture[::-1, ::-1]),
        ("upside down", picture[::-1]),
        ("mirrored", picture[:, ::-1]),
        ("red and blue exchanged", picture[:, :, ::-1]),
    ]


def _size(picture: Array) -> str:
    return f"{picture.shape[0]}x{picture.shape[1]}"


def _three_channels(picture: Array) -> Array:
    return np.broadcast_to(picture, (*picture.shape[:2], 3))
