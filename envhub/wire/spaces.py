"""Gymnasium spaces on the wire, and the leaves that they are made of.

A space is sent as a tree of tagged structs; an array of bounds is sent as one number if all of its
values are equal. Received specs are checked by their types, the limits below and Gymnasium's own
constructors.
"""

import math
import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from gymnasium import spaces

from envhub.errors import UnknownName
from envhub.wire.values import DTYPES, portable

AnySpace = spaces.Space[Any]

Spaces = tuple[AnySpace, AnySpace]
"""The observation space and the action space."""

Outline = str | dict[str, "Outline"] | tuple["Outline", ...]
"""Nested as the values of a space are, with the path of each leaf in its place."""

_MAX_BYTES = 2**30
"""The size of one observation."""

_MAX_PARTS = 4096
"""The parts of one space: leaves, and the Dicts and Tuples around them."""

_MAX_TEXT = 2**20
"""Characters of one text."""

_MAX_CHARSET = 2**16
"""Characters that a text may be made of."""

_CHARSET_WEIGHT = 2**10
"""What a character of a charset counts as, in bytes: Gymnasium keeps it in four collections."""

_FOREIGN_TEXT = 4096
"""Characters of a text, as the host is told, if its space is of a class that only the env knows."""

Size = Annotated[int, msgspec.Meta(ge=1, le=2**31)]

_Extent = Annotated[int, msgspec.Meta(ge=0, le=2**31)]

Shape = Annotated[tuple[_Extent, ...], msgspec.Meta(max_length=32)]


class BoxSpec(msgspec.Struct, tag="box", frozen=True):
    """A `Box`."""

    dtype: str
    shape: Shape
    low: Any
    high: Any
    below: Any = None
    """Where it is bounded below; only for integers, which have no infinite bound to express it."""
    above: Any = None
    """Where it is bounded above; only for integers."""


class DiscreteSpec(msgspec.Struct, tag="discrete", frozen=True):
    """A `Discrete`."""

    n: Any
    start: Any


class MultiDiscreteSpec(msgspec.Struct, tag="multi_discrete", frozen=True):
    """A `MultiDiscrete`."""

    nvec: Any
    start: Any


class MultiBinarySpec(msgspec.Struct, tag="multi_binary", frozen=True):
    """A `MultiBinary`."""

    n: Size | Annotated[tuple[Size, ...], msgspec.Meta(max_length=32)]


class TextSpec(msgspec.Struct, tag="text", frozen=True):
    """A `Text`."""

    min_length: Annotated[int, msgspec.Meta(ge=0, le=_MAX_TEXT)]
    max_length: Annotated[int, msgspec.Meta(ge=0, le=_MAX_TEXT)]
    charset: Annotated[str, msgspec.Meta(max_length=_MAX_CHARSET)]


class DictSpec(msgspec.Struct, tag="dict", frozen=True):
    """A `Dict`, in its order."""

    items: Annotated[tuple[tuple[str, "SpaceSpec"], ...], msgspec.Meta(max_length=_MAX_PARTS)]
    sort_keys: bool = True
    """Whether Gymnasium sorts the keys of spaces that it derives from this one."""


class TupleSpec(msgspec.Struct, tag="tuple", frozen=True):
    """A `Tuple`."""

    items: Annotated[tuple["SpaceSpec", ...], msgspec.Meta(max_length=_MAX_PARTS)]


