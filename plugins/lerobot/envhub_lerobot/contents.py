"""What the JSON of a checkpoint may say: closed lists, so that a checkpoint runs no code.

LeRobot builds what these files name: processor steps by their registered names, models by names or
paths. Some of its registered steps load further files, and code with them. So only the steps below
are loaded, with no other fields than these, and a text that could be a path or a name of the Hub
stands only where EnvHub itself has fetched what it names.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from envhub.errors import ContractError
from envhub_lerobot.hub_names import FIELDS

Check = Callable[[object], bool]

_WORD = re.compile(r"[^/\\~\x00-\x09\x0b-\x1f\x7f]{0,2000}")
"""No slash, no backslash, no tilde: not a path into another directory, and not `owner/repo`."""
_STATE_FILE = re.compile(r"[A-Za-z0-9][\w.-]{0,199}\.safetensors", re.ASCII)
_MOST_STEPS = 32
_DEEPEST = 16


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_word(value: object) -> bool:
    return value is None or (isinstance(value, str) and _WORD.fullmatch(value) is not None)


def _are_words(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_word, value)))


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_plain(value: object) -> bool:
    """Whether a value holds numbers, flags and words only, as features and renamings do."""
    return not any(True for _ in _paths_in(value))


_NORMALIZE: dict[str, Check] = {
    "eps": _is_number,
    "features": _is_plain,
    "norm_map": _is_plain,
    "normalize_observation_keys": _are_words,
}
_GRIPPER: dict[str, Check] = {"gripper_dim": _is_number, "threshold": _is_number}
STEPS: dict[str, dict[str, Check]] = {
    "rename_observations_processor": {"rename_map": _is_plain},
    "to_batch_processor": {},
    "device_processor": {"device": _is_word, "float_dtype": _is_word},
    "normalizer_processor": _NORMALIZE,
    "unnormalizer_processor": _NORMALIZE,
    "smolvla_new_line_processor": {},
    "pi0_new_line_processor": {},
    "pi05_prepare_state_tokenizer_processor_step": {
        "max_state_dim": _is_number,
        "task_key": _is_word,
    },
    "tokenizer_processor": {
        "max_length": _is_number,
        "task_key": _is_word,
        "padding_side": _is_word,
        "padding": _is_word,
        "truncation": _is_flag,
        # A model that the host has fetched, and whose directory replaces the name.
        "tokenizer_name": lambda value: value is None or isinstance(value, str),
    },
    "relative_actions_processor": {
        "enabled": _is_flag,
        "exclude_joints": _are_words,
        "action_names": _are_words,
    },
    "absolute_actions_processor": {"enabled": _is_flag},
    "xvla_image_scale": {"image_keys": _are_words},
    "xvla_image_to_float": {"image_keys": _are_words, "validate_range": _is_flag},
    "xvla_imagenet_normalize": {"image_keys": _are_words},
    "xvla_add_domain_id": {"domain_id": _is_number},
    "xvla_rotation_6d_to_axis_angle": {"expected_action_dim": _is_number},
    "wall_x_task_processor": {},
    "vla_jepa_clip_actions": {},
    "vla_jepa_pre_snap_gripper": _GRIPPER,
    "vla_jepa_binarize_gripper": _GRIPPER,
    "fastwam_action_toggle_processor": {"toggle_dimensions": _are_numbers},
    "evo1_pad_state_processor": {"max_state_dim": _is_number},
    "evo1_pad_action_processor": {"max_action_dim": _is_number},
    "evo1_action_processor": {
        "action_dim": _is_number,
        "binarize_gripper": _is_flag,
        "gripper_index": _is_number,
        "gripper_threshold": _is_number,
        "gripper_below_threshold_value": _is_number,
        "gripper_above_threshold_value": _is_number,
    },
}
"""The steps of LeRobot 0.4.4 to 0.6.1 that read no files, and what their fields may hold."""

UNUSED = frozenset({
    "dataset_paths", "learner_host", "license", "output_dir", "pretrained_model_path",
    "pretrained_path", "pretrained_revision", "private", "push_to_hub", "repo_id", "report_to",
    "tags",
})  # fmt: skip
"""Fields of `config.json` that only training and uploading read; they are left out."""


def check_steps(where: str, content: Mapping[str, Any], files: Collection[str]) -> None:
    """Refuse processors with a step, or a field of one, that is not in the list.

    Args:
        where: The file, for errors.
        content: Its JSON.
        files: The names of the checkpoint's own files, without its weights.

    Raises:
        ContractError: It names something else; says what.
    """
    steps = content.get("steps", [])
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ContractError(f"{where} has no list of steps.")
    if len(steps) > _MOST_STEPS:
        raise ContractError(f"{where} has {len(steps)} steps; {_MOST_STEPS} at most are loaded.")
    for step in steps:
        name = step.get("registry_name")
        if not isinstance(name, str):
            raise ContractError(
                f"{where} has a step that names a Python class, {_shown(step.get('class'))}. Only "
                "LeRobot's registered steps are loaded."
            )
        if name not in STEPS:
            raise ContractError(
                f"{where} has the step {_shown(name)}, which is not one that EnvHub loads: it "
                f"could read other files. Known are {', '.join(sorted(STEPS))}."
            )
        _check_step(f"{where}, step {name}", step, files)


def _check_step(where: str, step: Mapping[str, Any], files: Collection[str]) -> None:
    for key in step:
        if key not in ("registry_name", "class", "config", "state_file"):
            raise ContractError(f"{where} has the key {_shown(key)}, which EnvHub does not know.")
    config = step.get("config", {})
    if not isinstance(config, dict):
        raise ContractError(f"{where} has a config that is not an object.")
    allowed = STEPS[step["registry_name"]]
    for field, value in config.items():
        if field not in allowed:
            raise ContractError(
                f"{where} has the field {_shown(field)}, which is not one that EnvHub loads."
            )
        if not allowed[field](value):
            raise ContractError(f"{where} has {_shown(value)} for {field}, which it cannot be.")
    state = step.get("state_file")
    if state is not None and not (
        isinstance(state, str) and _STATE_FILE.fullmatch(state) and state in files
    ):
        raise ContractError(
            f"{where} names the state file {_shown(state)}, which is not a file of the checkpoint."
        )


def check_config(where: str, config: Mapping[str, Any]) -> None:
    """Refuse a `config.json` in which anything but a model's field could be a path or a Hub name.

    Raises:
        ContractError: A field could be one; names it. Or it holds adapters for another model.
    """
    if config.get("use_peft"):
        raise ContractError(
            "The checkpoint holds PEFT adapters for another model. Merge them into the model and "
            "save that."
        )
    for field, value in config.items():
        if field in UNUSED or (field in FIELDS and isinstance(value, str | None)):
            continue
        for text in _paths_in(value):
            raise ContractError(
                f"{where} has {_shown(text)} for {field}, which could name a file or a repository. "
                "EnvHub fetches only the models that it knows the fields of."
            )


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `config.json` without the fields that only training and uploading read."""
    return {field: value for field, value in config.items() if field not in UNUSED}


def _paths_in(value: object, depth: int = 0) -> Iterator[object]:
    """Yield what is not a number, a flag or a word, at any depth; keys count, too."""
    if depth > _DEEPEST:
        yield "something nested too deeply"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _paths_in(key, depth + 1)
            yield from _paths_in(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _paths_in(item, depth + 1)
    elif not (isinstance(value, bool) or _is_number(value) or _is_word(value)):
        yield value


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
