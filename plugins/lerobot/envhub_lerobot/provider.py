"""The provider of `lerobot:DIRECTORY` and `lerobot:owner/repo@<commit>`. Runs in the host."""

from collections.abc import Mapping
from importlib import metadata

from envhub.conventions import read_conventions
from envhub.errors import ContractError, UsageError
from envhub.options import Argument
from envhub.policies.provider import ProvidedPolicy, Wanted
from envhub.run_info import ProvidedInfo
from envhub_lerobot.checkpoint import PREFIX, Checkpoint, find_checkpoint
from envhub_lerobot.model_files import ARGUMENT, Model
from envhub_lerobot.models import describe, obtain_models, pin_models, recorded_pins

ARGUMENTS = (
    "batch", "conventions", "device", "models", "n_action_steps", "rename", "threads",
)  # fmt: skip
"""What `--policy-arg` takes for a checkpoint."""
LEROBOT = "lerobot>=0.4.4"
"""The first version whose checkpoints have their processors, and that has been tried here."""
_PACKAGE = "envhub-lerobot"


def provide(rest: str, wanted: Wanted) -> ProvidedPolicy:
    """Obtain a checkpoint and the models that it names; a run that has begun keeps its commits.

    Args:
        rest: A directory, or `owner/repo@<commit>`.
        wanted: The user's arguments and the receivers of messages.

    Raises:
        UsageError: There is no such checkpoint, it is not pinned, or an argument is not one of it.
        SourceError: Something cannot be fetched, or differs from its commit.
        ContractError: It is not one that can be evaluated.
    """
    private = wanted.private
    checkpoint = find_checkpoint(f"{PREFIX}{rest}", private=private, progress=wanted.progress)
    args = {**_kept_pins(checkpoint, wanted.begun), **wanted.args}
    _check_arguments(args)
    args = pin_models(checkpoint, args, wanted.directory, private=private, message=wanted.message)
    models = obtain_models(checkpoint, args, private=private, progress=wanted.progress)
    files, details = describe(checkpoint, models)
    return ProvidedPolicy(
        place=checkpoint.place,
        factory="envhub_lerobot.policy:make_policy",
        factory_args=_factory_args(checkpoint, args, models),
        args=args,
        files=files,
        details=details,
        requires=(LEROBOT,),
    )


def describe_loaded(checkpoint: Checkpoint, models: Mapping[str, Model]) -> ProvidedInfo:
    """Return what a run records of a checkpoint that a program loaded."""
    files, details = describe(checkpoint, models)
    version = metadata.version(_PACKAGE)
    return ProvidedInfo(
        scheme="lerobot", package=_PACKAGE, version=version, files=files, details=details
    )


def _kept_pins(checkpoint: Checkpoint, begun: ProvidedInfo | None) -> dict[str, Argument]:
    """Return the commits of models that a run of the same checkpoint began with."""
    if begun is None:
        return {}
    own = {name: value for name, value in begun.files.items() if "/" not in name}
    return recorded_pins(begun.details) if own == checkpoint.files else {}


def _check_arguments(args: Mapping[str, Argument]) -> None:
    for name in args:
        if name not in ARGUMENTS:
            raise UsageError(
                f"--policy-arg {name} is not an argument of a checkpoint. Available: "
                f"{', '.join(ARGUMENTS)}."
            )
    try:
        read_conventions(args.get("conventions", {}))
    except ContractError as exc:
        raise UsageError(str(exc)) from exc


def _factory_args(
    checkpoint: Checkpoint, args: Mapping[str, Argument], models: Mapping[str, Model]
) -> dict[str, Argument]:
    given = {name: value for name, value in args.items() if name != ARGUMENT}
    places = {name: str(model.directory) for name, model in models.items()}
    named: dict[str, Argument] = {ARGUMENT: places} if places else {}
    checked = dict(checkpoint.checked)
    return {"directory": str(checkpoint.directory), **given, **named, "checked": checked}
