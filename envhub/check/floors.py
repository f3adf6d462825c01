"""How often the simplest policies and the benchmark's expert succeed: real evaluations."""

import warnings
from pathlib import Path

from envhub.api import evaluate
from envhub.check.findings import Findings
from envhub.check.settings import Settings, keywords_of
from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError
from envhub.records import EpisodeRecord
from envhub.scratch import scratch_directory

_FLOORS = {"zero": "zero-floor", "random": "random-floor"}
EXPERT = "expert"


def measure_policies(
    settings: Settings, benchmark: Benchmark, suite: str, task: Task, findings: Findings
) -> None:
    """Evaluate the policies on a task, and judge their success rates."""
    for policy, check in _FLOORS.items():
        _measure(settings, policy, suite, task, check, findings, floor=True)
    if EXPERT not in benchmark.policies:
        findings.skipped("expert-ceiling", "The benchmark offers no policy called expert.")
        return
    _measure(settings, EXPERT, suite, task, "expert-ceiling", findings, floor=False)


def _measure(
    settings: Settings,
    policy: str,
    suite: str,
    task: Task,
    check: str,
    findings: Findings,
    *,
    floor: bool,
) -> None:
    try:
        records = _play(settings, policy, suite, task)
    except ContractError as exc:
        findings.failed("step-works", f"The policy {policy!r} cannot be evaluated: {exc}")
        return
    errors = [record.error for record in records if record.error is not None]
    if any(error.where != "policy" for error in errors):
        seen = next(error for error in errors if error.where != "policy")
        findings.failed("step-works", f"An episode of the policy {policy!r} ended: {seen.message}")
        return
    if errors:
        findings.skipped(check, f"The policy {policy!r} cannot act here: {errors[0].message}")
        return
    reported = [record.success for record in records if record.success is not None]
    if not reported:
        findings.skipped(check, "The env reports no success.")
        return
    rate = sum(reported) / len(reported)
    findings.figures[f"{policy}_rate"] = rate
    wrong = rate > 0.5 if floor else rate < 0.5
    seen_rate = f"The policy {policy!r} succeeded in {sum(reported)} of {len(reported)} episodes."
    findings.judge(check, seen_rate if wrong else None)


def _play(settings: Settings, policy: str, suite: str, task: Task) -> list[EpisodeRecord]:
    length = task.horizon if policy == EXPERT else min(task.horizon, settings.effort.length)
    with scratch_directory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # errors are read from the records
        run = evaluate(
            settings.ref,
            policy,
            suites=(suite,),
            tasks=(task.name,),
            episodes=settings.effort.episodes,
            seed=settings.seed,
            max_steps=length,
            workers=0 if settings.inline else 1,
            env_args=settings.env_args,
            limits=settings.limits,
            retries=0,
            out=Path(scratch, "run"),
            **keywords_of(settings.options),
        )
        return list(run.records())
