"""What a whole `run.json` says, and the same with something changed."""

import copy
from pathlib import Path
from typing import Any

from envhub.results.schema import parse_run
from envhub.run_info import RunInfo

MANIFEST: dict[str, Any] = {
    "format": 2,
    "envhub": "0.1.0",
    "created": "2026-01-01T12:00:00+00:00",
    "benchmark": {
        "ref": "./walk",
        "path": "/here/walk/env.py",
        "name": "walk",
        "kind": "local",
        "files": {"env.py": "sha256:1"},
        "package": None,
        "repo": None,
        "commit": None,
        "endpoint": None,
        "proof": None,
        "consent": None,
        "env_args": {"size": 1},
        "env_vars": [],
        "env_var_hashes": {},
        "assets": {},
        "asset_sources": {},
        "plugins": [],
        "conventions": {},
        "lerobot_conventions": {},
    },
    "plan": {
        "suites": {"short": ["near"], "long": ["far", "near"]},
        "dimensions": {},
        "part": False,
        "episodes": 2,
        "seed": 0,
        "seeding": "shared",
        "max_steps": None,
        "instructions": {},
        "latency": None,
        "perturbations": {},
        "reuse": "reset",
        "tasks": {
            name: {"horizon": 5, "success": "once", "init_states": 0, "description": f"Go {name}."}
            for name in ("near", "far")
        },
    },
    "policy": {
        "kind": "file",
        "ref": "./policy.py",
        "path": "/here/policy.py:make_policy",
        "sha256": "ab",
        "imports": {},
        "args": {},
        "files": {},
        "directory": "/here",
        "provided": None,
        "batch": None,
        "placement": None,
        "about": {},
        "instructions": {},
        "latency": None,
        "outliers": [],
        "runtime": None,
        "processes": [],
    },
    "conventions": {"ignore": False, "benchmark": {}, "policy": {}, "overridden": []},
    "runtime": {
        "kind": "here",
        "key": None,
        "worker": 1,
        "python": "3.11.7",
        "packages": {"numpy": "2.0"},
        "unmet": [],
    },
    "machine": {
        "arch": "x86_64",
        "cpu": None,
        "flags": ["avx2"],
        "libc": "glibc 2.36",
        "openblas": "Haswell",
        "gl": None,
        "gl_devices": [],
    },
    "protection": {
        "process": True,
        "sandbox": "none",
        "network": True,
        "memory_mb": None,
    },
    "limits": {"start": 300.0, "reset": 120.0, "step": 60.0, "act": 120.0, "close": 5.0},
    "retries": 1,
    "protocol": "sha256:2",
    "reproducible": True,
    "shard": None,
    "parts": [],
    "machines": [],
    "seal": None,
}


def changed(dotted: str, value: object, manifest: dict[str, Any] = MANIFEST) -> dict[str, Any]:
    """A manifest with another value in a field: `changed("plan.seed", 5)`."""
    made = copy.deepcopy(manifest)
    part, last = _place(made, dotted)
    part[last] = value
    return made


def without(dotted: str, manifest: dict[str, Any] = MANIFEST) -> dict[str, Any]:
    """A manifest without a field."""
    made = copy.deepcopy(manifest)
    part, last = _place(made, dotted)
    del part[last]
    return made


def info_of(manifest: dict[str, Any] = MANIFEST) -> RunInfo:
    """The same as types."""
    return parse_run(manifest, Path("run"))


def places(content: dict[str, Any], above: str = "") -> list[str]:
    """Every field of a content, those of mappings below it too, as `plan.seed`."""
    found = []
    for key, value in content.items():
        found.append(f"{above}{key}")
        if isinstance(value, dict):
            found += places(value, f"{above}{key}.")
    return found


def _place(content: dict[str, Any], dotted: str) -> tuple[dict[str, Any], str]:
    """The mapping that holds a field, and its key; a key may have a dot itself."""
    for key, value in content.items():
        if dotted == key:
            return content, key
        if dotted.startswith(f"{key}.") and isinstance(value, dict):
            return _place(value, dotted.removeprefix(f"{key}."))
    return content, dotted
