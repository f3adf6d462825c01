"""From a request to a run: prepare, then play the episodes that have no record yet."""

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from envhub.errors import ContractError, ConventionsDiffer, NoNodePlays, RunDirectoryError
from envhub.evaluation.breaker import MAX_ERRORS
from envhub.evaluation.describe import foresee
from envhub.evaluation.engine import Engine, OnRecord
from envhub.evaluation.job import Job
from envhub.evaluation.prepare import Prepared, look_for_policy, prepare
from envhub.evaluation.recorded import (
    check_policy_is_named,
    read_begun,
    recorded_variables,
    request_of,
    undeclared_batch,
    with_keys_of_today,
    with_variable_hashes,
)
from envhub.evaluation.request import EvalRequest, Player, Playing, Watcher
from envhub.evaluation.runner_pool import Findings
from envhub.offline import Missing
from envhub.options import Processes
from envhub.plugins import Plugins
from envhub.records import Episode, EpisodeRecord
from envhub.results.comparable import check_same
from envhub.results.journal import (
    Journal,
    check_directory,
    claim_directory,
    create_directory,
    discard_directory,
    forget_unplayed,
    has_records,
    is_vacant,
)
from envhub.results.latency import Latency
from envhub.results.nodes import forget_played, with_nodes
from envhub.results.questions import count_question, questions_path
from envhub.results.run import Run
from envhub.results.seal import check_key, is_sealed, key_path, make_seal
from envhub.results.summary import Summary, to_json
from envhub.run_info import RunInfo
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.types import FileSource, PolicyFacts, Source
from envhub.wire.values import Array


def start_run(request: EvalRequest, watcher: Watcher) -> Run:
    """Evaluate a policy on a benchmark, in a new run directory."""
    source = _find(request, watcher)
    if request.out is not None and _is_left_over(request.out):
        return _evaluate(request, source, request.out, watcher, before=None)
    directory, parents = _make_directory(request)
    try:
        return _evaluate(request, source, directory, watcher, before=None)
    except BaseException as exc:
        if isinstance(exc, ContractError) and request.out is None:
            forget_unplayed(directory)  # its policy cannot be made, say: nothing to resume
        discard_directory(directory, parents)
        raise


def resume_run(
    directory: Path,
    workers: int | None,
    watcher: Watcher,
    *,
    trust_remote_code: bool = False,
    max_errors: int = MAX_ERRORS,
    env_vars: Mapping[str, str] | None = None,
    policy_processes: Processes | None = None,
    observers: Plugins | None = None,
    videos_follow: bool = False,
    player: Player | None = None,
) -> Run:
    """Run the episodes that are missing or failed, of a run that this user began.

    Args:
        directory: The run's directory.
        workers: Worker processes; None: as many as cores and free memory allow.
        watcher: Receives the progress.
        trust_remote_code: Agree to run the Hub's code at the commit that the run names. The
            directory cannot give this consent: people pass directories around.
        max_errors: Equal errors in a row, before any episode has worked, that abort the run.
        env_vars: The variables that the run was begun with; those left out are this process's.
        policy_processes: Processes of the policy; None: as many as the run was begun with.
        observers: The loggers that were asked for.
        videos_follow: Whether the caller draws videos, and tells observers of the end afterwards.
        player: Plays the episodes elsewhere; None: this machine does.

    Raises:
        RunDirectoryError: The directory has no run, this user did not begin it, or its benchmark
            or policy has changed.
    """
    place = shlex.quote(str(directory))
    before = read_begun(directory, obey=f"envhub eval REF --policy P --out {place} --continue")
    info = before.run_info
    check_policy_is_named(info, directory)
    request = request_of(info, directory, trust_remote_code=trust_remote_code)
    variables = recorded_variables(info, env_vars or {}, directory)
    options = replace(request.options, env_vars=variables)
    processes = policy_processes or max(1, len(info.policy.processes))
    request = replace(
        request,
        workers=workers,
        policy_processes=processes,
        max_errors=max_errors,
        options=options,
        observers=observers or Plugins(),
        videos_follow=videos_follow,
        player=player,
    )
    source = find_source(info.benchmark.reference, request.options)
    if not before.records():  # nothing was played: whatever has changed, it begins now
        return _evaluate(request, source, directory, watcher, before=None)
    return _evaluate(request, source, directory, watcher, before=before, keep=True)


