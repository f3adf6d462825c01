"""Compare the inputs of a checkpoint with the observations of a benchmark, before a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envhub.conventions import STATE_SIZES
from envhub.declarations import Benchmark
from envhub.errors import ContractError
from envhub.observations import features

Shapes = Mapping[str, tuple[int, ...]]
STATE = "observation.state"


@dataclass(frozen=True, slots=True)
class Inputs:
    """How the checkpoint's inputs are read from observations."""

    config: Any
    """The checkpoint's configuration."""
    rename: Mapping[str, str]
    """The user's own: the benchmark's names to the checkpoint's."""
    name: str
    """Of the benchmark."""
    names: Mapping[str, str]
    """The benchmark's name of each input to the checkpoint's."""
    needs: frozenset[str] | None
    """The leaves of the raw observation that are read; None: all."""


def read_rename(text: str) -> dict[str, str]:
    """Read `ours=theirs,...`.

    Raises:
        ContractError: The text is something else.
    """
    pairs = [part.split("=") for part in text.split(",")] if text else []
    if any(len(pair) != 2 or not all(map(str.strip, pair)) for pair in pairs):
        raise ContractError(f"rename must be written ours=theirs,ours=theirs; found {text!r}.")
    return {ours.strip(): theirs.strip() for ours, theirs in pairs}


def compare(config: Any, space: Any, rename: Mapping[str, str], name: str) -> Inputs:
    """Find each input of a checkpoint among the features of a space.

    Args:
        config: The checkpoint's configuration.
        space: The space of observations; None: known only once envs convert them.
        rename: The benchmark's names to the checkpoint's.
        name: The benchmark's.

    Raises:
        ContractError: One is missing or has another shape; lists both sides.
    """
    if space is None:
        return Inputs(config, rename, name, {}, None)
    found = [feature for feature in features(space) if feature.kind != "text"]
    used = match(config, {feature.name: feature.shape for feature in found}, rename, name)
    needs = frozenset(feature.source for feature in found if feature.name in used)
    return Inputs(config, rename, name, used, needs)


def match(config: Any, ours: Shapes, rename: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the name of each input of a checkpoint among features, and the checkpoint's own.

    Args:
        config: The checkpoint's configuration.
        ours: The shapes of the features.
        rename: The features' names to the checkpoint's.
        name: What has the features.

    Raises:
        ContractError: One is missing or has another shape; lists both sides.
    """
    theirs = _inputs(config)
    unknown = [key for key in rename if key not in ours]
    if unknown:
        raise ContractError(
            f"rename names {unknown[0]}, which {name} does not have: {_listed(ours)}."
        )
    names = {key: rename.get(key, key) for key in ours}
    wrong = {key: shape for key, shape in theirs.items() if _shape(names, ours, key) != shape}
    if wrong:
        raise ContractError(_problem(theirs, ours, wrong, name))
    return {key: new for key, new in names.items() if new in theirs}


def check_state(config: Any, benchmark: Benchmark, rename: Mapping[str, str]) -> None:
    """Refuse a checkpoint whose state cannot have the benchmark's layout.

    A benchmark with a conversion of its own shows its observations only once envs are made.

    Raises:
        ContractError: The state has another number of values; names both sides.
    """
    feature = config.input_features.get(STATE)
    if benchmark.lerobot is None or feature is None or STATE in rename.values():
        return
    layout = str(benchmark.conventions_for("lerobot").get("state"))
    sizes = STATE_SIZES.get(layout)
    if sizes is None:
        return
    if tuple(feature.shape) not in {(size,) for size in sizes}:
        allowed = " or ".join(map(str, sizes))
        raise ContractError(
            f"The checkpoint's {STATE} has the shape {tuple(feature.shape)}, and that of "
            f"{benchmark.name} is {layout}, with {allowed} numbers: it was trained with another "
            "state."
        )


def _inputs(config: Any) -> dict[str, tuple[int, ...]]:
    """Return the checkpoint's inputs, without cameras that LeRobot fills in by itself."""
    count = getattr(config, "empty_cameras", 0) or 0
    empty = {f"observation.images.empty_camera_{number}" for number in range(count)}
    inputs = config.input_features.items()
    return {key: tuple(feature.shape) for key, feature in inputs if key not in empty}


def _shape(names: Mapping[str, str], ours: Shapes, wanted: str) -> tuple[int, ...] | None:
    hits = [key for key, new in names.items() if new == wanted]
    return ours[hits[-1]] if hits else None


def _problem(theirs: Shapes, ours: Shapes, wrong: Shapes, name: str) -> str:
    text = f"The checkpoint reads {_listed(theirs)}; {name} has {_listed(ours)}."
    free = {key: shape for key, shape in ours.items() if key not in theirs or key in wrong}
    pairs: dict[str, str] = {}
    for wanted, shape in wrong.items():
        kind = "image" in wanted
        same = [k for k, s in free.items() if s == shape and ("image" in k) == kind]
        taken = next((key for key in same if key not in pairs), None)
        if taken is not None:
            pairs[taken] = wanted
    if len(pairs) == len(wrong):
        line = ",".join(f"{key}={wanted}" for key, wanted in pairs.items())
        return f"{text} If these are the same, rename them: --policy-arg rename={line}"
    key, shape = next(iter(wrong.items()))
    if key in ours:
        return f"{text} {key} has another shape: make the benchmark's {shape}, e.g. by --env-arg."
    return f"{text} {key} is missing."


def _listed(shapes: Shapes) -> str:
    return ", ".join(f"{key} {shape}" for key, shape in shapes.items())
