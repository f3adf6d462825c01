"""Inspecting one task: which worker is asked what, and what the answers mean together."""

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from envhub.api import evaluate
from envhub.check.findings import Findings
from envhub.check.report import memory_to_declare
from envhub.check.settings import Settings, keywords_of
from envhub.declarations import Benchmark, Task
from envhub.discovery import find
from envhub.errors import ContractError, EnvHubError, SandboxUnavailable, WorkerError
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import close_workers
from envhub.options import SandboxChoice
from envhub.records import EpisodeRecord
from envhub.sandbox.choose import choose, confine_foreign
from envhub.scratch import scratch_directory
from envhub.types import FileSource, Origin, PluginSource, WorkerSpec
from envhub.wire.messages import Loaded, Probed, TraceStep
from envhub.wire.step_results import first_difference

_INLINE = "With --workers 0 everything runs in this process."
_BLAMED = {
    "watch": "loads",
    "listing": "loads",
    "opening": "env-made",
    "episode": "step-works",
    "drawing": "renders",
    "repeats": "trajectory-repeats",
    "closing": "close-works",
    "accesses": "loads",
}
"""The check that fails if a worker cannot answer an inspection: it died, hung or raised."""
_UNPLAYABLE = (
    "horizon", "reward-finite", "success-boolean", "observation-keys", "observation-dtype",
)  # fmt: skip
"""Without these an evaluation is refused, or its episodes could only be errors."""
_OWN_PROCESS = (
    "listing-light", "no-gl-before-reset", "same-in-other-process", "no-network", "writes-scratch",
    "runs-in-sandbox", "memory-declared",
)  # fmt: skip
"""Checks that say nothing about a process that does other things too."""
_ORIGIN = Origin("local/check", "0" * 40, "", "git", "flag", {})
# The plugin's hooks, as a file: only files are confined.
_STUB = """\
import {module} as plugin

globals().update({{k: v for k, v in vars(plugin).items() if k.startswith("envhub_")}})
"""


class TaskInspection:
    """Inspects one task."""

    def __init__(
        self, settings: Settings, spec: WorkerSpec, benchmark: Benchmark, suite: str, task: Task
    ) -> None:
        self._settings = settings
        self._spec = spec
        self._benchmark = benchmark
        self._suite = suite
        self._task = task
        self._findings = Findings(task.name)
        self._trace: list[TraceStep] = []

    def run(self) -> Findings:
        """Run all inspections, as far as the task allows."""
        findings = self._findings
        if self._settings.inline:
            for name in _OWN_PROCESS:
                findings.leave_out(name, _INLINE)
        self._inspect_in_worker()
        if findings.obstacle is None:
            self._judge_memory()
            self._compare_processes()
        if findings.obstacle is None and not findings.has_failed(*_UNPLAYABLE):
            self._say("policies")
            measure_policies(self._settings, self._benchmark, self._suite, self._task, findings)
        return findings

    def _inspect_in_worker(self) -> None:
        try:
            with self._worker(self._spec) as remote:
                if not self._settings.inline:
                    self._ask(remote, "watch")
                remote.load()
                remote.answer(Loaded)
                self._findings.passed("loads")
                for name in ("listing", "opening", "episode", "drawing", "repeats", "closing"):
                    self._say(name)
                    if self._findings.obstacle is not None or not self._ask(remote, name):
                        break
                if not self._settings.inline and not remote.worker.ended:
                    self._ask(remote, "accesses")
        except WorkerError as exc:
            self._findings.failed("loads", exc.problem)

    def _ask(self, remote: RemoteEnv, name: str) -> bool:
        """Ask for one inspection; returns whether the worker can go on."""
        try:
            probed = self._probe(remote, name)
        except WorkerError as exc:
            if not self._findings.explains():
                self._findings.failed(_BLAMED[name], exc.problem)
            return not remote.worker.ended
        self._findings.add(probed)
        if name == "repeats":
            self._trace = probed.trace
        return True

    def _probe(self, remote: RemoteEnv, name: str) -> Probed:
        effort = self._settings.effort
        task = "" if name == "watch" else self._task.name
        remote.probe(
            name,
            self._suite,
            task,
            seed=self._settings.seed,
            steps=effort.steps,
            length=effort.length,
            cycles=effort.cycles,
        )
        return remote.answer(Probed)

    def _judge_memory(self) -> None:
        measured, declared = self._findings.figures.get("memory_mb", 0.0), self._benchmark.memory_mb
        seen = f"A worker used {measured:.0f} MB; memory_mb is {declared}. Declare memory_mb="
        problem = f"{seen}{memory_to_declare(measured)}." if measured > declared else None
        self._findings.judge("memory-declared", problem)

    def _compare_processes(self) -> None:
        """Play the same episode in another process, and in the sandbox."""
        findings = self._findings
        if self._settings.inline or not self._trace:
            return
        self._say("another process")
        findings.judge("same-in-other-process", self._difference(self._spec))
        if findings.has_failed("same-in-other-process", "no-network", "writes-scratch"):
            return
        if self._spec.confinement is not None:
            findings.passed("runs-in-sandbox")  # all of the above ran in it
            return
        self._say("sandbox")
        try:
            with _confined(self._spec, self._settings.options.sandbox) as spec:
                findings.judge("runs-in-sandbox", self._difference(spec))
        except SandboxUnavailable as exc:
            findings.skipped("runs-in-sandbox", str(exc))

    def _difference(self, spec: WorkerSpec) -> str | None:
        """Say what a worker does otherwise; None if it plays the same episode."""
        try:
            with self._worker(spec) as remote:
                remote.load()
                remote.answer(Loaded)
                trace = self._probe(remote, "trace").trace
        except EnvHubError as exc:
            return exc.problem if isinstance(exc, WorkerError) else str(exc)
        found = first_difference(self._trace, trace)
        return None if found is None else f"It differs in {found}."

    @contextmanager
    def _worker(self, spec: WorkerSpec) -> Iterator[RemoteEnv]:
        remote = RemoteEnv("", spec, inline=self._settings.inline)
        try:
            yield remote
        finally:
            close_workers([remote.worker], limit=self._settings.limits.close)

    def _say(self, part: str) -> None:
        self._settings.message(f"{self._task.name}: {part}")


@contextmanager
def _confined(spec: WorkerSpec, choice: SandboxChoice) -> Iterator[WorkerSpec]:
    """The same benchmark as if it came from the Hub: confined, offline, with scratch space."""
    sandbox = choose(choice)
    assets = tuple(asset.path for asset in spec.assets)
    match spec.source:
        case FileSource() as source:
            limits = confine_foreign(sandbox, (source.directory, *assets))
            yield replace(spec, source=replace(source, origin=_ORIGIN, confinement=limits))
        case PluginSource(name=name):
            with scratch_directory() as directory:
                module = find(name).module
                Path(directory, "env.py").write_text(_STUB.format(module=module))
                limits = confine_foreign(sandbox, (str(directory), *_places(module), *assets))
                stub = FileSource(str(directory), "env.py", "envhub_check", name, _ORIGIN, limits)
                yield replace(spec, source=stub)


def _places(module: str) -> tuple[str, ...]:
    """Where the plugin's package is, which may be elsewhere than the interpreter's packages."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent
    return (str(folder.parent if spec.submodule_search_locations else folder),)


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
