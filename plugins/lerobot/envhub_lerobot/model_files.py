"""The files of a model that a checkpoint names: data, from the Hub or from a directory of the user.

Runs in the host.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envhub.errors import ContractError, SourceUnavailable
from envhub.options import Say
from envhub.refs import HubRef
from envhub.sources.fingerprint import hash_file
from envhub.sources.profiles import MODEL, TOKENIZER
from envhub_lerobot.checkpoint import ADAPTERS, fetch_files

ARGUMENT = "models"
"""The `--policy-arg` that says where models are, `name@commit,name=directory,...`."""
_MAX_JSON = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Use:
    """What a checkpoint needs a repository for."""

    where: str
    """The field that names it, for messages."""
    weights: bool


@dataclass(frozen=True, slots=True)
class Model:
    """The files that stand for a name in a checkpoint."""

    directory: Path
    """Absolute."""
    files: Mapping[str, str]
    """The hash of each file, by its path."""
    repo: str | None = None
    commit: str | None = None


def obtain_model(
    name: str, place: HubRef | Path, use: Use, *, private: bool, progress: Say
) -> Model:
    """Return the files that stand for a name; fetch them first if necessary.

    Args:
        name: As the checkpoint has it.
        place: The commit of a repository, or a directory that the user names.
        use: What the checkpoint needs it for.
        private: Whether to send the user's token.
        progress: Receives a line for each part of a long download.

    Raises:
        SourceUnavailable: They cannot be fetched, or are pickles.
        ContractError: They bring code.
    """
    if isinstance(place, Path):
        model = _local(place, use)
    else:
        profile = MODEL if use.weights else TOKENIZER
        try:
            stored = fetch_files(place, profile, private=private, progress=progress)
        except SourceUnavailable as exc:
            raise unavailable(name, use, exc) from exc
        hashes = {path: f"sha256:{file.sha256}" for path, file in stored.manifest.files.items()}
        model = Model(stored.directory, hashes, place.repo_id, place.revision)
    _refuse_code(name, model)
    return model


def unavailable(name: str, use: Use, problem: SourceUnavailable) -> SourceUnavailable:
    """Return the error that a model cannot be had, with what to write instead."""
    return SourceUnavailable(
        f"The checkpoint names the model {name} ({use.where}), which is not available: {problem} "
        f"Name a commit or its files: --policy-arg {ARGUMENT}={name}@<commit> or "
        f"{ARGUMENT}={name}=DIRECTORY"
    )


def _local(directory: Path, use: Use) -> Model:
    """Read the files of a directory that the user names."""
    profile = MODEL if use.weights else TOKENIZER
    paths = sorted(path for path in directory.iterdir() if path.is_file())
    profile.check(str(directory), {path.name: path.stat().st_size for path in paths})
    code = [path.name for path in paths if path.suffix == ".py"]
    if code:
        raise ContractError(
            f"{directory} has {code[0]}, which is code; only data is read for a checkpoint. Copy "
            "the other files to a directory of their own, and name that."
        )
    return Model(directory, {p.name: hash_file(p) for p in paths if profile.wants(p.name)})


def _refuse_code(name: str, model: Model) -> None:
    """Refuse a description that leads to a further repository or directory, and to code there.

    LeRobot loads some models with `trust_remote_code`. Without files of Python in the directory
    that runs nothing, but such a repository could be in the user's cache, and a path anywhere.
    """
    for path in model.files:
        if path.rpartition("/")[2] == ADAPTERS:
            raise ContractError(
                f"{name} has {path}: it holds PEFT adapters for another model, which a checkpoint "
                "may not bring."
            )
        if path.endswith("config.json") and any(map(_leads_out, _classes(_parsed(model, path)))):
            raise ContractError(
                f"{path} of {name} names code of another repository (auto_map), which a "
                "checkpoint may not bring."
            )


def _leads_out(reference: str) -> bool:
    """Whether a class is not one of the directory's own: `owner/repo--module.Class`, or a path."""
    return "--" in reference or "/" in reference or "\\" in reference


def _parsed(model: Model, path: str) -> object:
    file = model.directory / path
    try:
        if file.stat().st_size > _MAX_JSON:
            raise ValueError("it is too large")
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise ContractError(f"{file} cannot be read as JSON: {exc}.") from exc


def _classes(content: object) -> Iterator[str]:
    """Yield the texts under `auto_map`, at any depth."""
    waiting = [(content, False)]
    while waiting:
        value, inside = waiting.pop()
        if isinstance(value, dict):
            waiting += [(part, inside or key == "auto_map") for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(part, inside) for part in value]
        elif inside and isinstance(value, str):
            yield value
