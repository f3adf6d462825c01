"""A LeRobot checkpoint as a policy object, in a program that has LeRobot beside EnvHub."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from envhub.arguments import check_path, check_whole
from envhub.conventions import Convention
from envhub.errors import RuntimeUnavailable, UsageError
from envhub.runtime.pythons import installed_here
from envhub_lerobot.checkpoint import Checkpoint, read_checkpoint
from envhub_lerobot.features import Inputs, check_statistics, read_rename
from envhub_lerobot.model_files import Model, Use, obtain_model
from envhub_lerobot.models import read_names
from envhub_lerobot.policy import LeRobotPolicy, load_policy
from envhub_lerobot.provider import describe_loaded
from envhub_lerobot.trained import Trained

_BESIDE = (3, 12)
"""The first Python for which there is a LeRobot that can share an environment with EnvHub: 0.6."""


def load_lerobot_policy(
    directory: str | Path,
    *,
    batch: int = 1,
    device: str | None = None,
    n_action_steps: int | None = None,
    threads: int | None = None,
    rename: Mapping[str, str] | str | None = None,
    conventions: Mapping[str, Convention] | str | None = None,
    models: Mapping[str, str | Path] | None = None,
) -> LeRobotPolicy:
    """Load a checkpoint of LeRobot as a policy, in this process.

    It can be given to `envhub.evaluate`, and acts in a loop of your own: call `start` with an
    `envhub.Context` when an episode begins, and `act` with a batch from
    `envhub.observations.to_lerobot` and the contexts of its rows.

    Args:
        directory: The checkpoint's files, usually a directory `pretrained_model`.
        batch: Rows of every call of the network; 1: bit-equal to LeRobot's own use.
        device: Such as `cuda:1`; None: the checkpoint's, or the CPU where that is not available.
        n_action_steps: Actions of a chunk that are executed; None: the checkpoint's number.
        threads: Threads of torch; None: as they are in this process.
        rename: The benchmark's names of features and the checkpoint's, as a mapping or as
            `ours=theirs,...`.
        conventions: What it was trained with, as a mapping or as `key=value,...`; before those of
            its `envhub.json`.
        models: The local directory of each model that the checkpoint names, by its name. Nothing
            is fetched.

    Raises:
        UsageError: There is no checkpoint, an argument is invalid, or a model has no
            directory.
        RuntimeUnavailable: This environment has no LeRobot.
        ContractError: The checkpoint cannot be loaded.
    """
    place = check_path("directory", directory)
    if place is None:
        raise UsageError("directory must be the directory of a checkpoint, found None.")
    checkpoint = read_checkpoint(place)
    batch = check_whole("batch", batch, 1, 65536)
    if device is not None and not isinstance(device, str):
        raise UsageError(f"device must be text such as 'cuda:0', found {device!r}.")
    threads = None if threads is None else check_whole("threads", threads, 1, 65536)
    names = _names(rename)
    found = _models(checkpoint, {} if models is None else models)
    _check_lerobot(place)
    policy = load_policy(
        checkpoint.directory,
        batch=batch,
        device=device,
        n_action_steps=n_action_steps,
        threads=threads,
        conventions=conventions or "",
        models={name: str(model.directory) for name, model in found.items()},
        checked=checkpoint.checked,
        inputs_of=lambda trained: _any_inputs(trained, names),
    )
    policy.provided = describe_loaded(checkpoint, found)
    return policy


def _any_inputs(trained: Trained, names: Mapping[str, str]) -> Inputs:
    """Take observations that nobody has compared with the checkpoint yet."""
    check_statistics(trained)
    return Inputs(trained, names, "the observation", {}, None)


def _models(checkpoint: Checkpoint, places: Mapping[str, str | Path]) -> dict[str, Model]:
    """Return the files of the models that a checkpoint names; data only, as on the command line."""
    if not isinstance(places, Mapping):
        raise UsageError(f"models must be a mapping of names to directories, found {places!r}.")
    uses = read_names(checkpoint)
    if unknown := [name for name in places if name not in uses]:
        raise UsageError(
            f"models: the checkpoint does not name {unknown[0]!r}. It names: "
            f"{', '.join(uses) or 'nothing'}."
        )
    if missing := [name for name in uses if name not in places]:
        line = ", ".join(f"{name!r}: DIRECTORY" for name in missing)
        raise UsageError(
            f"The checkpoint names the model {missing[0][:100]!r} ({uses[missing[0]].where}), "
            "which is not fetched here. Say where its files are: "
            f"load_lerobot_policy(..., models={{{line}}})"
        )
    return {name: _model(name, place, uses[name]) for name, place in places.items()}


def _model(name: str, place: str | Path, use: Use) -> Model:
    directory = check_path("models", place)
    if directory is None or not directory.is_dir():
        raise UsageError(f"models: {place} is not a directory. Check the path of {name}.")
    return obtain_model(name, directory.resolve(), use, private=False, progress=lambda _: None)


def _names(rename: Mapping[str, str] | str | None) -> dict[str, str]:
    if rename is None or isinstance(rename, str):
        return read_rename(rename or "")
    names = (*rename, *rename.values()) if isinstance(rename, Mapping) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"rename must be a mapping of names to names, found {rename!r}.")
    return dict(rename)


def _check_lerobot(directory: Path) -> None:
    """Refuse an environment without LeRobot, with the line that helps."""
    if installed_here(["lerobot"]):
        return
    apart = f'evaluate(..., "lerobot:{directory}", policy_python=PATH)'
    if sys.version_info >= _BESIDE:
        line = shlex.join([sys.executable, "-m", "pip", "install", "lerobot>=0.6"])
        advice = f"Run: {line}"
    else:
        advice = f"For Python 3.11 none can share it: name the interpreter of another one: {apart}"
    raise RuntimeUnavailable(
        f"The environment of {sys.executable} has no LeRobot.", advice, requirement="lerobot"
    )
