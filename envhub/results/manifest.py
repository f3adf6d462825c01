"""The content of `run.json`: the request, the code and packages used, and a digest of both.

`docs/runs.md` describes every field.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import envhub
from envhub.errors import RunDirectoryError
from envhub.plugins import chosen
from envhub.results.journal import FORMAT
from envhub.sources.fingerprint import hash_file
from envhub.types import FileSource, PolicySource, Value, WorkerSpec
from envhub.wire.messages import Loaded


def make_manifest(
    *,
    ref: str,
    spec: WorkerSpec,
    loaded: Loaded,
    files: Mapping[str, Any],
    planned: Mapping[str, Any],
    policy: Mapping[str, Any],
    retries: int,
    inline: bool,
) -> dict[str, Any]:
    """Make the content of `run.json`.

    Args:
        ref: The reference as it was given.
        spec: How workers are started.
        loaded: The benchmark's declaration, and the packages that it runs on.
        files: The benchmark's identity, from `sources.fingerprint.identify`.
        planned: From `Plan.to_json`.
        policy: From `describe_policy`.
        retries: How often a failed episode is run again.
        inline: Whether everything runs in this process, without workers.
    """
    source = spec.source
    benchmark = {
        "ref": _pinned_reference(ref, spec),
        "path": f"{source.directory}/{source.file}" if isinstance(source, FileSource) else None,
        "name": loaded.benchmark.name,
        **files,
        "env_args": dict(spec.env_args),
        "plugins": list(chosen() or ()),
    }
    return {
        "format": FORMAT,
        "envhub": envhub.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "benchmark": benchmark,
        "plan": dict(planned),
        "policy": dict(policy),
        "runtime": {
            "kind": spec.interpreter.kind,
            "key": spec.interpreter.key,
            "python": loaded.python,
            "packages": loaded.packages,
            "unmet": list(spec.interpreter.unmet),
        },
        "protection": _protection(spec, inline=inline),
        "limits": asdict(spec.limits),
        "retries": retries,
        "protocol": _protocol(benchmark, planned, loaded.packages),
    }


def describe_policy(requested: Any, policy: Any, args: Mapping[str, Value]) -> dict[str, Any]:
    """Describe a policy for `run.json`.

    Args:
        requested: The name of the policy, or the policy object.
        policy: The `PolicySource` for that name, or the policy object.
        args: The arguments for the policy's factory.
    """
    named = isinstance(policy, PolicySource)
    file = policy.module if named and isinstance(policy.module, FileSource) else None
    path = Path(file.directory) / file.file if file else None
    return {
        "kind": "named" if named else "object",
        "ref": requested if named else type(policy).__qualname__,
        "path": f"{path}:{policy.name}" if path else None,
        "sha256": hash_file(path).removeprefix("sha256:") if path else None,
        "args": dict(args),
        "batch": None,
        "placement": None,
    }


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], directory: Path) -> None:
    """Refuse to resume if the benchmark, its runtime or the policy changed.

    Raises:
        RunDirectoryError: One of them changed; says which.
    """
    if before["policy"]["sha256"] != now["policy"]["sha256"]:
        raise RunDirectoryError(
            f"The policy {before['policy']['ref']} has changed since {directory} was started. "
            "Start a new run, or restore the file."
        )
    keys = [manifest["runtime"].get("key") for manifest in (before, now)]
    if keys[0] != keys[1]:
        raise RunDirectoryError(
            f"The runtime of {directory} was {keys[0]}, but now it would be {keys[1]}. Start a new "
            "run."
        )
    if before["protocol"] == now["protocol"]:
        return
    changed = [
        name
        for name, digest in now["benchmark"]["files"].items()
        if before["benchmark"]["files"].get(name) != digest
    ]
    named = f" ({', '.join(changed[:3])})" if changed else ""
    raise RunDirectoryError(
        f"The benchmark{named} or its packages have changed since {directory} was started. Start "
        "a new run, or restore them."
    )


def _pinned_reference(ref: str, spec: WorkerSpec) -> str:
    """Return the reference to exactly this source."""
    source = spec.source
    if isinstance(source, FileSource) and source.origin is not None:
        return f"{source.origin.repo}@{source.origin.commit}:{source.file}"
    return ref


def _protection(spec: WorkerSpec, *, inline: bool) -> dict[str, Any]:
    """Describe how the benchmark's code was confined."""
    confinement = spec.confinement
    return {
        "process": not inline,
        "sandbox": confinement.sandbox if confinement else "none",
        "network": confinement.network if confinement else True,
        "memory_mb": confinement.memory_mb if confinement else None,
    }


def _protocol(
    benchmark: Mapping[str, Any], plan: Mapping[str, Any], packages: Mapping[str, str]
) -> str:
    """Hash everything that must be equal for two runs to be comparable."""
    relevant = {
        "source": [benchmark["kind"], benchmark["name"], benchmark["files"]],
        "env_args": benchmark["env_args"],
        "plugins": benchmark["plugins"],
        "plan": {key: plan[key] for key in ("tasks", "seed", "episodes", "reuse")},
        "packages": dict(packages),
    }
    text = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
