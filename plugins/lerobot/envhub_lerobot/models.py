"""Tokenizers and other models of the Hub that a checkpoint names. Runs in the host.

The names come from whoever made the checkpoint. They lead to files of a few kinds, which are
fetched and checked as the checkpoint itself is; never to code, and never to a path of this machine.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envhub.errors import ContractError, SourceUnavailable, UsageError
from envhub.files import expand_home
from envhub.options import Argument, Say
from envhub.refs import HubRef
from envhub.sources.fetch import resolve
from envhub.sources.hub import Hub
from envhub_lerobot.checkpoint import Checkpoint
from envhub_lerobot.hub_names import FIELDS, needs_weights
from envhub_lerobot.model_files import ARGUMENT, Model, Use, obtain_model, unavailable
from envhub_lerobot.reading import CONFIG, PROCESSORS

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_PINNED = re.compile(rf"({_REPO.pattern})@([0-9a-f]{{40}})", re.ASCII)
_MOST = 8
"""Names in a checkpoint; LeRobot's policies have three at most."""


def pin_models(
    checkpoint: Checkpoint,
    args: Mapping[str, Argument],
    directory: Path,
    *,
    private: bool = False,
    message: Say = lambda _: None,
) -> dict[str, Argument]:
    """Return the arguments of a checkpoint with the commit of every model that it names.

    Args:
        checkpoint: The checkpoint.
        args: The user's `--policy-arg`.
        directory: Where relative paths in the arguments begin.
        private: Whether to send the user's token.
        message: Receives a sentence for each commit that was asked for.

    Raises:
        UsageError: The user names a model that the checkpoint does not.
        ContractError: The checkpoint names something that is not a repository.
        SourceUnavailable: The Hub does not say which commit it has.
    """
    uses = read_names(checkpoint)
    places = _read_argument(args.get(ARGUMENT, ""), uses, directory)
    for name, use in uses.items():
        if name not in places:
            places[name] = place = _newest(name, use, private=private)
            message(f"The checkpoint names the model {name}: using {place}.")
    if not places:
        return dict(args)
    texts = [_written(name, place) for name, place in sorted(places.items())]
    return {**args, ARGUMENT: ",".join(texts)}


def obtain_models(
    checkpoint: Checkpoint,
    args: Mapping[str, Argument],
    *,
    private: bool = False,
    progress: Say = lambda _: None,
) -> dict[str, Model]:
    """Return the models that a checkpoint names; fetch them first if necessary.

    Args:
        checkpoint: The checkpoint.
        args: The arguments that `pin_models` returned.
        private: Whether to send the user's token.
        progress: Receives a line for each part of a long download.

    Raises:
        SourceUnavailable: A model cannot be fetched, or has only pickles.
        ContractError: A model brings code.
    """
    uses = read_names(checkpoint)
    places = _read_argument(args.get(ARGUMENT, ""), uses, Path())
    return {
        name: obtain_model(name, place, uses[name], private=private, progress=progress)
        for name, place in places.items()
    }


def recorded_pins(details: Mapping[str, Any]) -> dict[str, Argument]:
    """Return the argument for the commits that a run recorded of the models of its checkpoint.

    Commits only, in one word each: another's run directory does not choose directories of this
    machine.

    Args:
        details: What the run recorded, from `describe`.
    """
    models = details.get("models", {}).items()
    pins = [f"{name}@{model['commit']}" for name, model in models if model["repo"] == name]
    pins = [pin for pin in pins if _PINNED.fullmatch(pin)]
    return {ARGUMENT: ",".join(pins)} if pins else {}


def describe(
    checkpoint: Checkpoint, models: Mapping[str, Model]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what a run records of a checkpoint and its models: hashes by name, and the rest.

    The names of a model's files begin with the model's name; a checkpoint's own have no `/`.
    """
    named = {f"{name}/{path}": h for name, m in models.items() for path, h in m.files.items()}
    places = {name: {"repo": m.repo, "commit": m.commit} for name, m in models.items()}
    details: dict[str, Any] = {"repo": checkpoint.repo, "commit": checkpoint.commit}
    return {**checkpoint.files, **named}, {**details, **({"models": places} if places else {})}


def read_names(checkpoint: Checkpoint) -> dict[str, Use]:
    """Return the models that a checkpoint names, and what it needs them for.

    Raises:
        ContractError: They are too many.
    """
    config = _read(checkpoint.directory / CONFIG)
    uses: dict[str, Use] = {}
    for field in sorted(FIELDS & {*config}):
        weights = needs_weights(field, config)
        _add(uses, config[field], Use(f"{field} of {CONFIG}", weights))
    for file in PROCESSORS if (checkpoint.directory / PROCESSORS[0]).exists() else ():
        for step in _read(checkpoint.directory / file).get("steps", []):
            settings = step.get("config")
            for field in sorted(FIELDS & {*settings} if isinstance(settings, dict) else ()):
                _add(uses, settings[field], Use(f"{field} of {file}", weights=False))
    if len(uses) > _MOST:
        raise ContractError(
            f"The checkpoint names {len(uses)} models of the Hub; {_MOST} at most are fetched."
        )
    return uses


def _add(uses: dict[str, Use], name: object, use: Use) -> None:
    if isinstance(name, str) and name:
        before = uses.get(name, use)
        uses[name] = Use(before.where, before.weights or use.weights)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _read_argument(
    given: Argument, uses: Mapping[str, Use], directory: Path
) -> dict[str, HubRef | Path]:
    """Read `name@commit,name=owner/repo@commit,name=directory`."""
    if not isinstance(given, str):
        raise UsageError(f"--policy-arg {ARGUMENT} must be text, found {given!r}.")
    places: dict[str, HubRef | Path] = {}
    for part in filter(None, map(str.strip, given.split(","))):
        name, equals, place = part.partition("=")
        name, place = (name, place) if equals else (part.partition("@")[0], part)
        if name not in uses:
            raise UsageError(
                f"--policy-arg {ARGUMENT}: the checkpoint does not name {name!r}. It names: "
                f"{', '.join(uses) or 'nothing'}."
            )
        places[name] = _read_place(name, place, directory)
    return places


def _read_place(name: str, place: str, directory: Path) -> HubRef | Path:
    if match := _PINNED.fullmatch(place):
        owner, _, repo = match[1].partition("/")
        return HubRef(owner, repo, match[2], "")
    path = directory / expand_home(place)
    if not path.is_dir():
        raise UsageError(
            f"--policy-arg {ARGUMENT}: {place} is neither a directory nor owner/repo@<commit>, "
            f"with a commit of 40 characters. Write {ARGUMENT}={name}=DIRECTORY."
        )
    return path.resolve()


def _newest(name: str, use: Use, *, private: bool) -> HubRef:
    """Ask the Hub which commit a name means now."""
    if not _REPO.fullmatch(name):
        raise ContractError(
            f"The checkpoint names {name[:100]!r} ({use.where}), which is not a repository of the "
            f"Hub. If you have its files, name their directory: --policy-arg {ARGUMENT}=NAME="
            "DIRECTORY, with this NAME."
        )
    owner, _, repo = name.partition("/")
    try:
        return resolve(HubRef(owner, repo, None, ""), Hub(private=private))
    except SourceUnavailable as exc:
        raise unavailable(name, use, exc) from exc


def _written(name: str, place: HubRef | Path) -> str:
    if isinstance(place, Path):
        return f"{name}={place}"
    return str(place) if place.repo_id == name else f"{name}={place}"
