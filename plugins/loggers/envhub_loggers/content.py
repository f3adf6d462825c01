"""What is logged of a run: its identity, each episode, and the rates at its end. Pure."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from statistics import mean

from envhub.records import EpisodeRecord
from envhub.results.latency import Latency
from envhub.results.run import Run
from envhub.results.summary import Line, Summary
from envhub.run_info import RunInfo

PROJECT = "envhub"
"""The name of the project or experiment, where the tool's own settings name none."""


class Tally:
    """How far a run is."""

    def __init__(self) -> None:
        self.episodes = 0
        self._errors = 0
        self._tasks: dict[str, tuple[int, int]] = {}

    def count(self, record: EpisodeRecord) -> None:
        """Count an episode."""
        self.episodes += 1
        self._errors += record.status != "ok"
        if record.counts and (record.success is not None or record.failed_by_policy):
            successes, episodes = self._tasks.get(record.task, (0, 0))
            self._tasks[record.task] = (successes + (record.success is True), episodes + 1)

    def values(self, record: EpisodeRecord) -> dict[str, float]:
        """Return what is logged of the episode that was counted last.

        The rates have no intervals: episodes that end early are recorded first, so that until the
        end these are no sample of the run.
        """
        found = {
            "episode/number": float(record.number),
            "episode/return": record.return_,
            "episode/steps": float(record.steps),
            "episode/seconds": record.seconds,
            "so_far/episodes": float(self.episodes),
            "so_far/errors": float(self._errors),
        }
        if record.success is not None:
            found["episode/success"] = float(record.success)
        if self._tasks:
            found["so_far/rate"] = mean(won / of for won, of in self._tasks.values())
        return _finite(found)


def name_of(run: Run) -> str:
    """Return the name of a run: that of its directory, with that of what it belongs to."""
    place = run.directory.absolute()
    group = group_of(run)
    return place.name if group is None else f"{group}/{place.name}"


def group_of(run: Run) -> str | None:
    """Return the name of the experiment or the run that a run is a cell or a baseline of."""
    above = run.directory.absolute().parent
    if (above / "experiment.json").is_file():
        return above.name
    if above.name == "baselines" and (above.parent / "run.json").is_file():
        return above.parent.name
    return None


def id_of(run: Run) -> str:
    """Return a name that nothing but this run has, the same when it is resumed."""
    info = run.run_info
    content = [info.created, info.protocol, info.policy.ref, info.policy.args, name_of(run)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def identity(info: RunInfo) -> dict[str, str]:
    """Return what says which run it is: its question, its policy and its code.

    Args:
        info: The content of `run.json`.
    """
    benchmark, plan, policy = info.benchmark, info.plan, info.policy
    provided = policy.provided
    found: dict[str, object] = {
        "protocol": info.protocol,
        "benchmark": benchmark.ref,
        "benchmark_kind": benchmark.kind,
        "benchmark_package": benchmark.package,
        "benchmark_repo": benchmark.repo,
        "benchmark_commit": benchmark.commit,
        "benchmark_env_args": benchmark.env_args or None,
        "policy": policy.ref,
        "policy_kind": policy.kind,
        "policy_identity": policy.identity,
        "policy_sha256": policy.sha256,
        "policy_args": policy.args or None,
        "policy_provider": provided and f"{provided.package} {provided.version}",
        "policy_files": provided.files if provided and provided.files else None,
        "policy_details": provided.details if provided and provided.details else None,
        "suites": ", ".join(plan.suites),
        "tasks": len(plan.tasks),
        "episodes": plan.episodes,
        "seed": plan.seed,
        "seeding": plan.seeding,
        "max_steps": plan.max_steps,
        "latency": plan.latency and _plain(plan.latency),
        "shard": info.shard and f"{info.shard.index}/{info.shard.of}",
        "runtime": info.runtime.key or info.runtime.kind,
        "sandbox": info.protection.sandbox,
        "reproducible": info.reproducible,
        "envhub": info.envhub,
        "created": info.created,
    }
    return {name: _text(value) for name, value in found.items() if value is not None}


def results(run: Run, summary: Summary) -> dict[str, float]:
    """Return the rates at the end of a run, with their intervals, and how long the policy took.

    Args:
        run: The run.
        summary: Its summary.
    """
    found = dict(_of_line("overall", summary.overall))
    for line in summary.suites if len(summary.suites) > 1 else ():
        found |= _of_line(f"suite/{line.suite}", line)
    for line in summary.tasks:
        found |= _of_line(f"task/{line.task}", line)
    latency = Latency(run.run_info.policy.latency)
    if latency.calls:
        found |= {
            "latency/calls": float(latency.calls),
            "latency/p50_seconds": latency.percentile(0.5),
            "latency/p95_seconds": latency.percentile(0.95),
        }
    return _finite(found)


def _of_line(above: str, line: Line) -> dict[str, float]:
    values: Mapping[str, float | None] = {
        "episodes": line.n,
        "successes": line.successes,
        "errors": line.errors,
        "rate": line.rate,
        "ci_low": line.ci_low,
        "ci_high": line.ci_high,
        "mean_return": line.mean_return,
        "mean_steps": line.mean_steps,
    }
    return {f"{above}/{name}": float(v) for name, v in values.items() if v is not None}


def failures(run: Run) -> Iterator[EpisodeRecord]:
    """Yield the episodes that failed, in the order of the plan."""
    return (record for record in run.records() if record.success is not True)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    """Leave out what no tool can draw: rewards are foreign, and may be infinite."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _plain(value: object) -> object:
    from msgspec import to_builtins

    return to_builtins(value)