def continue_run(request: EvalRequest, directory: Path, watcher: Watcher) -> Run:
    """Continue the run in a directory, whoever began it, or start it there.

    Only the request says what is executed and how it is protected. What the directory says is
    compared with it.

    Args:
        request: What is asked for.
        directory: Of the run; it may be missing.
        watcher: Receives the progress.

    Raises:
        RunDirectoryError: The directory holds a run of something else, or no run.
    """
    if not directory.exists():
        return start_run(replace(request, out=directory), watcher)
    check_directory(directory)
    before = None
    if not is_vacant(directory):
        if not (directory / "run.json").exists():
            create_directory(directory)  # says that it is not empty
        before = read_begun(directory)
    source = _find(request, watcher)
    return _evaluate(request, source, directory, watcher, before=before)


def _find(request: EvalRequest, watcher: Watcher) -> Source:
    """Find the source; if it is missing where there is no network, say what else is, too."""
    missing = Missing()
    source = missing.try_to(
        lambda: find_source(request.ref, request.options, message=watcher.message)
    )
    if source is None:
        look_for_policy(request, None, watcher, missing)
        missing.check()
    assert source is not None
    return source


def play(
    prepared: Prepared,
    episodes: tuple[Episode, ...],
    logs: Path,
    on_record: OnRecord,
    *,
    on_start: Callable[[Playing], None] = lambda _: None,
    on_poll: Callable[[], None] = lambda: None,
    worked: bool = False,
    first_leaves: Mapping[int, tuple[str, ...] | None] | None = None,
) -> PolicyFacts | None:
    """Play some of the plan's episodes: the second half of an evaluation.

    Args:
        prepared: From `prepare`; its worker is ended.
        episodes: A subset of the plan's episodes.
        logs: Where the output of workers goes.
        on_record: Called for every episode that has ended, with its actions and steps.
        on_start: Called with the engine before it runs.
        on_poll: Called a few times a second.
        worked: Whether another episode of the run was played to its end before.
        first_leaves: The leaves that the resets of episodes fill, by number; those left out fill
            what the policy reads.

    Returns:
        What the policy declares; None if it was never made.
    """
    try:
        job = prepared.job(episodes, logs, worked=worked, first_leaves=first_leaves)
        player, engine = prepared.request.player, _engine(prepared, job, on_record, on_poll)
        on_start(engine)
    except BaseException:
        prepared.close()
        raise
    if player is not None:
        prepared.close()
    engine.run()
    return engine.findings.facts


def _engine(
    prepared: Prepared, job: Job, on_record: OnRecord, on_poll: Callable[[], None]
) -> Playing:
    """Return what plays a job: an engine here, or other machines."""
    player = prepared.request.player
    if player is not None:
        return player.start(prepared, job, on_record, on_poll)
    return Engine(job, on_record, first=prepared.worker.remote, on_poll=on_poll)


def _evaluate(
    request: EvalRequest,
    source: Source,
    directory: Path,
    watcher: Watcher,
    *,
    before: Run | None = None,
    keep: bool = False,
) -> Run:
    """Play what has no record yet; one that cannot be played leaves no run behind."""
    try:
        return _evaluate_in(request, source, directory, watcher, before=before, keep=keep)
    except (ConventionsDiffer, NoNodePlays):
        forget_unplayed(directory)
        raise


