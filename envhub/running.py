"""From a question to a run: each step of the path is one call."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import envhub
from envhub.errors import PluginError, UsageError
from envhub.evaluation.engine import Engine
from envhub.evaluation.job import Job
from envhub.evaluation.plan import Plan, make_plan
from envhub.plugins import Plugins, chosen
from envhub.policies.contract import PolicyFacts
from envhub.records import EpisodeRecord
from envhub.references import find_policy, find_source
from envhub.results.journal import (
    FORMAT,
    Journal,
    RunDirectoryError,
    create_directory,
    discard_directory,
    read_run,
)
from envhub.results.run import Run
from envhub.results.summary import to_json
from envhub.runtime import resources
from envhub.selection import select
from envhub.sources.identity import hash_file, identify
from envhub.types import (
    Confinement,
    FileSource,
    Interpreter,
    Limits,
    PolicySource,
    Source,
    SourceOptions,
    Value,
)
from envhub.worker.board import close_workers
from envhub.worker.first import Wanted, start_first
from envhub.worker.protocol import Loaded
from envhub.worker.remote import RemoteEnv


class Watcher(Protocol):
    """Whoever looks on while a run goes on."""

    def started(self, run: Run, plan: Plan, engine: Engine, done: int) -> None:
        """The engine is about to run; so many episodes have records already."""
        ...

    def recorded(self, record: EpisodeRecord) -> None:
        """An episode has ended."""
        ...

    def tick(self) -> None:
        """Called a few times a second."""
        ...

    def say(self, text: str) -> None:
        """Something that the user should know."""
        ...

    def note(self, text: str) -> None:
        """Something that takes its time."""
        ...

    def warn(self, problem: PluginError) -> None:
        """An observer failed, and is told no more."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for."""

    ref: str
    policy: Any = "random"
    """A text, or a policy object."""
    suites: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    episodes: int | None = None
    seed: int = 0
    workers: int | None = None
    """None: as many as the machine bears."""
    max_steps: int | None = None
    env_args: Mapping[str, Value] = field(default_factory=dict)
    policy_args: Mapping[str, Value] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    retries: int = 1
    out: Path | None = None
    options: SourceOptions = field(default_factory=SourceOptions)


def start_run(question: Question, watcher: Watcher) -> Run:
    """Evaluate a policy on a benchmark, in a new run directory."""
    source = find_source(question.ref, question.options, say=watcher.say)
    if question.workers == 0 and _confinement(source) is not None:
        raise UsageError("--workers 0 runs code in this process; code of the Hub runs in workers.")
    directory = question.out or _default_directory(question.ref)
    create_directory(directory)
    try:
        return _run(question, source, directory, watcher, before=None)
    except BaseException:
        discard_directory(directory)
        raise


def resume_run(
    directory: Path, workers: int | None, watcher: Watcher, *, trust_remote_code: bool = False
) -> Run:
    """Run what is missing or errored in a run directory.

    Args:
        directory: Of the run.
        workers: How many; None as many as the machine bears.
        watcher: Looks on.
        trust_remote_code: Agree to run the code of the Hub at the commit that the run names. What
            the directory says of an earlier consent is none: directories are handed around.

    Raises:
        RunDirectoryError: There is no run, or its benchmark or policy has changed.
    """
    info = read_run(directory)
    plan, benchmark, policy = info["plan"], info["benchmark"], info["policy"]
    if policy["kind"] == "object":
        raise RunDirectoryError(
            f"The policy of {directory} was an object of a program; only that program can go on."
        )
    question = Question(
        ref=benchmark["ref"],
        policy=policy["path"] or policy["ref"],
        suites=tuple(plan["suites"]),
        tasks=tuple(task for tasks in plan["suites"].values() for task in tasks),
        episodes=plan["episodes"],
        seed=plan["seed"],
        workers=workers,
        max_steps=plan["max_steps"],
        env_args=benchmark["env_args"],
        policy_args=policy["args"],
        limits=Limits(**info["limits"]),
        retries=info["retries"],
        out=directory,
    )
    protection = info["protection"]
    options = SourceOptions(
        trust_remote_code=trust_remote_code,
        sandbox=protection["sandbox"] if benchmark["kind"] == "hub" else "auto",
        sandbox_allow_network=protection["network"],
        runtime=info["runtime"]["kind"],
    )
    question = replace(question, options=options)
    reference = benchmark["path"] if benchmark["kind"] == "local" else benchmark["ref"]
    source = find_source(reference, options)
    return _run(question, source, directory, watcher, before=info)


