"""Runs of format 1, as EnvHub 0.1.0 wrote them: read into the types of today, checked by their own.

A run of format 1 keeps its number and its digest until it is continued; then it is written in
today's format, in which an older EnvHub refuses it with a sentence.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from envhub.run_info import RunInfo, canonical
from envhub.types import Interpreter

_BUILTIN = ("random", "zero")


def upgrade(content: Mapping[str, Any]) -> RunInfo:
    """Return the content of a `run.json` of format 1; what it was begun without has its default.

    Raises:
        ValidationError: It lacks a field, or has something else there; says where.
    """
    later = {"machine": None, "seal": None, "conventions": {"ignore": False}}
    new: dict[str, Any] = {**later, **content}
    sections: dict[str, dict[str, Any]] = {
        "benchmark": {
            "env_vars": [], "assets": {}, "asset_sources": {},
            "conventions": {}, "lerobot_conventions": {},
        },
        "runtime": {"worker": 1},
        "machine": {"gl_devices": []},
    }  # fmt: skip
    for name, defaults in sections.items():
        if isinstance(new.get(name), dict):
            new[name] = {**defaults, **new[name]}
    if isinstance(new.get("policy"), dict):
        new["policy"] = _policy(new["policy"], content.get("envhub"))
    return convert(new, RunInfo)


def _policy(old: Mapping[str, Any], version: object) -> dict[str, Any]:
    checkpoint = old.get("checkpoint")
    provided = None if checkpoint is None else _provided(checkpoint, version)
    kind = _kind(old) if old.get("kind") == "named" else old.get("kind")
    return {**old, "kind": kind, "provided": provided}


def _kind(old: Mapping[str, Any]) -> str:
    """What a policy was that was named; those that were installed by a name count as modules."""
    ref = old.get("ref")
    if old.get("checkpoint") is not None:
        return "provided"
    if old.get("path") is not None:
        return "file"
    if ref in _BUILTIN:
        return "builtin"
    return "module" if isinstance(ref, str) and ":" in ref else "benchmark"


def _provided(checkpoint: Any, version: object) -> Any:
    if not isinstance(checkpoint, dict):
        return checkpoint  # for the error
    models = checkpoint.get("models", {})
    files = checkpoint.get("files")
    if isinstance(models, dict) and isinstance(files, dict):
        of_models = {
            f"{name}/{path}": digest
            for name, model in models.items()
            for path, digest in _files(model).items()
        }
        files = {**files, **of_models}
    details = {key: value for key, value in checkpoint.items() if key != "files"}
    return {
        "scheme": "lerobot",
        "package": "envhub",
        "version": version,
        "files": files,
        "details": details,
    }


def _files(model: Any) -> dict[str, Any]:
    files = model.get("files") if isinstance(model, dict) else None
    return files if isinstance(files, dict) else {}


def hash_protocol(info: RunInfo) -> str:
    """Hash what must be equal for two runs to be comparable, as format 1 did."""
    benchmark, plan = info.benchmark, info.plan
    tasks = {name: task.rules for name, task in plan.tasks.items()}
    declared = {
        "assets": benchmark.assets,
        "conventions": benchmark.conventions,
        "lerobot_conventions": benchmark.lerobot_conventions,
    }
    relevant = {
        "source": [benchmark.kind, benchmark.name, benchmark.files],
        "env_args": benchmark.args_without_assets,
        **{key: value for key, value in declared.items() if value},
        "plugins": benchmark.plugins,
        "plan": {
            "tasks": tasks,
            "seed": plan.seed,
            "episodes": plan.episodes,
            "reuse": plan.reuse,
        },
        "packages": info.runtime.packages,
    }
    return f"sha256:{hashlib.sha256(canonical(relevant).encode()).hexdigest()}"


def with_keys_of_today(
    info: RunInfo, interpreter: Interpreter, policy: Interpreter | None
) -> RunInfo:
    """Return a run of format 1 with the keys that its runtimes have now.

    Format 1's keys were hashes over EnvHub's version, too.

    Args:
        info: The content of a run, of any format.
        interpreter: That of the workers, now.
        policy: That of the policy's process, now.
    """
    if info.format != 1:
        return info
    if info.runtime.key and info.runtime.key == interpreter.former_key:
        info = replace(info, runtime=replace(info.runtime, key=interpreter.key))
    own = info.policy.runtime
    if policy is not None and own is not None and own.key and own.key == policy.former_key:
        own = replace(own, key=policy.key)
        info = replace(info, policy=replace(info.policy, runtime=own))
    return info