SpaceSpec = (
    BoxSpec | DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec | TextSpec | DictSpec | TupleSpec
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array or text of a space."""

    path: str
    """Keys and indices joined by `/`; empty for a space that is a leaf itself."""
    dtype: np.dtype[Any] | None
    """None for text, which has no fixed size and travels in messages."""
    shape: tuple[int, ...]
    scalar: bool = False
    """Whether a value is a number and not an array."""

    @property
    def nbytes(self) -> int:
        """The size of one value."""
        return 0 if self.dtype is None else math.prod(self.shape) * self.dtype.itemsize


class UnsupportedSpace(TypeError):
    """A space that cannot be sent to another process."""


def encode_space(space: AnySpace, path: str = "") -> SpaceSpec:
    """Turn a space into a message. A space of another class whose samples are text is sent as text.

    Raises:
        UnsupportedSpace: A part of it cannot be sent; the error names the part and its path.
    """
    match space:
        case spaces.Box():
            _check_dtype(space, path)
            return _encode_box(space)
        case spaces.Discrete():
            _check_dtype(space, path)
            return DiscreteSpec(portable(space.n), portable(space.start))
        case spaces.MultiDiscrete():
            _check_dtype(space, path)
            return MultiDiscreteSpec(portable(space.nvec), portable(space.start))
        case spaces.MultiBinary():
            n = space.n
            return MultiBinarySpec(n if isinstance(n, int) else tuple(int(size) for size in n))
        case spaces.Text():
            return _encode_text(space, path)
        case spaces.Dict():
            for key in space:
                if not _is_key(key):
                    raise UnsupportedSpace(f"key {key!r} of a Dict at {path!r}: use text without /")
            items = tuple((k, encode_space(v, _join(path, k))) for k, v in space.items())
            return DictSpec(items, getattr(space, "sort_keys", True))
        case spaces.Tuple():
            parts = enumerate(space.spaces)
            return TupleSpec(tuple(encode_space(v, _join(path, str(i))) for i, v in parts))
        case _ if _gives_text(space):
            return TextSpec(0, _FOREIGN_TEXT, string.printable)
        case _:
            name = type(space).__name__
            raise UnsupportedSpace(
                f"space {name}{f' at {path!r}' if path else ''} cannot cross to another process; "
                "use Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple"
            )


def decode_space(spec: SpaceSpec) -> AnySpace:
    """Turn a message into a space.

    Raises:
        ValueError: The message does not describe a valid space, or the space is too large.
    """
    try:
        _check_size(spec)
        space: AnySpace = _decode(spec)
    except (TypeError, AssertionError, OverflowError, RecursionError) as exc:
        raise ValueError(f"not a valid space: {exc}") from exc
    return space


def decode_spaces(observation: SpaceSpec, action: SpaceSpec) -> Spaces:
    """Decode an observation space and an action space.

    Raises:
        ValueError: One of them is not a valid space.
    """
    return decode_space(observation), decode_space(action)


def leaves(space: AnySpace, path: str = "") -> tuple[Leaf, ...]:
    """Return the leaves of a space, in its order."""
    match space:
        case spaces.Dict():
            return tuple(f for k, v in space.items() for f in leaves(v, _join(path, k)))
        case spaces.Tuple():
            parts = enumerate(space.spaces)
            return tuple(f for i, v in parts for f in leaves(v, _join(path, str(i))))
        case spaces.Text():
            return (Leaf(path, None, ()),)
        case spaces.Discrete():
            return (Leaf(path, space.dtype, (), scalar=True),)
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return (Leaf(path, space.dtype, space.shape or ()),)
        case _ if _gives_text(space):
            return (Leaf(path, None, ()),)
        case _:
            return (Leaf(path, space.dtype, space.shape or ()),)


def leaf_keys(
    space: AnySpace, path: str = "", before: tuple[str | int, ...] = ()
) -> dict[str, tuple[str | int, ...]]:
    """Return the keys and indices that lead to each leaf in a value of the space, by leaf path."""
    match space:
        case spaces.Dict():
            items: list[tuple[str | int, AnySpace]] = list(space.items())
        case spaces.Tuple():
            items = list(enumerate(space.spaces))
        case _:
            return {path: before}
    keys: dict[str, tuple[str | int, ...]] = {}
    for key, part in items:
        keys |= leaf_keys(part, _join(path, str(key)), (*before, key))
    return keys


def select_leaves(space: AnySpace, needs: Collection[str]) -> AnySpace:
    """Return a Dict space with some of its parts, in its order.

    Args:
        space: The space of an observation.
        needs: The paths of leaves, or of Dicts with all of their leaves.

    Raises:
        UnknownName: It has no part of that name.
    """
    parts = _paths(space)
    for name in needs:
        if name not in parts:
            raise UnknownName("part of the observation", name, parts)
    selected = _select(space, needs)
    return spaces.Dict() if selected is None else selected


def outline_of(space: AnySpace, path: str = "") -> Outline:
    """Return the nesting of a space's values, with the path of each leaf in its place."""
    match space:
        case spaces.Dict():
            return {k: outline_of(v, _join(path, k)) for k, v in space.items()}
        case spaces.Tuple():
            return tuple(outline_of(v, _join(path, str(i))) for i, v in enumerate(space.spaces))
        case _:
            return path


def unflatten(outline: Outline, values: Mapping[str, Any]) -> Any:
    """Build a value of a space from the values of its leaves."""
    if type(outline) is str:
        return values[outline]
    if type(outline) is dict:
        return {key: unflatten(part, values) for key, part in outline.items()}
    return tuple([unflatten(part, values) for part in outline])


def _paths(space: AnySpace, path: str = "") -> list[str]:
    """The paths of the parts of a Dict, and of the parts of Dicts in it."""
    if not isinstance(space, spaces.Dict):
        return []
    below = [(_join(path, key), part) for key, part in space.items()]
    return [name for own, part in below for name in (own, *_paths(part, own))]


def _select(space: AnySpace, needs: Collection[str], path: str = "") -> AnySpace | None:
    if path in needs:
        return space
    if not isinstance(space, spaces.Dict):
        return None
    below = [(key, _select(part, needs, _join(path, key))) for key, part in space.items()]
    kept = [(key, part) for key, part in below if part is not None]
    if not kept:
        return None
    selected = spaces.Dict(kept)
    selected.sort_keys = getattr(space, "sort_keys", True)
    return selected


def _decode(spec: SpaceSpec) -> Any:
    match spec:
        case BoxSpec():
            return _decode_box(spec)
        case DiscreteSpec():
            n, start = _scalar(spec.n), _scalar(spec.start)
            if start.dtype != n.dtype:
                raise ValueError("the dtype of start differs from that of n")
            return spaces.Discrete(n, start=start, dtype=n.dtype.type)
        case MultiDiscreteSpec():
            nvec, starts = _whole_array(spec.nvec), _whole_array(spec.start)
            return spaces.MultiDiscrete(nvec, nvec.dtype.type, start=starts)
        case MultiBinarySpec():
            return spaces.MultiBinary(spec.n)
        case TextSpec():
            return spaces.Text(spec.max_length, min_length=spec.min_length, charset=spec.charset)
        case DictSpec():
            return _decode_dict(spec)
        case TupleSpec():
            return spaces.Tuple([_decode(item) for item in spec.items])


def _decode_box(spec: BoxSpec) -> AnySpace:
    dtype = np.dtype(spec.dtype)
    low, high = (_decode_bound(bound, dtype, spec.shape) for bound in (spec.low, spec.high))
    box = spaces.Box(low, high, spec.shape, dtype.type)
    if spec.below is not None:
        box.bounded_below = _decode_bound(spec.below, np.dtype(np.bool_), spec.shape)
    if spec.above is not None:
        box.bounded_above = _decode_bound(spec.above, np.dtype(np.bool_), spec.shape)
    return box


def _decode_dict(spec: DictSpec) -> AnySpace:
    keys = [key for key, _ in spec.items]
    if len(set(keys)) < len(keys) or not all(_is_key(key) for key in keys):
        raise ValueError(f"a Dict cannot have the keys {keys}")
    # Gymnasium sorts the keys of a plain dict, but keeps the order of pairs.
    space = spaces.Dict([(key, _decode(item)) for key, item in spec.items])
    space.sort_keys = spec.sort_keys
    return space


def _decode_bound(bound: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if not isinstance(bound, np.ndarray | np.generic) or bound.dtype != dtype:
        raise ValueError("the bounds have another dtype than the Box")
    if isinstance(bound, np.ndarray) and bound.shape != shape:
        raise ValueError("the bounds have another shape than the Box")
    if isinstance(bound, np.number):
        return bound  # the Box of an image is made ten times faster from a number than an array
    return np.broadcast_to(bound, shape).copy()


def _encode_box(space: spaces.Box) -> BoxSpec:
    spec = BoxSpec(space.dtype.str, space.shape, _bound(space.low), _bound(space.high))
    if space.dtype.kind != "i" or space.is_bounded():
        return spec
    below, above = _bound(space.bounded_below), _bound(space.bounded_above)
    return msgspec.structs.replace(spec, below=below, above=above)


def _encode_text(space: spaces.Text, path: str) -> TextSpec:
    charset = "".join(space.character_list)
    if space.max_length > _MAX_TEXT or len(charset) > _MAX_CHARSET:
        raise UnsupportedSpace(
            f"a Text of up to {space.max_length} characters, {len(charset)} different ones, at "
            f"{path!r} cannot cross to another process; allow at most {_MAX_TEXT}, and "
            f"{_MAX_CHARSET} different ones"
        )
    return TextSpec(space.min_length, space.max_length, charset)


def _bound(bound: np.ndarray[Any, Any]) -> Any:
    """Reduce equal bounds to one number: an array of them is as large as the observation."""
    uniform = bound.size > 0 and bool((bound == bound.flat[0]).all())
    return portable(bound.flat[0] if uniform else bound)


def _scalar(value: Any) -> Any:
    if not isinstance(value, np.integer):
        raise ValueError("not a whole number")
    return value


def _whole_array(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        raise ValueError("not an array of whole numbers")
    return value


def _check_size(spec: SpaceSpec) -> None:
    """Refuse a space that is too large, before an array is made of it.

    A small message can describe arrays that do not fit into memory.
    """
    total = 0
    for count, size in enumerate(_sizes(spec), start=1):
        total += size
        if count > _MAX_PARTS or total > _MAX_BYTES:
            raise ValueError("the space is too large")


def _sizes(spec: SpaceSpec) -> Iterator[int]:
    """Yield the size of one value of each part, 0 for parts that cannot be large."""
    match spec:
        case BoxSpec():
            if spec.dtype not in DTYPES:
                raise ValueError(f"a Box cannot have the dtype {spec.dtype!r}")
            yield math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
        case MultiBinarySpec():
            yield spec.n if isinstance(spec.n, int) else math.prod(spec.n)
        case TextSpec():
            yield len(spec.charset) * _CHARSET_WEIGHT
        case DictSpec() | TupleSpec():
            yield 0
            for item in spec.items:
                yield from _sizes(item[1] if isinstance(item, tuple) else item)
        case _:
            yield 0


def _gives_text(space: AnySpace) -> bool:
    """Whether a space of the benchmark's own class is one of texts, e.g. of instructions."""
    if type(space).__module__.startswith("gymnasium."):
        return False
    try:
        return isinstance(space.sample(), str)
    except NotImplementedError:  # `Space` itself has no samples
        return False


def _is_key(key: object) -> bool:
    """Whether a key of a Dict may be part of a path."""
    return isinstance(key, str) and bool(key) and "/" not in key


def _check_dtype(space: AnySpace, path: str) -> None:
    if np.dtype(space.dtype).str not in DTYPES:
        name = type(space).__name__
        raise UnsupportedSpace(
            f"a {name} of dtype {space.dtype} at {path!r} cannot cross to another process"
        )


def _join(path: str, part: str) -> str:
    return f"{path}/{part}" if path else part
