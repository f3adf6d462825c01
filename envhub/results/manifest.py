"""What `run.json` says of a policy, until policies say it themselves."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

import envhub
from envhub.options import Argument
from envhub.policies.checkpoint import Checkpoint, find_checkpoint, is_checkpoint
from envhub.policies.find import BUILTIN
from envhub.policies.models import describe_checkpoint
from envhub.refs import PathRef
from envhub.run_info import PolicyInfo, PolicyRuntimeInfo, ProvidedInfo
from envhub.sources.find import locate
from envhub.sources.fingerprint import hash_file
from envhub.sources.siblings import hash_siblings
from envhub.types import FileSource, PolicySource


def describe_policy(
    requested: Any,
    policy: Any,
    args: Mapping[str, Argument],
    directory: Path | None = None,
    *,
    in_worker: bool = False,
    runtime: PolicyRuntimeInfo | None = None,
    processes: tuple[str | None, ...] = (),
) -> PolicyInfo:
    """Describe a policy for `run.json`.

    Args:
        requested: The name of the policy, or the policy object.
        policy: The `PolicySource` for that name, or the policy object.
        args: The arguments for the policy's factory.
        directory: Where relative paths in the arguments begin; None: this process's directory.
        in_worker: Whether workers can make the policy.
        runtime: The interpreter of its process; None: it has none of its own.
        processes: The GPU of each of its processes.
    """
    named = isinstance(policy, PolicySource)
    checkpoint, described = _loaded(policy), None
    if is_checkpoint(requested):
        checkpoint = find_checkpoint(requested)
        described = describe_checkpoint(checkpoint, args)
    elif checkpoint is not None:  # its models are where the program found them
        described = checkpoint.to_json()
    # Only a file that the user named. One of the benchmark's is among the benchmark's files, and
    # is found by its name, so that it stays as confined as the benchmark.
    of_user = named and isinstance(policy.module, FileSource) and is_path(requested)
    path = Path(policy.module.directory) / policy.module.file if of_user else None
    return PolicyInfo(
        kind=_kind(requested, in_worker=in_worker) if named else "object",
        ref=requested if named else type(policy).__qualname__,
        path=_path(checkpoint, path, policy) if named else None,
        sha256=_hash_policy(path) if path else None,
        imports=hash_siblings(path) if path else {},
        args=dict(args),
        files=_hash_named_files(args, directory),
        directory=str((directory or Path()).absolute()),
        provided=_provided(described) if described else None,
        runtime=runtime,
        processes=list(processes),
    )


def foresee_policy(
    asked: Any, args: Mapping[str, Argument], directory: Path | None, before: PolicyInfo
) -> PolicyInfo:
    """Return the part of `describe_policy` that is known before the benchmark is loaded.

    What is not known yet is as `before`, which `run.json` says.
    """
    if not isinstance(asked, str):
        return replace(before, kind="object")
    path = _locate_policy(asked) if is_path(asked) else None
    provided = None
    if is_checkpoint(asked):
        provided = _provided(describe_checkpoint(find_checkpoint(asked), args))
    return replace(
        before,
        kind="module" if before.kind == "object" else before.kind,
        ref=asked if before.provided else before.ref,
        path=None if before.provided else before.path,
        sha256=_hash_policy(path) if path else None,
        imports=hash_siblings(path) if path else {},
        args=dict(args),
        files=_hash_named_files(args, directory),
        provided=provided,
    )


def _kind(
    requested: str, *, in_worker: bool
) -> Literal["builtin", "benchmark", "file", "module", "provided"]:
    if is_checkpoint(requested):
        return "provided"
    if is_path(requested):
        return "file"
    if requested in BUILTIN:
        return "builtin"
    return "benchmark" if in_worker else "module"


def _provided(described: Mapping[str, Any]) -> ProvidedInfo:
    models = described.get("models", {}).items()
    of_models = {f"{name}/{path}": h for name, m in models for path, h in m["files"].items()}
    return ProvidedInfo(
        scheme="lerobot",
        package="envhub",
        version=envhub.__version__,
        files={**described["files"], **of_models},
        details={key: value for key, value in described.items() if key != "files"},
    )


def _loaded(policy: Any) -> Checkpoint | None:
    """The checkpoint that a program made a policy object of."""
    loaded = getattr(policy, "checkpoint", None)
    return loaded if isinstance(loaded, Checkpoint) else None


def _path(checkpoint: Checkpoint | None, path: Path | None, policy: PolicySource) -> str | None:
    if checkpoint is not None:
        return checkpoint.path
    return f"{path}:{policy.name}" if path else None


def is_path(policy: str) -> bool:
    """Whether `--policy` names a file."""
    return policy.startswith(("./", "../", "/"))


def _locate_policy(asked: str) -> Path:
    file, _, name = asked.rpartition(":")
    # Refuses pipes, and what is too large for code.
    source = locate(PathRef(file if file and name.isidentifier() else asked))
    return Path(source.directory) / source.file


def _hash_policy(path: Path) -> str:
    return hash_file(path).removeprefix("sha256:")


def _hash_named_files(args: Mapping[str, Argument], directory: Path | None) -> dict[str, str]:
    """The hashes of the files that a policy's arguments name, by the argument or its part."""
    top = directory or Path()
    texts = {where: text for key, value in args.items() for where, text in _texts(value, key)}
    return {where: hash_file(top / text) for where, text in texts.items() if _is_file(top / text)}


def _texts(value: Argument, where: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in an argument, each after its place, such as `weights[0]`."""
    match value:
        case str():
            yield where, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, f"{where}[{index}]")
        case dict():
            for key, item in value.items():
                yield from _texts(item, f"{where}.{key}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character in it
        return False
