"""The files of a checkpoint: read once and checked, and the private copy that LeRobot gets of them.

Used by the host, which notes what the files were, and where the policy is made, which compares: a
file that is changed in between is noticed, and LeRobot reads nothing that was not checked.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.conventions import Convention
from envhub.errors import ContractError
from envhub_lerobot.contents import check_config, check_steps, plain_config
from envhub_lerobot.hub_names import replace_names
from envhub_lerobot.old_format import known_config
from envhub_lerobot.sidecar import SIDECAR, parse_sidecar

CONFIG, WEIGHTS = "config.json", "model.safetensors"
PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
ABSENT = "absent"
"""Stands for the hash of a processor of an old checkpoint, which has none."""
_MAX_JSON = 16 * 2**20
_MAX_STATE = 64 * 2**20
"""Bytes of a step's state, which is usually the statistics of a dataset: some kilobytes."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What the JSON of a checkpoint says; of each file one reading, which was checked."""

    directory: Path
    config: Mapping[str, Any]
    """Without the fields that only training and uploading read."""
    processors: Mapping[str, Mapping[str, Any]]
    """By the names of their files; of a checkpoint of LeRobot before 0.4 there are none."""
    conventions: Mapping[str, Convention]
    """Those of `envhub.json`."""
    hashes: Mapping[str, str]
    """Of the files that were read, and `ABSENT` for processors that there are not."""

    @property
    def old(self) -> bool:
        """Whether the statistics are among the weights, as LeRobot had it before 0.4."""
        return not self.processors

    @property
    def states(self) -> list[str]:
        """The names of the files with the state of a step."""
        steps = (step for one in self.processors.values() for step in one["steps"])
        return sorted({step["state_file"] for step in steps if step.get("state_file")})


def read_contents(directory: Path) -> Contents:
    """Read the JSON of a checkpoint, and refuse what is not in the lists of `contents`.

    Raises:
        ContractError: A file cannot be read, or says something that is not loaded.
    """
    files = [path.name for path in directory.iterdir() if path.is_file()]
    present = [name for name in PROCESSORS if name in files]
    needed = PROCESSORS if present else ()
    data = {name: _read(directory / name, _MAX_JSON) for name in (CONFIG, *needed)}
    config = _parse(directory / CONFIG, data[CONFIG])
    check_config(str(directory / CONFIG), config)
    processors = {}
    for name in needed:
        content = _parse(directory / name, data[name])
        check_steps(str(directory / name), content, {*files} - {WEIGHTS})
        processors[name] = {"name": Path(name).stem, "steps": content.get("steps", [])}
    conventions: dict[str, Convention] = {}
    if SIDECAR in files:
        data[SIDECAR] = _read(directory / SIDECAR, _MAX_JSON)
        conventions = parse_sidecar(directory / SIDECAR, data[SIDECAR])
    hashes = dict.fromkeys(PROCESSORS, ABSENT)
    hashes |= {name: hash_bytes(content) for name, content in data.items()}
    kept = plain_config(config) if processors else known_config(plain_config(config))
    return Contents(directory, kept, processors, conventions, hashes)


@contextmanager
def private_copy(
    contents: Contents, checked: Mapping[str, str], models: Mapping[str, str]
) -> Iterator[Path]:
    """Make a directory for LeRobot with the files that were checked, for as long as it loads them.

    Args:
        contents: The JSON files.
        checked: What the host noted of the files, by their names; others are not compared.
        models: The local directories that stand for the names of models.

    Raises:
        ContractError: A file is not the one that was checked, or a model has no directory.
    """
    _compare(contents.directory, contents.hashes, checked)
    with (
        tempfile.TemporaryDirectory(prefix="envhub-checkpoint-") as place,
        _open(contents.directory / WEIGHTS) as weights,
    ):
        copy = Path(place)
        _write(copy / CONFIG, replace_names(CONFIG, contents.config, models))
        for name, processor in contents.processors.items():
            steps = [_with_models(name, step, models) for step in processor["steps"]]
            _write(copy / name, {**processor, "steps": steps})
        for name in contents.states:
            state = _read(contents.directory / name, _MAX_STATE)
            _compare(contents.directory, {name: hash_bytes(state)}, checked)
            (copy / name).write_bytes(state)
        before = {WEIGHTS: describe_state(os.fstat(weights))}
        _compare(contents.directory, before, checked)
        # The opened file, whatever has its name when LeRobot opens it.
        (copy / WEIGHTS).symlink_to(f"/proc/self/fd/{weights}")
        yield copy
        _compare(contents.directory, {WEIGHTS: describe_state(os.fstat(weights))}, before)


def describe_state(found: os.stat_result) -> str:
    """Return what tells whether a file was changed, without reading its gigabytes.

    The time of the last change of a file's data or owner cannot be set by other users.
    """
    numbers = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
    return "stat:" + ":".join(map(str, numbers))


def hash_bytes(data: bytes) -> str:
    """Return `sha256:...` of the content of a file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def changed(path: Path) -> ContractError:
    """Return the error that a file is not the one that was checked."""
    return ContractError(f"{path} changed while it was loaded; run the command again.")


def _compare(directory: Path, found: Mapping[str, str], checked: Mapping[str, str]) -> None:
    for name, value in found.items():
        if checked.get(name, value) != value:
            raise changed(directory / name)


def _with_models(
    file: str, step: Mapping[str, Any], models: Mapping[str, str]
) -> Mapping[str, Any]:
    return {**step, "config": replace_names(file, step.get("config", {}), models)}


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as exc:
        raise ContractError(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    if len(data) > most:
        raise ContractError(f"{path} has more than {most // 2**20} MB, and is not loaded.")
    return data


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise ContractError(f"{path} cannot be read as JSON: {exc}.") from exc
    if not isinstance(content, dict):
        raise ContractError(f"{path} is not a JSON object.")
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def _open(path: Path) -> Iterator[int]:
    try:
        file = path.open("rb")
    except OSError as exc:
        raise ContractError(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    with file:
        yield file.fileno()