def _evaluate_in(
    request: EvalRequest,
    source: Source,
    directory: Path,
    watcher: Watcher,
    *,
    before: Run | None,
    keep: bool,
) -> Run:
    """Play what has no record yet.

    Args:
        request: What is asked for.
        source: What its reference means.
        directory: Of the run.
        watcher: Receives the progress.
        before: The run, if it has begun.
        keep: Whether to leave `run.json` as it is.
    """
    check_key()
    files = _identify(source, directory)
    # What is written is sealed, and the user can seal nothing that a stranger said.
    sealed = before.run_info if before is not None and is_sealed(before.info) else None
    absent = Missing()
    request = look_for_policy(request, sealed, watcher, absent)
    if before is not None:
        absent.check()
        begun = with_variable_hashes(before.run_info, request.options.env_vars)
        before = replace(before, run_info=begun)
        seeding = request.seeding or begun.plan.seeding
        request = replace(request, batch=undeclared_batch(begun), seeding=seeding)
        check_same(before.run_info, foresee(request, files, before.run_info), directory)
        if _is_finished(before) and not os.access(directory, os.W_OK):
            return before  # nothing is left to play, and nothing can be written
        if request.places is not None and _is_told(before):
            return before  # nothing is left to play, and the next cell waits
    # Held before anything is written there, the log of the first worker included.
    with closing(Journal(directory)) as journal:
        if before is None and has_records(directory):
            raise RunDirectoryError(f"Another process has begun a run in {directory}; try again.")
        prepared = prepare(request, source, files, journal.logs, watcher, absent)
        try:
            if before is not None:
                begun = with_keys_of_today(before.run_info, prepared)
                check_same(begun, prepared.info, directory)
            records = journal.records(prepared.plan.episodes)
            missing = tuple(
                episode
                for episode in (prepared.plan.episodes[n] for n in prepared.info.numbers)
                if not _is_done(records.get(episode.number))
            )
            forget_played(journal.logs, (episode.number for episode in missing))
            sealed = sealed and with_nodes(sealed, journal.logs, records)
            if before is not None and (keep or (not missing and sealed is not None)):
                begun = with_nodes(begun, journal.logs, records)
                run = replace(before, run_info=begun, kept=None)
                if missing and run.run_info.machine != prepared.info.machine:
                    run = _write(run.run_info.moved(prepared.info, records), journal)
            else:
                info = prepared.info
                if sealed is not None:
                    info = info.continued(sealed.moved(info, records))
                run = _write(info, journal)
                if run.run_info.seal is None:
                    watcher.message(_UNSEALED.format(key=key_path()))
            request.observers.load_observers()
        except BaseException:
            prepared.close()
            raise
        kept = [record for record in records.values() if _is_done(record)]
        return _play_and_record(prepared, missing, kept, journal, run, watcher)


def _identify(source: Source, directory: Path) -> dict[str, Any]:
    """The benchmark's identity, without the files of a run below it that left no `run.json`."""
    found = identify(source)
    if isinstance(source, FileSource):
        top, place = Path(source.directory), directory.resolve()
        if top in place.parents:
            begin = f"{place.relative_to(top)}/"
            files = found["files"].items()
            found["files"] = {name: one for name, one in files if not name.startswith(begin)}
    return found


def _write(info: RunInfo, journal: Journal) -> Run:
    """Write `run.json` with this user's seal."""
    sealed = changed(info, seal=make_seal(info.to_json()))
    run = Run.of(journal.directory, sealed)
    journal.write("run.json", run.info)
    return run


_UNSEALED = (
    "{key} cannot be kept, so this run cannot be resumed with --resume. If it is interrupted, "
    "repeat the command with --out and --continue."
)


_UNREPEATED = (
    "Episodes of {task} do not repeat: another reset with seed {seed} began with another "
    "observation, so that this run cannot be repeated, paired or verified. The env must draw its "
    "random numbers from self.np_random; envhub try names the part that differs."
)


def remark_on_repeat(engine: Playing) -> str | None:
    """Return a sentence about an env that did not begin as before, if it is on this machine."""
    if not isinstance(engine, Engine) or engine.unrepeated is None:
        return None
    episode = engine.unrepeated.episode
    return _UNREPEATED.format(task=episode.task, seed=episode.seed)


def _tell_unrepeated(engine: Playing, watcher: Watcher) -> None:
    remark = remark_on_repeat(engine)
    if remark is not None:
        watcher.message(remark)


def _play_and_record(
    prepared: Prepared,
    missing: tuple[Episode, ...],
    before: Sequence[EpisodeRecord],
    journal: Journal,
    run: Run,
    watcher: Watcher,
) -> Run:
    engine: Playing | None = None
    observers = prepared.request.observers
    videos_follow = prepared.request.videos_follow
    remarks: list[str] = []
    counted = bool(before)
    # Not in `on_record`, which the engine keeps: `prepared` has the memory of the first worker.
    in_experiment = prepared.request.places is not None

    def on_poll() -> None:
        hint = engine.findings.hint if engine is not None else None
        if hint is not None and hint not in remarks:
            remarks.append(hint)
            watcher.progress(hint)
        for remark in engine.findings.remarks if engine is not None else ():
            if remark not in remarks:
                remarks.append(remark)
                watcher.message(remark)
        watcher.refresh()

    def on_start(started: Playing) -> None:
        nonlocal engine
        engine = started
        for problem in observers.run_started(run):
            watcher.warning(problem)
        watcher.started(run, prepared.plan, started, before)

    def on_record(record: EpisodeRecord, actions: Array | None, steps: Array | None) -> None:
        nonlocal counted
        journal.append(record, actions, steps)
        if not counted and _is_done(record):  # those that failed are played again by --resume
            counted = True
            # The matrix of an experiment shows all of its seeds.
            _count(run.run_info, watcher, tell=not in_experiment)
        watcher.recorded(record)
        for problem in observers.episode_finished(run, record):
            watcher.warning(problem)

    try:
        play(
            prepared,
            missing,
            journal.logs,
            on_record,
            on_start=on_start,
            on_poll=on_poll,
            worked=bool(before),
        )
    finally:
        if engine is not None:
            _tell_unrepeated(engine, watcher)
            run, summary = _finish(journal, run, engine.findings)
            if not (videos_follow and run.complete):
                tell_end(observers, run, summary, watcher)
    return run


