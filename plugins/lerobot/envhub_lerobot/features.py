"""Compare a checkpoint with a benchmark: what is refused, and what is told in one line.

Statistics are trusted before config.json, which published checkpoints often leave as their base
model's. `docs/checkpoints.md` has the table. Padded policies (SmolVLA, pi0 and others) mask missing
cameras and resize pictures; all others need exactly what config.json says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from envhub.conventions import STATE_SIZES
from envhub.declarations import Benchmark
from envhub.errors import ContractError
from envhub.observations import features
from envhub_lerobot.trained import ACTION, Shapes, Trained

STATE = "observation.state"
_EMPTY = re.compile(r"observation\.images\.empty_camera_(\d+)")
"""Cameras that LeRobot adds to a configuration, and fills in by itself."""
_STEPS = 10
"""Actions per look of the published LIBERO runs of SmolVLA, pi0 and pi0.5."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """How the checkpoint's inputs are read from observations."""

    trained: Trained
    rename: Mapping[str, str]
    """The user's own: the benchmark's names to the checkpoint's."""
    name: str
    """Of the benchmark."""
    names: Mapping[str, str]
    """The benchmark's name of each input to the checkpoint's."""
    needs: frozenset[str] | None
    """The leaves of the raw observation that are read; None: all."""
    remarks: tuple[str, ...] = ()
    """What differs from config.json without being an error."""


def read_rename(text: str) -> dict[str, str]:
    """Read `ours=theirs,...`.

    Raises:
        ContractError: The text is something else.
    """
    pairs = [part.split("=") for part in text.split(",")] if text else []
    if any(len(pair) != 2 or not all(map(str.strip, pair)) for pair in pairs):
        raise ContractError(f"rename must be written ours=theirs,ours=theirs; found {text!r}.")
    return {ours.strip(): theirs.strip() for ours, theirs in pairs}


def compare(trained: Trained, space: Any, rename: Mapping[str, str], name: str) -> Inputs:
    """Find each input of a checkpoint among the features of a space.

    Args:
        trained: The checkpoint.
        space: The space of observations; None: known only once envs convert them.
        rename: The benchmark's names to the checkpoint's.
        name: The benchmark's.

    Raises:
        ContractError: One is missing or has another shape; lists both sides.
    """
    if space is None:
        return Inputs(trained, rename, name, {}, None)
    found = [feature for feature in features(space) if feature.kind != "text"]
    shapes = {feature.name: feature.shape for feature in found}
    used, remarks = match(trained, shapes, rename, name)
    needs = frozenset(feature.source for feature in found if feature.name in used)
    return Inputs(trained, rename, name, used, needs, remarks)


