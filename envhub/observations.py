"""Converting raw batched observations to the batch that LeRobot policies take.

The names are those of LeRobot's own loop (`preprocess_observation` in `lerobot/envs/utils.py` at
0447e00, the IsaacLab step in `lerobot/processor/env_processor.py` at 03f2cae), so that published
policies find the inputs they were trained on. Unlike LeRobot, it leaves no part of an observation
out, and raises an `InvalidObservation` that names the leaf if a leaf cannot be converted.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from envhub.errors import InvalidObservation

if TYPE_CHECKING:
    import gymnasium as gym

Kind = Literal["image", "state", "environment_state", "robot_state", "text", "other"]

_Path = tuple[str, ...]

_NAMED = "observation."
_CAMERAS = ("pixels", "camera_obs", "image", "images")

_KINDS: dict[str, Kind] = {"environment_state": "environment_state", "robot_state": "robot_state"}

_CHANNELS = (1, 3, 4)

_IMAGE = "uint8 of shape ([rows,] height, width, channels) with 1, 3 or 4 channels"

# The state that LeRobot's IsaacLab step takes from `policy` by default.
_ISAACLAB_STATE = ("policy", "robot_joint_pos")


@dataclass(frozen=True, slots=True)
class Feature:
    """One array of a converted observation."""

    name: str
    """LeRobot's name. Nested names are joined with dots: `observation.robot_state.eef.pos`."""
    source: str
    """The leaf of the raw observation, e.g. `pixels/image2`; empty if that is a single array."""
    shape: tuple[int, ...]
    """The shape after conversion, without the batch dimension: channels first for images."""
    kind: Kind


def to_lerobot(
    observation: Mapping[str, Any] | NDArray[Any],
    descriptions: Sequence[str],
) -> dict[str, Any]:
    """Turn a raw batched observation into the batch that LeRobot policies take.

    Nothing in the result shares memory with the observation.

    Args:
        observation: The env's observation; a missing batch dimension is added.
        descriptions: The description of the task, per row.

    Returns:
        Torch tensors by name, or numpy arrays if torch is not installed; and `task`.

    Raises:
        InvalidObservation: A leaf has the wrong layout, dtype or number of rows.
    """
    batch = _convert(observation, len(descriptions))
    batch["task"] = list(descriptions)
    return batch


