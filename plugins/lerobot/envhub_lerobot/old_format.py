"""Checkpoints of LeRobot before 0.4, whose statistics are buffers among the weights.

Processors are built of these buffers by the names in config.json. LeRobot's own conversion guesses
the names back from those of the buffers, in which `.` and `_` are the same, and loses the
statistics of features such as `observation.images.wrist_image`.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envhub.errors import ContractError
from envhub_lerobot.trained import ACTION, read_header

REMARK = (
    "The checkpoint is of LeRobot before 0.4: its processors are built from the statistics among "
    "its weights."
)
_BEFORE, _AFTER = "normalize_inputs.", "unnormalize_outputs."
_PARTS = (_BEFORE, "normalize_targets.", _AFTER)
"""Modules of the old policies. The one for targets is for training, and like that for outputs."""
_STATISTICS = {"MEAN_STD": ("mean", "std"), "MIN_MAX": ("min", "max")}
_TYPES = frozenset({"act", "diffusion", "tdmpc", "vqbet"})
"""Policies whose processors are of statistics only; those of the others need a tokenizer too."""
_UNUSED = {"vqbet": frozenset({"mlp_hidden_dim"})}
"""Fields of old configurations that no code of LeRobot read, and that it does not know any more."""


def has_buffers(weights: Path) -> bool:
    """Whether there are statistics among the weights of a checkpoint.

    Raises:
        ContractError: The file cannot be read.
    """
    return any(_is_buffer(name) for name in read_header(weights))


def check_type(directory: Path, kind: str) -> None:
    """Refuse a checkpoint without processors whose statistics are not all that it lacks.

    Raises:
        ContractError: It has to be converted.
    """
    if kind not in _TYPES:
        raise ContractError(
            f"{directory} has no processors: it is of LeRobot before 0.4, and of type {kind}, for "
            "which EnvHub cannot build them. Convert it: python -m "
            f"lerobot.processor.migrate_policy_normalization --pretrained-path {directory}"
        )


def known_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the fields that no code reads."""
    unused = _UNUSED.get(str(config.get("type")), frozenset())
    return {name: value for name, value in config.items() if name not in unused}


def read_statistics(weights: Path, config: Any) -> dict[str, dict[str, Any]]:
    """Return the statistics of each feature that a checkpoint normalizes.

    Args:
        weights: Its `model.safetensors`.
        config: Its configuration, as LeRobot reads it.

    Raises:
        ContractError: One is missing, was never set, or is of no feature of the configuration.
    """
    wanted = _wanted(config)
    found = _load(weights, buffers=True)
    for name in sorted(found):
        if name not in wanted and not name.startswith(_PARTS[1]):
            raise ContractError(
                f"The checkpoint's weights have {name}, which is of no feature that config.json "
                f"normalizes: {', '.join(dict.fromkeys(key for key, *_ in wanted.values()))}."
            )
    statistics: dict[str, dict[str, Any]] = {}
    for name, (feature, statistic, shape) in wanted.items():
        statistics.setdefault(feature, {})[statistic] = _checked(found, name, shape)
    return statistics


def load_weights(policy: Any, weights: Path) -> None:
    """Load the weights into a policy, all of them and no others, without the statistics.

    Raises:
        RuntimeError: They do not fit; torch says which.
    """
    policy.load_state_dict(_load(weights, buffers=False), strict=True)


def _is_buffer(name: str) -> bool:
    return name.startswith(_PARTS)


def _wanted(config: Any) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Return feature, statistic and shape by the name of each buffer that there must be."""
    wanted: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    parts = ((_BEFORE, config.input_features), (_AFTER, config.output_features))
    for part, features in parts:
        for feature, each in (features or {}).items():
            mode = config.normalization_mapping.get(each.type.value)
            if mode is None or mode.value == "IDENTITY":
                continue
            if mode.value not in _STATISTICS:
                raise ContractError(
                    f"The checkpoint normalizes {feature} by {mode.value}, which LeRobot before "
                    "0.4 could not."
                )
            shape = tuple(each.shape)
            shape = (shape[0], 1, 1) if each.type.value == "VISUAL" else shape
            for statistic in _STATISTICS[mode.value]:
                name = f"{part}buffer_{feature.replace('.', '_')}.{statistic}"
                wanted[name] = feature, statistic, shape
    if not any(feature == ACTION for feature, *_ in wanted.values()):
        raise ContractError("The checkpoint's config.json says no normalization of its actions.")
    return wanted


def _checked(found: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    if name not in found:
        raise ContractError(f"The checkpoint's weights have no {name}, which config.json needs.")
    value = found[name]
    if tuple(value.shape) != shape:
        raise ContractError(
            f"The checkpoint's {name} has the shape {tuple(value.shape)}; by config.json it is "
            f"{shape}."
        )
    if not all(map(math.isfinite, value.flatten().tolist())):
        raise ContractError(
            f"The checkpoint's {name} has numbers that are not finite: it was saved before its "
            "statistics were known."
        )
    return value


def _load(weights: Path, *, buffers: bool) -> dict[str, Any]:
    """Return the buffers with statistics, or all other tensors."""
    from safetensors import safe_open

    with safe_open(str(weights), framework="pt") as file:
        names = [name for name in file.keys() if _is_buffer(name) == buffers]  # noqa: SIM118
        return {name: file.get_tensor(name) for name in names}