def match(
    trained: Trained, ours: Shapes, rename: Mapping[str, str], name: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the name of each input among features and the checkpoint's own, and remarks.

    Args:
        trained: The checkpoint.
        ours: The shapes of the features.
        rename: The features' names to the checkpoint's.
        name: What has the features.

    Raises:
        ContractError: One is missing or has another shape; lists both sides.
    """
    _check_rename(trained, ours, rename, name)
    stored = _fitting(trained, ours, rename)
    names = _chosen(trained, ours, {**stored, **rename})
    # Without anybody's word for it, a camera under another name is not a camera that is missing.
    told = any(_is_picture(ours[key]) for key in (*stored, *rename))
    _check_presence(trained, ours, names, name, told=told)
    remarks = [_remark_on_names(trained, stored), *_check_numbers(trained, ours, names, name)]
    remarks += [_remark_on_cameras(trained, names, name), _check_sizes(trained, ours, names, name)]
    return names, tuple(remark for remark in remarks if remark)


def check_trained(
    trained: Trained, benchmark: Benchmark, action: Any, rename: Mapping[str, str]
) -> tuple[str, ...]:
    """Refuse a checkpoint for what is known before there is an observation; return remarks.

    Args:
        trained: The checkpoint.
        benchmark: The benchmark.
        action: The shape of its actions.
        rename: The benchmark's names to the checkpoint's.

    Raises:
        ContractError: It was trained for something else, or cannot have been trained like this.
    """
    name = benchmark.name
    if trained.type == "xvla" and name == "libero":
        raise ContractError(
            "LeRobot evaluates X-VLA on LIBERO with conversions of its own, which EnvHub does not "
            "have."
        )
    _check_actions(trained, action, name)
    check_statistics(trained)
    _check_state(trained, benchmark, rename)
    return _remarks_on_chunks(trained, name)


def check_statistics(trained: Trained) -> None:
    """Refuse a normalization without statistics, or with some that no input can fit.

    Raises:
        ContractError: LeRobot would skip the normalization silently, or fail in the first call.
    """
    for key in (*_numbers(trained), ACTION):
        if key in trained.modes:
            _check_statistics_of(trained, key)


# Names


def _check_rename(trained: Trained, ours: Shapes, rename: Mapping[str, str], name: str) -> None:
    for key, new in rename.items():
        if key not in ours:
            raise ContractError(f"rename names {key}, which {name} does not have: {_listed(ours)}.")
        if new not in trained.inputs:
            raise ContractError(
                f"rename names {new}, which the checkpoint does not read: "
                f"{_listed(trained.inputs)}."
            )
        if [*rename.values()].count(new) > 1:
            raise ContractError(f"rename names {new} twice.")


def _fitting(trained: Trained, ours: Shapes, rename: Mapping[str, str]) -> dict[str, str]:
    """Return those names of training that the benchmark has and the user does not replace."""
    taken = {*rename, *rename.values()}
    return {
        key: new
        for key, new in trained.stored_rename.items()
        if key in ours and key != new and new in trained.inputs and not {key, new} & taken
    }


def _chosen(trained: Trained, ours: Shapes, renamed: Mapping[str, str]) -> dict[str, str]:
    claimed = {*renamed.values()}
    names = {key: renamed.get(key, key) for key in ours if key in renamed or key not in claimed}
    return {key: new for key, new in names.items() if new in trained.inputs}


def _remark_on_names(trained: Trained, stored: Mapping[str, str]) -> str | None:
    if not stored:
        return None
    pairs = ", ".join(f"{_short(key)} is {_short(new)}" for key, new in stored.items())
    cameras = all(_is_picture(trained.inputs[new]) for new in stored.values())
    return f"{'Cameras' if cameras else 'Names'} as in training: {pairs}."


# Presence


def _check_presence(
    trained: Trained, ours: Shapes, names: Mapping[str, str], name: str, *, told: bool
) -> None:
    """Refuse inputs that are not there, except cameras that the policy does without."""
    lacking = {key: shape for key, shape in _wanted(trained).items() if key not in names.values()}
    cameras = [key for key in lacking if _is_picture(lacking[key])]
    left = any(_is_picture(ours[key]) for key in names)
    free = any(_is_picture(shape) for key, shape in ours.items() if key not in names)
    lost = _lost_cameras(trained, names) if left else cameras
    if trained.padded and left and (told or not free or not lost):
        forgiven = [] if trained.type == "groot" and lost else cameras
        lacking = {key: shape for key, shape in lacking.items() if key not in forgiven}
    if lacking:
        raise ContractError(_problem(trained, ours, lacking, names, name))


def _wanted(trained: Trained) -> dict[str, tuple[int, ...]]:
    """Return the checkpoint's inputs, without cameras that LeRobot fills in by itself."""

    def is_filled(key: str) -> bool:
        number = _EMPTY.fullmatch(key)
        return number is not None and (trained.padded or int(number[1]) < trained.empty_cameras)

    return {key: shape for key, shape in trained.inputs.items() if not is_filled(key)}


def _lost_cameras(trained: Trained, names: Mapping[str, str]) -> list[str]:
    """Return the missing cameras that training had, or all of them if nothing tells."""
    wanted = [key for key, shape in _wanted(trained).items() if _is_picture(shape)]
    missing = [key for key in wanted if key not in names.values()]
    had = trained.cameras_of_training
    if had and had <= {*wanted}:
        return [key for key in missing if key in had]
    # Under other names, their number says whether there were more.
    return [] if had and len(wanted) - len(missing) >= len(had) else missing


def _remark_on_cameras(trained: Trained, names: Mapping[str, str], name: str) -> str | None:
    lost = [_short(key) for key in _lost_cameras(trained, names)] if trained.padded else []
    if not lost:
        return None
    verb = "is" if len(lost) == 1 else "are"
    return f"{' and '.join(lost)} {verb} left out, as LeRobot does: {name} has no such camera."


# Sizes


def _check_numbers(
    trained: Trained, ours: Shapes, names: Mapping[str, str], name: str
) -> list[str]:
    """Compare the states and everything else that is not a picture."""
    sources = {new: key for key, new in names.items()}
    remarks = []
    for key, declared in _numbers(trained).items():
        shape = ours[sources[key]]
        if key in trained.modes:
            remarks += _compare_with_statistics(trained, key, shape, name)
        if shape != declared and not (trained.padded and key in trained.modes):
            raise ContractError(_problem(trained, ours, {key: declared}, names, name))
        if trained.max_state is not None and key == STATE and prod(shape) > trained.max_state:
            raise ContractError(
                f"{key} of {name} has {prod(shape)} numbers; the checkpoint takes at most "
                f"{trained.max_state} (max_state_dim)."
            )
    return remarks


def _compare_with_statistics(
    trained: Trained, key: str, shape: tuple[int, ...], name: str
) -> list[str]:
    size = trained.normalized_size(key)
    declared = trained.inputs[key]
    if prod(shape) != size:
        raise ContractError(
            f"The checkpoint's {key} was normalized with {size} numbers; {name} has "
            f"{_size(shape)}: it was trained with another one."
        )
    said = (
        f"config.json says {_size(declared)} numbers for {key}, its statistics {size}, as {name} "
        f"has: using {size}."
    )
    return [] if declared == shape else [said]


def _check_sizes(trained: Trained, ours: Shapes, names: Mapping[str, str], name: str) -> str | None:
    """Compare the sizes of pictures; say which the policy resizes."""
    differ = {
        key: new
        for key, new in names.items()
        if _is_picture(trained.inputs[new]) and ours[key] != trained.inputs[new]
    }
    channels = [new for key, new in differ.items() if ours[key][0] != trained.inputs[new][0]]
    refused = channels if trained.padded or trained.resizes else [*differ.values()]
    if refused:
        wrong = {new: trained.inputs[new] for new in refused}
        raise ContractError(_problem(trained, ours, wrong, names, name))
    pairs = {(_pixels(trained.inputs[new]), _pixels(ours[key])) for key, new in differ.items()}
    said = " and ".join(f"{theirs}; drawn at {own}" for theirs, own in sorted(pairs))
    return f"config.json says {said} and resized by the policy." if pairs else None


def _numbers(trained: Trained) -> dict[str, tuple[int, ...]]:
    return {key: shape for key, shape in trained.inputs.items() if not _is_picture(shape)}


# Before there is an observation


def _check_actions(trained: Trained, shape: Any, name: str) -> None:
    if trained.action != shape:
        raise ContractError(
            f"The checkpoint's actions have the shape {trained.action}, and those of {name} "
            f"{shape}: it was trained for something else."
        )


def _check_statistics_of(trained: Trained, key: str) -> None:
    size = trained.normalized_size(key)
    if size is None:
        result = "return" if key == ACTION else "read"
        held = ", ".join(sorted(trained.statistics)) or "none at all"
        missing = "normalized" if key == ACTION else "not normalized"
        raise ContractError(
            f"The checkpoint has no statistics for {key}: it would {result} numbers that are "
            f"{missing}. It has {held}."
        )
    declared = (trained.action or ()) if key == ACTION else trained.inputs[key]
    if prod(declared) != size and (key == ACTION or not trained.padded):
        raise ContractError(
            f"The checkpoint's config.json says {_size(declared)} numbers for {key}, its "
            f"statistics {size}: no {key} fits both."
        )


def _check_state(trained: Trained, benchmark: Benchmark, rename: Mapping[str, str]) -> None:
    """Refuse a checkpoint whose state cannot have the benchmark's layout.

    A benchmark with a conversion of its own shows its observations only once envs are made.
    """
    declared = trained.inputs.get(STATE)
    if benchmark.lerobot is None or declared is None or STATE in rename.values():
        return
    layout = str(benchmark.conventions_for("lerobot").get("state"))
    sizes = STATE_SIZES.get(layout)
    if sizes is None:
        return
    size = trained.normalized_size(STATE) if STATE in trained.modes else None
    shape = declared if size is None else (size,)
    if shape not in {(size,) for size in sizes}:
        allowed = " or ".join(map(str, sizes))
        raise ContractError(
            f"The checkpoint's {STATE} has the shape {shape}, and that of "
            f"{benchmark.name} is {layout}, with {allowed} numbers: it was trained with another "
            "state."
        )


def _remarks_on_chunks(trained: Trained, name: str) -> tuple[str, ...]:
    steps = trained.steps or 0
    if not trained.padded or steps != trained.chunk or steps <= _STEPS:
        return ()
    fewer = f"--policy-arg n_action_steps={_STEPS}"
    published = f"published LIBERO runs use {_STEPS} ({fewer})"
    known = published if name == "libero" else f"for fewer: {fewer}"
    return (f"The checkpoint executes {steps} actions per look; {known}.",)


# Words


def _problem(
    trained: Trained, ours: Shapes, wrong: Shapes, names: Mapping[str, str], name: str
) -> str:
    """Say both sides, and the rename that would make them fit."""
    text = f"The checkpoint reads {_listed(_wanted(trained))}; {name} has {_listed(ours)}."
    fine = {key for key, new in names.items() if new not in wrong}
    free = {key: shape for key, shape in ours.items() if key not in fine}
    pairs: dict[str, str] = {}
    for wanted, shape in wrong.items():
        taken = [key for key in free if key not in pairs and _may_be(trained, free[key], shape)]
        if taken and names.get(taken[0]) != wanted:
            pairs[taken[0]] = wanted
    cameras = [key for key in pairs if _is_picture(free[key])]
    several = sum(map(_is_picture, free.values())) > 1
    unpaired = [key for key in wrong if key not in pairs.values()]
    if pairs and (not unpaired or _may_lack(trained, unpaired, wrong)):
        line = ",".join(f"{key}={wanted}" for key, wanted in pairs.items())
        guess = " (which camera is which is a guess)" if cameras and several else ""
        return f"{text} If these are the same{guess}, rename them: --policy-arg rename={line}"
    key = unpaired[0] if unpaired else next(iter(wrong))
    if key in names.values():
        shape = wrong[key]
        return f"{text} {key} has another shape: make the benchmark's {shape}, e.g. by --env-arg."
    return f"{text} {key} is missing."


def _may_be(trained: Trained, ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    """Whether a feature could be an input under another name."""
    resized = trained.padded and _is_picture(ours) and _is_picture(theirs)
    return ours == theirs or (resized and ours[0] == theirs[0])


def _may_lack(trained: Trained, keys: Sequence[str], shapes: Shapes) -> bool:
    forgiving = trained.padded and trained.type != "groot"
    return forgiving and all(_is_picture(shapes[key]) for key in keys)


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3


def _pixels(shape: tuple[int, ...]) -> str:
    _, height, width = shape
    return str(height) if height == width else f"{height} x {width}"


def _size(shape: tuple[int, ...]) -> str:
    return str(shape[0]) if len(shape) == 1 else str(shape)


def _short(name: str) -> str:
    return name.removeprefix("observation.").removeprefix("images.")


def _listed(shapes: Shapes) -> str:
    return ", ".join(f"{key} {shape}" for key, shape in shapes.items())