def features(space: "gym.Space[Any]") -> tuple[Feature, ...]:
    """List the features that `to_lerobot` makes of observations of a single env's space.

    Raises:
        InvalidObservation: The space has a part that cannot be converted.
    """
    return tuple(
        Feature(".".join(leaf.keys), "/".join(leaf.path), _single_shape(leaf), leaf.kind)
        for leaf in _place(dict(_flatten(space)), rows=None)
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An array of an observation, or its space, with its position in the batch."""

    path: _Path
    value: Any
    kind: Kind
    keys: _Path
    """The keys that lead to it in the batch; several if the batch is nested there."""


def _convert(observation: object, expected: int) -> dict[str, Any]:
    arrays = {path: _to_array(path, value) for path, value in _flatten(observation)}
    leaves = [(leaf, _with_rows(leaf, expected)) for leaf in _place(arrays, rows=expected)]
    _check_rows({leaf.path: len(rows) for leaf, rows in leaves}, expected)
    batch: dict[str, Any] = {}
    for leaf, rows in leaves:
        nested = batch
        for key in leaf.keys[:-1]:
            nested = nested.setdefault(key, {})
        nested[leaf.keys[-1]] = _to_tensor(_finish(leaf.kind, rows))
    return batch


def _flatten(tree: object, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield the leaves of an observation, or of its space: gymnasium's Dict is a mapping too."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _flatten(value, (*path, str(key)))
    else:
        yield path, tree


def _to_array(path: _Path, value: Any) -> NDArray[Any]:
    if isinstance(value, list | tuple) and not all(isinstance(row, str) for row in value):
        # A batch of a Tuple space is a tuple of parts: its first axis would not be the rows.
        raise _refusal(path, f"found a {type(value).__name__}", "an array")
    if hasattr(value, "detach"):  # a torch tensor, perhaps on a GPU
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _place(leaves: Mapping[_Path, Any], *, rows: int | None) -> list[_Leaf]:
    """Find the kind and the keys in the batch of each leaf; `rows` is None for spaces."""
    if not leaves:
        raise _refusal((), "found an empty mapping", "at least one array")
    state = _isaaclab_state(leaves)
    owners: dict[str, _Path] = {}
    placed = []
    for path, value in leaves.items():
        kind, keys = _name(path or _bare_path(value, rows), state)
        if kind not in ("image", "state") and _is_picture(value, rows):
            kind, keys = "image", keys if path[0].startswith(_NAMED) else (_image_key(path),)
        owner = path[: len(path) - len(keys) + 1]
        if owners.setdefault(keys[0], owner) != owner:
            found = f"found {_show(owners[keys[0]])!r}, which is called {keys[0]!r} as well"
            raise _refusal(path, found, "one part of the observation per name")
        placed.append(_Leaf(path, value, _check_dtype(path, value, kind), keys))
    return placed


def _isaaclab_state(paths: Iterable[_Path]) -> _Path | None:
    """Return the leaf below `policy` that is the state, or None if that is ambiguous."""
    candidates = [path for path in paths if path[:1] == ("policy",)]
    if _ISAACLAB_STATE in candidates:
        return _ISAACLAB_STATE
    return candidates[0] if len(candidates) == 1 else None


def _bare_path(value: Any, rows: int | None) -> _Path:
    """Return the key that an observation without keys would have in a mapping."""
    return ("pixels",) if _has_rank_of_picture(value, rows) else ("agent_pos",)


def _has_rank_of_picture(value: Any, rows: int | None) -> bool:
    shape = value.shape or ()
    return len(shape) - (shape[:1] == (rows,)) == 3 and value.dtype == np.uint8


def _is_picture(value: Any, rows: int | None) -> bool:
    """Whether an array can only be a picture, or pictures, whatever its name."""
    return _has_rank_of_picture(value, rows) and value.shape[-1] == 3


def _image_key(path: _Path) -> str:
    return ".".join(("observation.images", *path))


def _name(path: _Path, state: _Path | None) -> tuple[Kind, _Path]:
    top, *below = path
    if top.startswith(_NAMED):  # by LeRobot's names already
        return _kind_of(top.removeprefix(_NAMED)), path
    if top in _CAMERAS:
        camera = ".".join(below)
        if top == "camera_obs":  # as LeRobot's IsaacLab step does
            camera = camera.removesuffix("_rgb")
        return "image", (f"observation.images.{camera}" if camera else "observation.image",)
    if path in (("agent_pos",), ("state",), state):
        return "state", ("observation.state",)
    return _KINDS.get(top, "other"), (f"observation.{top}", *below)


def _kind_of(name: str) -> Kind:
    if name == "image" or name.startswith(("image.", "images.")):
        return "image"
    return "state" if name == "state" else _KINDS.get(name, "other")


def _check_dtype(path: _Path, value: Any, kind: Kind) -> Kind:
    letter = value.dtype.kind if value.dtype is not None else ""
    if letter == "U" and kind == "other":
        return "text"
    if letter not in tuple("biuf"):
        found = f"{type(value).__name__} of {value.dtype}" if letter else type(value).__name__
        raise _refusal(path, f"found {found}", "an array of numbers or booleans")
    return kind


def _with_rows(leaf: _Leaf, expected: int) -> NDArray[Any]:
    """Return the leaf's array with one row per env; add the batch dimension if it is missing."""
    array: NDArray[Any] = leaf.value
    if leaf.kind == "image":
        _channels_first(leaf, array.shape[1:] if array.ndim == 4 else array.shape)
        return array if array.ndim == 4 else array[None]
    if leaf.kind == "text":
        return array if array.ndim else array[None]
    if array.shape == (expected,):  # one number per env, e.g. of a Discrete space
        return array[:, None]
    return array if array.ndim > 1 else array.reshape(1, -1)


def _single_shape(leaf: _Leaf) -> tuple[int, ...]:
    shape = leaf.value.shape or ()  # gymnasium's Text has None
    if leaf.kind == "image":
        return _channels_first(leaf, shape)
    return shape if shape or leaf.kind == "text" else (1,)


def _channels_first(leaf: _Leaf, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one image after conversion."""
    if leaf.value.dtype == np.uint8 and len(shape) == 3 and shape[2] in _CHANNELS:
        return (shape[2], shape[0], shape[1])
    found = f"found {leaf.value.dtype} of shape {leaf.value.shape}"
    if len(shape) == 3 and shape[0] in _CHANNELS and shape[2] not in _CHANNELS:
        found += ", which has its channels first"
    raise _refusal(leaf.path, found, _IMAGE)


def _check_rows(counts: Mapping[_Path, int], expected: int) -> None:
    wrong = [path for path, count in counts.items() if count != expected]
    if wrong and len(set(counts.values())) == 1:
        found = f"found {expected} descriptions and a batch of size {counts[wrong[0]]}"
        raise _refusal(("task",), found, "one description per row")
    if wrong:
        found = f"found a batch of size {counts[wrong[0]]}"
        raise _refusal(wrong[0], found, f"{expected}, one row per description")


def _finish(kind: Kind, rows: NDArray[Any]) -> Any:
    if kind == "text":
        return rows.tolist()
    if kind != "image":
        return rows.astype(np.float32, order="C")
    # Divided, not multiplied by 1/255: every bit is as in LeRobot.
    return np.divide(np.ascontiguousarray(rows.transpose(0, 3, 1, 2)), 255, dtype=np.float32)


def _to_tensor(value: Any) -> Any:
    torch = _torch()
    return torch.from_numpy(value) if torch and isinstance(value, np.ndarray) else value


@cache
def _torch() -> Any:
    """Return the torch module, imported at first use, or None if it is not installed."""
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def _show(path: _Path) -> str:
    return "/".join(path) or "observation"


def _refusal(path: _Path, found: str, expected: str) -> InvalidObservation:
    return InvalidObservation(_show(path), f"{found}; expected {expected}.")
