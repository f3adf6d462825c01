"""The content of `run.json`: the request, the code and packages used, and a digest of both.

`results.schema` has its fields, and `docs/runs.md` describes them.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import envhub
from envhub.discovery import chosen
from envhub.errors import RunDirectoryError
from envhub.machine.facts import describe_host
from envhub.machine.gl_devices import used_devices
from envhub.results.journal import FORMAT
from envhub.sandbox.differences import conditions, differences
from envhub.types import Confinement, FileSource, WorkerSpec
from envhub.wire.messages import Loaded

_SHOWN = 80
"""Characters of a value that an error shows."""


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
    ignore_conventions: bool = False,
) -> dict[str, Any]:
    """Make the content of `run.json`.

    Args:
        ref: The reference as it was given.
        spec: How workers are started.
        loaded: The benchmark's declaration, and the packages that it runs on.
        files: The benchmark's identity, from `sources.fingerprint.identify`.
        planned: From `Plan.to_json`.
        policy: What the policy says of itself.
        retries: How often a failed episode is run again.
        inline: Whether everything runs in this process, without workers.
        ignore_conventions: Whether the policy's conventions may differ from the benchmark's.
    """
    source = spec.source
    benchmark = {
        "ref": _pinned_reference(ref, spec),
        "path": f"{source.directory}/{source.file}" if isinstance(source, FileSource) else None,
        "name": loaded.benchmark.name,
        **files,
        "env_args": dict(spec.env_args),
        "env_vars": sorted(spec.env_vars),
        "assets": {asset.name: asset.digest for asset in spec.assets},
        "asset_sources": {asset.name: asset.source for asset in spec.assets if asset.source},
        "plugins": list(chosen() or ()),
        "conventions": loaded.benchmark.known_conventions,
        "lerobot_conventions": dict(loaded.benchmark.lerobot_conventions),
    }
    return {
        "format": FORMAT,
        "envhub": envhub.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "benchmark": benchmark,
        "plan": dict(planned),
        "policy": dict(policy),
        "conventions": {
            "ignore": ignore_conventions,
            "benchmark": {},
            "policy": {},
            "overridden": [],
        },
        "runtime": {
            "kind": spec.interpreter.kind,
            "key": spec.interpreter.key,
            "python": loaded.python,
            "packages": loaded.packages,
            "unmet": list(spec.interpreter.unmet),
        },
        "machine": _machine(loaded.machine, {**os.environ, **spec.env_vars}),
        "protection": _protection(spec, inline=inline),
        "limits": asdict(spec.limits),
        "retries": retries,
        "protocol": hash_protocol(benchmark, planned, loaded.packages),
    }


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], directory: Path) -> None:
    """Refuse to continue a run with another question than it was begun with.

    Args:
        before: What `run.json` says; `check_shape` has passed it.
        now: What it would say now, or the part of that which is known so far.
        directory: Of the run.

    Raises:
        RunDirectoryError: The question is another; names the first difference, with both values.
    """
    old, new = _question(before), _question(now)
    for words, value in new.items():
        if words in old and _canonical(old[words]) != _canonical(value):
            raise _difference(words, old[words], value, directory)


_COMPARED = {
    "kind of policy": ("policy", "kind"),
    "policy's file": ("policy", "sha256"),
    "policy's imported file": ("policy", "imports"),
    "--policy-arg": ("policy", "args"),
    "file of --policy-arg": ("policy", "files"),
    "kind of benchmark": ("benchmark", "kind"),
    "benchmark": ("benchmark", "name"),
    "benchmark's file": ("benchmark", "files"),
    "--env-arg": ("benchmark", "env_args"),
    "content of the assets": ("benchmark", "assets"),
    "choice of ENVHUB_PLUGINS": ("benchmark", "plugins"),
    "--seed": ("plan", "seed"),
    "--episodes": ("plan", "episodes"),
    "--max-steps": ("plan", "max_steps"),
    "suite": ("plan", "suites"),
    "task": ("plan", "tasks"),
    "reuse of envs": ("plan", "reuse"),
    "runtime": ("runtime", "key"),
    "package": ("runtime", "packages"),
}
"""Where `run.json` says what must not change within a run, by the words for it."""


def _question(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What must not change within a run, of those parts that are there, by the words for it."""
    parts = {
        words: manifest[section][key]
        for words, (section, key) in _COMPARED.items()
        if key in manifest.get(section, {})
    }
    if "suite" in parts:  # by it the episodes are numbered
        tasks = (task for suite in parts["suite"].values() for task in suite)
        parts["order of tasks"] = list(dict.fromkeys(tasks))
    policy = manifest["policy"]
    if policy.get("checkpoint"):
        parts["file of the checkpoint"] = _checkpoint_files(policy["checkpoint"])
    elif "path" in policy:  # a file may have moved
        function = policy["path"] and policy["path"].rpartition(":")[2]
        parts["policy"] = f"{function} of a file" if function else policy["ref"]
    if policy.get("runtime"):  # runs that were begun before it was recorded have none
        runtime = policy["runtime"]
        parts |= {
            "interpreter of the policy": runtime["kind"],
            "runtime of the policy": runtime["key"],
            "Python of the policy": runtime["python"],
            "policy's package": runtime["packages"],
        }
    if "benchmark" in manifest:  # runs that were begun before there were any have none
        parts["--env-var"] = manifest["benchmark"].get("env_vars", [])
    if "protocol" in manifest:
        parts["protocol"] = manifest["protocol"]
    return parts


