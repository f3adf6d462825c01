"""From a request to a run: prepare, then play the episodes that have no record yet."""

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from envhub.errors import RunDirectoryError
from envhub.evaluation.engine import Engine, OnRecord
from envhub.evaluation.prepare import Prepared, prepare
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.plugins import Plugins
from envhub.records import Episode, EpisodeRecord
from envhub.results.journal import Journal, create_directory, discard_directory, read_run
from envhub.results.manifest import check_same
from envhub.results.run import Run
from envhub.results.summary import to_json
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.types import Limits, PolicyFacts, Source, SourceOptions
from envhub.wire.values import Array


def start_run(request: EvalRequest, watcher: Watcher) -> Run:
    """Evaluate a policy on a benchmark, in a new run directory."""
    source = find_source(request.ref, request.options, message=watcher.message)
    directory = request.out or _default_directory(request.ref)
    create_directory(directory)
    try:
        return _evaluate(request, source, directory, watcher, before=None)
    except BaseException:
        discard_directory(directory)
        raise


def resume_run(
    directory: Path, workers: int | None, watcher: Watcher, *, trust_remote_code: bool = False
) -> Run:
    """Run the episodes of a run that are missing or failed.

    Args:
        directory: The run's directory.
        workers: Worker processes; None: as many as cores and free memory allow.
        watcher: Receives the progress.
        trust_remote_code: Agree to run the Hub's code at the commit that the run names. The
            directory cannot give this consent: people pass directories around.

    Raises:
        RunDirectoryError: The directory has no run, or its benchmark or policy has changed.
    """
    manifest = read_run(directory)
    request = replace(
        _request_of(manifest, directory, trust_remote_code=trust_remote_code), workers=workers
    )
    benchmark = manifest["benchmark"]
    ref = benchmark["path"] if benchmark["kind"] == "local" else benchmark["ref"]
    source = find_source(ref, request.options)
    return _evaluate(request, source, directory, watcher, before=manifest)


def play(
    prepared: Prepared,
    episodes: tuple[Episode, ...],
    logs: Path,
    on_record: OnRecord,
    *,
    on_start: Callable[[Engine], None] = lambda _: None,
    on_poll: Callable[[], None] = lambda: None,
) -> PolicyFacts | None:
    """Play some of the plan's episodes: the second half of an evaluation.

    Args:
        prepared: From `prepare`; its worker is ended.
        episodes: A subset of the plan's episodes.
        logs: Where the output of workers goes.
        on_record: Called for every episode that has ended, with its actions.
        on_start: Called with the engine before it runs.
        on_poll: Called a few times a second.

    Returns:
        What the policy declares; None if it was never made.
    """
    try:
        engine = Engine(
            prepared.job(episodes, logs),
            on_record,
            first=prepared.worker.remote,
            on_poll=on_poll,
        )
        on_start(engine)
    except BaseException:
        prepared.close()
        raise
    engine.run()
    return engine.facts


def _evaluate(
    request: EvalRequest,
    source: Source,
    directory: Path,
    watcher: Watcher,
    *,
    before: dict[str, Any] | None,
) -> Run:
    files = identify(source)  # before anything is written to a run directory inside the source
    # Locked before anything is written there, including the log of the first worker.
    with closing(Journal(directory)) as journal:
        prepared = prepare(request, source, files, journal.logs, watcher)
        try:
            manifest = dict(prepared.manifest)
            if before is not None:
                check_same(before, manifest, directory)
            records = journal.records(prepared.plan.episodes)
            missing = tuple(
                e for e in prepared.plan.episodes if not _is_done(records.get(e.number))
            )
            if before is None:
                journal.write("run.json", manifest)
            plugins = Plugins()
            plugins.load_observers()
        except BaseException:
            prepared.close()
            raise
        run = Run(directory, before or manifest)
        return _play_and_record(prepared, missing, journal, run, watcher, plugins)


def _play_and_record(
    prepared: Prepared,
    missing: tuple[Episode, ...],
    journal: Journal,
    run: Run,
    watcher: Watcher,
    plugins: Plugins,
) -> Run:
    engine: Engine | None = None

    def on_start(started: Engine) -> None:
        nonlocal engine
        engine = started
        for problem in plugins.run_started(run):
            watcher.warning(problem)
        done = len(prepared.plan.episodes) - len(missing)
        watcher.started(run, prepared.plan, started, done)

    def on_record(record: EpisodeRecord, actions: Array | None) -> None:
        journal.append(record, actions)
        watcher.recorded(record)
        for problem in plugins.episode_finished(run, record):
            watcher.warning(problem)

    try:
        play(
            prepared,
            missing,
            journal.logs,
            on_record,
            on_start=on_start,
            on_poll=watcher.refresh,
        )
    finally:
        if engine is not None:
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
        watcher.warning(problem)
    return run


def _request_of(
    manifest: dict[str, Any], directory: Path, *, trust_remote_code: bool
) -> EvalRequest:
    """Return the request that a run was started with."""
    plan, benchmark, policy = manifest["plan"], manifest["benchmark"], manifest["policy"]
    if policy["kind"] == "object":
        raise RunDirectoryError(
            f"The policy of {directory} was a Python object; only the program that made it can "
            "resume the run."
        )
    protection = manifest["protection"]
    return EvalRequest(
        ref=benchmark["ref"],
        policy=policy["path"] or policy["ref"],
        suites=tuple(plan["suites"]),
        tasks=tuple(task for tasks in plan["suites"].values() for task in tasks),
        episodes=plan["episodes"],
        seed=plan["seed"],
        max_steps=plan["max_steps"],
        env_args=benchmark["env_args"],
        policy_args=policy["args"],
        limits=Limits(**manifest["limits"]),
        retries=manifest["retries"],
        out=directory,
        options=SourceOptions(
            trust_remote_code=trust_remote_code,
            sandbox=protection["sandbox"] if benchmark["kind"] == "hub" else "auto",
            sandbox_allow_network=protection["network"],
            runtime=manifest["runtime"]["kind"],
        ),
    )


def _is_done(record: EpisodeRecord | None) -> bool:
    return record is not None and record.status == "ok"


def _default_directory(ref: str) -> Path:
    parts = [part for part in ref.split("/") if part not in ("", ".", "..", "env.py")]
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in (parts or ["run"])[-1])
    base = Path("runs") / f"{plain[:60]}-{time.strftime('%Y%m%d-%H%M%S')}"
    return base if not base.exists() else base.with_name(f"{base.name}-{os.getpid()}")