def auto_workers(memory_mb: int, episodes: int) -> int:
    """As many workers as the cores, the free memory and the episodes allow."""
    return max(1, min(resources.cores(), resources.memory_mb() // memory_mb, episodes))


def _run(
    question: Question,
    source: Source,
    directory: Path,
    watcher: Watcher,
    *,
    before: Mapping[str, Any] | None,
) -> Run:
    identity = identify(source)
    inline = question.workers == 0
    # Held before anything is written there, the log of the first worker included.
    with closing(Journal(directory)) as journal:
        log = journal.logs / "worker-0.log"
        first, loaded, interpreter = start_first(
            _wanted(question, source),
            "worker 0",
            log=log,
            inline=inline,
            say=watcher.say,
            note=watcher.note,
        )
        try:
            plan = _plan(question, loaded)
            policy, beside = _policy(question, loaded, source)
            info = _info(question, loaded, plan, source, identity, policy, interpreter)
            if before is not None:
                _check_same(before, info, directory)
            records = journal.records(plan.episodes)
            missing = tuple(e for e in plan.episodes if not _settled(records.get(e.number)))
            if before is None:
                journal.write("run.json", info)
        except BaseException:
            close_workers([first.worker], limit=question.limits.close)
            raise
        workers = question.workers
        if workers is None:
            workers = auto_workers(loaded.benchmark.memory_mb, len(missing))
        job = Job(
            source=source,
            benchmark=loaded.benchmark,
            env_args=question.env_args,
            plan=plan,
            episodes=missing,
            policy=policy,
            beside=beside,
            workers=workers,
            limits=question.limits,
            retries=question.retries,
            logs=journal.logs,
            interpreter=interpreter,
        )
        return _play(job, journal, Run(directory, before or info), watcher, first)


def _play(job: Job, journal: Journal, run: Run, watcher: Watcher, first: RemoteEnv) -> Run:
    """Let the engine run, and keep what comes of it."""
    plugins = Plugins()

    def keep(record: EpisodeRecord, actions: Any) -> None:
        journal.append(record, actions)
        watcher.recorded(record)
        for problem in plugins.episode_finished(run, record):
            watcher.warn(problem)

    try:
        plugins.load_observers()
        engine = Engine(job, keep, first=first, on_tick=watcher.tick)
    except BaseException:
        close_workers([first.worker], limit=job.limits.close)
        raise
    for problem in plugins.run_started(run):
        watcher.warn(problem)
    watcher.started(run, job.plan, engine, len(job.plan.episodes) - len(job.episodes))
    try:
        engine.run()
    finally:
        run = _finish(journal, run, engine.facts, plugins, watcher)
    return run


def _finish(
    journal: Journal, run: Run, facts: PolicyFacts | None, plugins: Plugins, watcher: Watcher
) -> Run:
    if facts is not None:
        policy = {**run.info["policy"], "batch": facts.batch, "placement": facts.placement}
        run = Run(run.directory, {**run.info, "policy": policy})
        journal.write("run.json", run.info)
    summary = run.summary()
    journal.write("summary.json", to_json(summary))
    for problem in plugins.run_finished(run, summary):
        watcher.warn(problem)
    return run


def _wanted(question: Question, source: Source) -> Wanted:
    return Wanted(
        source,
        question.env_args,
        question.limits,
        question.options.runtime,
        question.options.locked,
        question.max_steps,
    )


def _plan(question: Question, loaded: Loaded) -> Plan:
    benchmark = loaded.benchmark
    return make_plan(
        benchmark,
        select(benchmark, question.suites, question.tasks),
        episodes=question.episodes,
        seed=question.seed,
        max_steps=question.max_steps,
    )


def _policy(question: Question, loaded: Loaded, source: Source) -> tuple[Any, bool]:
    if not isinstance(question.policy, str):
        if question.policy_args:
            raise UsageError("policy_args are for policies that are named, not for objects.")
        return question.policy, False
    return find_policy(question.policy, loaded.benchmark, source, question.policy_args)


def _info(
    question: Question,
    loaded: Loaded,
    plan: Plan,
    source: Source,
    identity: Mapping[str, Any],
    policy: Any,
    interpreter: Interpreter,
) -> dict[str, Any]:
    """What `run.json` says."""
    path = f"{source.directory}/{source.file}" if isinstance(source, FileSource) else None
    benchmark = {
        "ref": _reference(question, source),
        "path": path,
        "name": loaded.benchmark.name,
        **identity,
        "env_args": dict(question.env_args),
        "plugins": list(chosen() or ()),
    }
    planned = {
        "suites": {suite: list(tasks) for suite, tasks in plan.suites.items()},
        "episodes": plan.per_task,
        "seed": plan.seed,
        "max_steps": plan.max_steps,
        "reuse": loaded.benchmark.reuse,
        "tasks": {
            name: {"horizon": t.horizon, "success": t.success, "init_states": t.init_states}
            for name, t in plan.tasks.items()
        },
    }
    runtime = {
        "kind": interpreter.kind,
        "key": interpreter.key,
        "python": loaded.python,
        "packages": loaded.packages,
        "unmet": list(interpreter.unmet),
    }
    return {
        "format": FORMAT,
        "envhub": envhub.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "benchmark": benchmark,
        "plan": planned,
        "policy": _policy_info(question, policy),
        "runtime": runtime,
        "protection": _protection(question, source),
        "limits": asdict(question.limits),
        "retries": question.retries,
        "protocol": _protocol(benchmark, planned, loaded.packages),
    }


def _reference(question: Question, source: Source) -> str:
    """What to type for exactly this source."""
    if isinstance(source, FileSource) and source.origin is not None:
        return f"{source.origin.repo}@{source.origin.commit}:{source.file}"
    return question.ref


def _protection(question: Question, source: Source) -> dict[str, Any]:
    """What kept the benchmark's code from this machine."""
    confinement = _confinement(source)
    return {
        "process": question.workers != 0,
        "sandbox": confinement.sandbox if confinement else "none",
        "network": confinement.network if confinement else True,
        "memory_mb": confinement.memory_mb if confinement else None,
    }


def _confinement(source: Source) -> Confinement | None:
    return source.confinement if isinstance(source, FileSource) else None


def _policy_info(question: Question, policy: Any) -> dict[str, Any]:
    named = isinstance(policy, PolicySource)
    file = policy.module if named and isinstance(policy.module, FileSource) else None
    path = Path(file.directory) / file.file if file else None
    ref = question.policy if named else type(policy).__qualname__
    return {
        "kind": "named" if named else "object",
        "ref": ref,
        "path": f"{path}:{policy.name}" if path else None,
        "sha256": hash_file(path).removeprefix("sha256:") if path else None,
        "args": dict(question.policy_args),
        "batch": None,
        "placement": None,
    }


def _protocol(
    benchmark: Mapping[str, Any], plan: Mapping[str, Any], packages: Mapping[str, str]
) -> str:
    """The digest of what must agree for two runs to be comparable."""
    relevant = {
        "source": [benchmark["kind"], benchmark["name"], benchmark["files"]],
        "env_args": benchmark["env_args"],
        "plugins": benchmark["plugins"],
        "plan": {key: plan[key] for key in ("tasks", "seed", "episodes", "reuse")},
        "packages": dict(packages),
    }
    text = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], directory: Path) -> None:
    """A run is only gone on with what it began with."""
    if before["policy"]["sha256"] != now["policy"]["sha256"]:
        raise RunDirectoryError(
            f"The policy {before['policy']['ref']} has changed since {directory} was begun. "
            "Start a new run, or restore the file."
        )
    keys = [info["runtime"].get("key") for info in (before, now)]
    if keys[0] != keys[1]:
        raise RunDirectoryError(
            f"The runtime that {directory} was begun with is {keys[0]}, and now it would be "
            f"{keys[1]}. Start a new run."
        )
    if before["protocol"] == now["protocol"]:
        return
    changed = [
        name
        for name, hashed in now["benchmark"]["files"].items()
        if before["benchmark"]["files"].get(name) != hashed
    ]
    what = f" ({', '.join(changed[:3])})" if changed else ""
    raise RunDirectoryError(
        f"The benchmark{what} or its packages have changed since {directory} was begun. Start a "
        "new run, or restore them."
    )


def _settled(record: EpisodeRecord | None) -> bool:
    return record is not None and record.status == "ok"


def _default_directory(ref: str) -> Path:
    parts = [part for part in ref.split("/") if part not in ("", ".", "..", "env.py")]
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in (parts or ["run"])[-1])
    base = Path("runs") / f"{plain[:60]}-{time.strftime('%Y%m%d-%H%M%S')}"
    return base if not base.exists() else base.with_name(f"{base.name}-{os.getpid()}")
