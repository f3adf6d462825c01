"""What the nodes of a cluster have, for `envhub doctor --cluster`."""

import platform
import tempfile
from pathlib import Path
from typing import Any

import msgspec

import envhub
from envhub.files import cache_home
from envhub.machine import resources
from envhub.sandbox.choose import why_unavailable
from envhub.scratch import temporary_directory
from envhub.text import align
from envhub_cluster.ray_cluster import Lost, RayCluster

_SECONDS = 60.0
_LEAST = 2**20
"""Bytes that a disk must take."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    envhub: str
    python: str
    cores: int
    memory_mb: int
    sandbox: str | None
    problems: list[str]


def describe_node() -> NodeFacts:
    """Return what this machine has."""
    sandbox = next((k for k in ("bubblewrap", "landlock") if why_unavailable(k) is None), None)
    cache = _existing(cache_home())
    places = (("TMPDIR", temporary_directory()), ("ENVHUB_CACHE_DIR", str(cache)))
    problems = [_why_unwritable(name, place) for name, place in places]
    return NodeFacts(
        envhub=envhub.__version__,
        python=platform.python_version(),
        cores=resources.cores(),
        memory_mb=resources.memory_mb(),
        sandbox=sandbox,
        problems=[problem for problem in problems if problem],
    )


def probe_cluster(address: str) -> list[dict[str, Any]]:
    """Ask all nodes of a cluster what they have.

    Raises:
        UsageError: There is no such cluster.
    """
    ray = RayCluster(address)
    waiting = {ray.probe(node): node for node in ray.nodes()}
    found = []
    while waiting:
        came = list(ray.answers(list(waiting), _SECONDS))
        for asked, answer in came:
            node = waiting.pop(asked)
            row = {"name": node.name, "ray_cores": node.cores, "gpus": node.gpus}
            found.append({**row, **_judge(answer)})
        if not came:
            silent = {"problems": [f"it did not answer within {_SECONDS:.0f} s"]}
            found += [{"name": n.name, "ray_cores": n.cores, **silent} for n in waiting.values()]
            break
    return sorted(found, key=lambda row: str(row["name"]))


def as_text(found: list[dict[str, Any]]) -> str:
    """Return a table of the nodes."""
    rows = [
        (
            row["name"],
            f"{row['ray_cores']} CPUs",
            f"{row.get('gpus', 0):g} GPUs",
            f"EnvHub {row.get('envhub', '?')}",
            f"sandbox {row.get('sandbox') or 'none'}",
            "; ".join(row["problems"]) or "can play",
        )
        for row in found
    ]
    return "\n".join(align(rows)) if rows else "The cluster has no node with a core to play on."


def _judge(answer: object) -> dict[str, Any]:
    if isinstance(answer, Lost):
        return {"problems": [answer.reason]}
    if not isinstance(answer, bytes):
        return {"problems": ["it sent something else than facts"]}
    try:
        facts = msgspec.json.decode(answer, type=NodeFacts)
    except ValueError as exc:
        return {"problems": [f"it sent something else than facts: {exc}"]}
    problems = list(facts.problems)
    if facts.envhub != envhub.__version__:
        problems.append(f"its EnvHub is not that of this machine, {envhub.__version__}")
    return {**msgspec.to_builtins(facts), "problems": problems}


def _existing(place: Path) -> Path:
    """Return a directory, or the one above it in which it would be made."""
    return next((each for each in (place, *place.parents) if each.is_dir()), place)


def _why_unwritable(name: str, place: str) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(_LEAST))
            return None
    except OSError as exc:
        return f"{name} {place} cannot be written: {exc.strerror}"
