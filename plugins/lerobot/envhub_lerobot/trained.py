"""What a checkpoint's files say about its training: its inputs, statistics and names of cameras.

Of the statistics only the header of their file is read: names and shapes, a few KB.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.errors import ContractError

Shapes = Mapping[str, tuple[int, ...]]
Statistics = Mapping[str, Shapes]
"""The shape of each statistic, such as `mean`, by feature."""

ACTION = "action"
_BEFORE, _AFTER = "policy_preprocessor.json", "policy_postprocessor.json"
_PADDED = frozenset({"groot", "pi0", "pi05", "pi0_fast", "smolvla", "xvla"})
"""Policies that pad states to a fixed size, mask missing cameras and resize pictures: read in
LeRobot 0.6.1, and measured for SmolVLA."""
_MODES = {"MEAN_STD": "mean", "MIN_MAX": "min", "QUANTILES": "q01", "QUANTILE10": "q10"}
"""A statistic that each mode of normalization needs."""
_LONGEST_HEADER = 16 * 2**20
"""Bytes; weights of 10,000 tensors have one of a megabyte."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A checkpoint, as far as it has to fit a benchmark."""

    type: str
    inputs: Shapes
    """Of config.json; pictures have three axes."""
    action: tuple[int, ...] | None
    modes: Mapping[str, str] = field(default_factory=dict)
    """How each feature is normalized, without those that are not."""
    statistics: Statistics = field(default_factory=dict)
    """Under the names of the training's dataset, before they were renamed."""
    stored_rename: Mapping[str, str] = field(default_factory=dict)
    """The dataset's names to the checkpoint's, as in training."""
    max_state: int | None = None
    empty_cameras: int = 0
    resizes: bool = False
    """Whether it resizes pictures although it is not a padded policy."""
    chunk: int | None = None
    steps: int | None = None
    """Actions of a chunk that are executed."""

    @property
    def padded(self) -> bool:
        """Whether the policy pads states, and does without cameras."""
        return self.type in _PADDED

    @property
    def cameras_of_training(self) -> frozenset[str]:
        """The cameras of the training's dataset, under the checkpoint's names; none: unknown."""
        pictures = (
            name
            for name, shapes in self.statistics.items()
            if any(len(shape) == 3 for shape in shapes.values())
        )
        return frozenset(self.stored_rename.get(name, name) for name in pictures)

    def normalized_size(self, feature: str) -> int | None:
        """Return the number of values that a feature is normalized with; None: no statistics."""
        shape = self.statistics.get(feature, {}).get(_MODES[self.modes[feature]])
        return None if shape is None else math.prod(shape)


def read_trained(directory: Path, config: Any) -> Trained:
    """Read what has to fit from the files of a checkpoint.

    Args:
        directory: The checkpoint's files.
        config: Its configuration, with the user's changes.

    Raises:
        ContractError: A file is not as LeRobot writes it.
    """
    before, after = (_steps(directory / name) for name in (_BEFORE, _AFTER))
    normalizer = before.get("normalizer_processor") or {}
    unnormalizer = after.get("unnormalizer_processor") or {}
    renaming = _settings(before.get("rename_observations_processor") or {})
    outputs = config.output_features or {}
    return Trained(
        type=str(config.type),
        inputs={name: tuple(each.shape) for name, each in (config.input_features or {}).items()},
        action=tuple(outputs[ACTION].shape) if ACTION in outputs else None,
        modes=_modes(normalizer, unnormalizer),
        statistics=_statistics(directory, normalizer, observations=True)
        | _statistics(directory, unnormalizer, observations=False),
        stored_rename=_names(renaming.get("rename_map")),
        max_state=getattr(config, "max_state_dim", None),
        empty_cameras=getattr(config, "empty_cameras", 0) or 0,
        resizes=bool(getattr(config, "resize_shape", None)),
        chunk=getattr(config, "chunk_size", None),
        steps=getattr(config, "n_action_steps", None),
    )


def read_header(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a safetensors file.

    Raises:
        ContractError: It is not such a file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST_HEADER:
                raise ValueError(f"its header has {length} bytes")
            header = json.loads(file.read(length))
        return {
            name: tuple(map(int, entry["shape"]))
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as exc:
        raise ContractError(f"{path} cannot be read as safetensors: {exc}.") from exc


def _steps(file: Path) -> dict[str, Any]:
    """Return the steps of a processor by their registered names."""
    steps = json.loads(file.read_text(encoding="utf-8")).get("steps", [])
    return {str(step.get("registry_name")): step for step in steps}


def _settings(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return step.get("config") or {}


def _modes(normalizer: Mapping[str, Any], unnormalizer: Mapping[str, Any]) -> dict[str, str]:
    """Return how observations are normalized before, and the action after the network."""
    settings = _settings(normalizer)
    by_type = settings.get("norm_map") or {}
    only = settings.get("normalize_observation_keys")
    modes = {
        name: by_type.get(feature.get("type"))
        for name, feature in (settings.get("features") or {}).items()
        if name != ACTION and (only is None or name in only)
    }
    # LeRobot finishes actions whatever features the step lists.
    modes[ACTION] = (_settings(unnormalizer).get("norm_map") or {}).get("ACTION")
    return {name: str(mode) for name, mode in modes.items() if mode in _MODES}


def _statistics(
    directory: Path, step: Mapping[str, Any], *, observations: bool
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the statistics that a step uses: those of observations, or all others."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    file = step.get("state_file")
    for name, shape in (read_header(_beside(directory, file)) if file else {}).items():
        feature, _, statistic = name.rpartition(".")
        if feature.startswith("observation.") == observations:
            found.setdefault(feature, {})[statistic] = shape
    return found


def _beside(directory: Path, name: object) -> Path:
    if not isinstance(name, str) or Path(name).name != name:
        raise ContractError(f"{directory} names {str(name)[:80]!r}, which is not a file of it.")
    return directory / name


def _names(stored: object) -> dict[str, str]:
    pairs = stored.items() if isinstance(stored, Mapping) else ()
    return {str(ours): str(theirs) for ours, theirs in pairs}