def tell_end(observers: Plugins, run: Run, summary: Summary, watcher: Watcher) -> None:
    """Tell observers that a run has ended."""
    for problem in observers.run_finished(run, summary):
        watcher.warning(problem)


def _count(info: RunInfo, watcher: Watcher, *, tell: bool) -> None:
    """Count a run with its first whole episode, and tell how often its question was asked."""
    try:
        asked = count_question(info)
    except OSError as exc:
        place = questions_path()
        watcher.message(
            f"{place} cannot be kept, so the runs of this question are not counted: {exc.strerror}."
        )
        return
    if tell and asked is not None and asked.runs > 1:
        watcher.message(str(asked))


def _finish(journal: Journal, run: Run, findings: Findings) -> tuple[Run, Summary]:
    run = run.keep_records()
    info = with_nodes(run.run_info, journal.logs, (record.number for record in run.records()))
    facts, agreement = findings.facts, findings.agreement
    if facts is not None and agreement is not None:
        latency = Latency(info.policy.latency)
        latency.include(findings.latency)
        info = info.finished(
            batch=facts.batch,
            placement=facts.placement,
            about={**facts.about, **findings.about},
            instructions=facts.instructions,
            latency=latency.info(),
            outliers=findings.outliers.info(info.policy.outliers),
            conventions=agreement.info(ignore=info.conventions.ignore),
            reproducible=facts.reproducible,
        )
    if facts is not None or info.to_json()["parts"] != run.info.get("parts", []):
        run = replace(_write(info, journal), kept=run.kept)
    summary = run.summary()
    journal.write("summary.json", to_json(summary))
    return run, summary


def _is_done(record: EpisodeRecord | None) -> bool:
    return record is not None and record.status == "ok"


def _is_finished(run: Run) -> bool:
    """Whether every episode that the run plays was played without an error."""
    done = {record.number for record in run.records() if _is_done(record)}
    return done.issuperset(run.run_info.numbers)


def _is_told(run: Run) -> bool:
    """Whether a run is finished, and its summary was written after its last record."""
    summary, records = run.directory / "summary.json", run.directory / "episodes.jsonl"
    if not _is_finished(run) or run.run_info.policy.placement is None or not summary.is_file():
        return False
    return summary.stat().st_mtime_ns >= records.stat().st_mtime_ns


def _is_left_over(directory: Path) -> bool:
    """Whether a directory holds what a run leaves whose policy could not be made, say."""
    if not (directory / "run.json").is_file():
        return False
    check_directory(directory)
    return is_vacant(directory)


_COMMIT = re.compile("@([0-9a-f]{7})[0-9a-f]{33}")


def name_run(request: EvalRequest) -> str:
    """Return the name of the directory of a run that begins now."""
    ref = request.ref.removesuffix(":env.py")
    parts = [part for part in ref.split("/") if part not in ("", ".", "..", "env.py")]
    last = _COMMIT.sub(r"-\1", (parts or ["run"])[-1])  # owner/repo@<commit>
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in last)
    return f"{plain[:60]}-{time.strftime('%Y%m%d-%H%M%S')}"


def _make_directory(request: EvalRequest) -> tuple[Path, tuple[Path, ...]]:
    """Make the run's directory; returns the parents that were made with it, too."""
    if request.out is not None:
        return request.out, create_directory(request.out)
    base = name_run(request)
    for number in count(1):  # several runs may begin in the same second
        directory = request.runs / (base if number == 1 else f"{base}-{number}")
        parents = claim_directory(directory)
        if parents is not None:
            return directory, parents
    raise AssertionError(base)