def _checkpoint_files(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a checkpoint's files, and of those of the models that it names."""
    models = checkpoint.get("models", {}).items()
    of_models = {f"{name}/{path}": h for name, m in models for path, h in m["files"].items()}
    return {**checkpoint["files"], **of_models}


def _canonical(value: object) -> str:
    """The value as text: unlike the values themselves, 1 and true are not equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _difference(words: str, old: Any, new: Any, directory: Path) -> RunDirectoryError:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changed = {*map(_canonical, old.items())} ^ {*map(_canonical, new.items())}
        key = min(json.loads(item)[0] for item in changed)
        words, old, new = f"{words} {key}", old.get(key), new.get(key)
    advice = "Give the same" if words.startswith("--") else "Restore it"
    return RunDirectoryError(
        f"The {words} that {directory} was begun with is {_shown(old)}, and now it is "
        f"{_shown(new)}. {advice}, or start a new run in another directory."
    )


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
        "differences": _differences(confinement) if confinement else None,
    }


def _differences(confinement: Confinement) -> list[str] | None:
    found = differences(confinement.sandbox, conditions(), network=confinement.network)
    return None if found is None else [f"{each.effect} {each.name}" for each in found]


def _machine(of_workers: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, Any]:
    known: dict[str, Any] = {"openblas": None, "gl": None, **of_workers}
    return {**describe_host(), **known, "gl_devices": used_devices(known["gl"], variables)}


def hash_protocol(
    benchmark: Mapping[str, Any], plan: Mapping[str, Any], packages: Mapping[str, str]
) -> str:
    """Hash everything that must be equal for two runs to be comparable."""
    assets = benchmark["assets"]
    declared = {key: benchmark.get(key) for key in ("conventions", "lerobot_conventions")}
    relevant = {
        "source": [benchmark["kind"], benchmark["name"], benchmark["files"]],
        # The content of assets matters, not where they lie.
        "env_args": {k: v for k, v in benchmark["env_args"].items() if k not in assets},
        **({"assets": assets} if assets else {}),
        # Runs from before there were any have the hash that they would have without any.
        **{key: value for key, value in declared.items() if value},
        "plugins": benchmark["plugins"],
        "plan": {key: plan[key] for key in ("tasks", "seed", "episodes", "reuse")},
        "packages": dict(packages),
    }
    text = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
