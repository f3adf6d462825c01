"""What a policy says of itself, as `run.json` of format 1 has it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from envhub.run_info import PolicyInfo, ProvidedInfo

_FORESEEN = ("kind", "sha256", "imports", "args", "files", "checkpoint")
"""What of a policy is known before the benchmark is loaded, and must agree to resume."""


def describe_policy(info: PolicyInfo) -> dict[str, Any]:
    """Return the section `policy` of a `run.json`."""
    said: dict[str, Any] = msgspec.to_builtins(info)
    provided = info.provided
    return {
        **said,
        "kind": "object" if info.kind == "object" else "named",
        "checkpoint": None if provided is None else _checkpoint(provided),
    }


def foresee_policy(info: PolicyInfo) -> dict[str, Any]:
    """Return the part of the section that can be compared before the benchmark is loaded."""
    said = describe_policy(info)
    return {"kind": said["kind"]} if info.kind == "object" else {k: said[k] for k in _FORESEEN}


def recorded_provided(policy: Mapping[str, Any]) -> ProvidedInfo | None:
    """Return what a run recorded of a provider's policy; None if it has none.

    Args:
        policy: The section `policy` of its `run.json`.
    """
    checkpoint = policy.get("checkpoint")
    if policy.get("provided"):
        return msgspec.convert(policy["provided"], ProvidedInfo)
    if not checkpoint:
        return None
    models = checkpoint.get("models", {})
    of_models = {f"{name}/{p}": h for name, m in models.items() for p, h in m["files"].items()}
    return ProvidedInfo(
        scheme="lerobot",
        package="envhub-core",
        version="0.1.0",
        files={**checkpoint["files"], **of_models},
        details={
            "repo": checkpoint["repo"],
            "commit": checkpoint["commit"],
            "models": {n: {"repo": m["repo"], "commit": m["commit"]} for n, m in models.items()},
        },
    )


def _checkpoint(provided: ProvidedInfo) -> dict[str, Any]:
    """Return the section `checkpoint`: the names of a model's files begin with the model's."""
    details: dict[str, Any] = provided.details
    models: dict[str, Any] = details.get("models") or {}
    own = dict(provided.files)
    described = {}
    for name, model in models.items():
        files = {p: own.pop(p) for p in [*own] if p.startswith(f"{name}/")}
        files = {path.removeprefix(f"{name}/"): value for path, value in files.items()}
        described[name] = {"repo": model["repo"], "commit": model["commit"], "files": files}
    return {
        "repo": details.get("repo"),
        "commit": details.get("commit"),
        "files": own,
        **({"models": described} if described else {}),
    }
