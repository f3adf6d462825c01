"""The evaluation on a node: prepared from the driver's bytes, then played by one engine."""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

import envhub
from envhub.errors import EnvHubError, ExitCode, PluginError, UsageError
from envhub.evaluation.describe import foresee
from envhub.evaluation.engine import Engine
from envhub.evaluation.plan import Plan
from envhub.evaluation.prepare import Prepared, look_for_policy, prepare
from envhub.evaluation.recorded import recorded_variables, request_of
from envhub.evaluation.request import EvalRequest, Playing
from envhub.evaluation.run import remark_on_repeat
from envhub.evaluation.supply import Supply
from envhub.offline import VARIABLE, Missing
from envhub.policies.kinds import OfFile
from envhub.process import describe_exhaustion
from envhub.records import EpisodeRecord
from envhub.results.arrays import pack_arrays
from envhub.results.comparable import find_difference
from envhub.results.run import Run
from envhub.results.schema import parse_run
from envhub.run_info import RunInfo
from envhub.sandbox.choose import choose, confine_foreign
from envhub.scratch import scratch_directory
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.types import FileSource, Origin, Source
from envhub.wire.values import Array
from envhub_cluster.messages import (
    GENERATION,
    Begin,
    Exchange,
    Parcel,
    Played,
    Preparing,
    Refused,
    Report,
    State,
)
from envhub_cluster.parcels import unpack

_LINE = 300
_TEXT = 4000


class Node:
    """Plays episodes in a thread; `exchange` gives it more and returns what it has played."""

    def __init__(self, begin: Begin, cores: int) -> None:
        """Begin to prepare.

        Args:
            begin: The evaluation.
            cores: The most workers, if the user says nothing.
        """
        self._begin = begin
        self._cores = cores
        self._told = threading.Condition()
        self._state: Preparing | Refused | None = Preparing(doing="starting")
        self._supply = Supply()
        self._played: list[Played] = []
        self._prepared: Prepared | None = None
        self._engine: Playing | None = None
        self._workers = 1
        self._ended = False
        threading.Thread(target=self._run, daemon=True).start()

    def exchange(self, asked: Exchange) -> State:
        """Take leases, and return what has happened, for which it waits a little.

        Raises:
            ValueError: A lease is not of the plan.
        """
        with self._told:
            prepared, engine = self._prepared, self._engine
            if prepared is not None and engine is not None:
                self._supply.add(
                    prepared.plan.episodes[number]
                    for first, last in asked.leases
                    for number in range(first, last + 1)
                )
                engine.stopping |= asked.stop
            if asked.stop or asked.end:
                self._supply.close()
            self._told.wait_for(self._has_news, asked.wait)
            if self._state is not None:
                return self._state
            return self._report()

    def _has_news(self) -> bool:
        """Whether the driver should hear at once: the node has ended, or soon has nothing to do."""
        if self._ended or isinstance(self._state, Refused):
            return True
        return self._engine is not None and bool(self._played) and not self._engine.waiting

    def _report(self) -> Report:
        prepared, engine = self._prepared, self._engine
        assert prepared is not None
        assert engine is not None
        played, self._played = self._played, []
        machine = prepared.info.machine
        assert machine is not None
        found, unrepeated = engine.findings, remark_on_repeat(engine)
        remarks = [*found.remarks, *([unrepeated] if unrepeated else [])]
        return Report(
            machine=machine,
            workers=self._workers,
            played=played,
            slots=[_short(text) for text in list(engine.progress.slots.values())],
            steps=engine.progress.steps,
            opened=engine.progress.opened,
            ended=self._ended,
            facts=found.facts,
            about=dict(found.about),
            remarks=[remark[:_TEXT] for remark in remarks],
            latency=found.latency.info(),
            outliers=found.outliers.info([]),
        )

    def _run(self) -> None:
        try:
            with scratch_directory() as place:
                self._play(place)
        except EnvHubError as exc:
            self._refuse(str(exc), exc.exit_code)
        except OSError as exc:
            problem = f"{exc.filename or 'a file'} cannot be used: {exc.strerror or exc}."
            self._refuse(describe_exhaustion(exc) or problem, ExitCode.USAGE)
        except Exception as exc:
            self._refuse(f"{type(exc).__name__}: {exc}", ExitCode.FOUND)

    def _play(self, place: Path) -> None:
        logs = place / "logs"
        logs.mkdir()
        request, source, info = _read(self._begin, self._cores, place)
        prepared = _prepare(request, source, info, logs, self)
        job = replace(
            prepared.job(prepared.plan.episodes, logs, worked=self._begin.worked),
            episodes=(),
            supply=self._supply,
        )
        engine = Engine(job, self._record, first=prepared.worker.remote)
        with self._told:
            self._workers = max(1, job.workers)
            self._prepared, self._engine, self._state = prepared, engine, None
            self._told.notify()
        engine.run()
        with self._told:
            self._ended = True
            self._told.notify()

    def _record(self, record: EpisodeRecord, actions: Array | None, steps: Array | None) -> None:
        arrays = None if actions is None else pack_arrays(actions, steps)
        with self._told:
            self._played.append(Played(record=record, arrays=arrays))
            self._told.notify()

    def _refuse(self, reason: str, code: int) -> None:
        with self._told:
            self._state = Refused(reason=reason[:_TEXT], code=int(code))
            self._told.notify()

    # As the watcher of `prepare`

    def started(
        self, run: Run, plan: Plan, engine: Playing, before: Sequence[EpisodeRecord]
    ) -> None:
        """Nothing: a node has no run of its own."""

    def recorded(self, record: EpisodeRecord) -> None:
        """Nothing: the driver is told."""

    def refresh(self) -> None:
        """Nothing: the driver shows progress."""

    def message(self, text: str) -> None:
        """Nothing: the driver has said the same."""

    def progress(self, text: str) -> None:
        """Say what takes long."""
        with self._told:
            if self._state is not None:
                self._state = Preparing(doing=_short(text))

    def warning(self, problem: PluginError) -> None:
        """Nothing: observers are the driver's."""


def _short(text: str) -> str:
    return text[:_LINE]


def _read(begin: Begin, cores: int, place: Path) -> tuple[EvalRequest, Source, RunInfo]:
    """Return the request of a driver, with its files written below a directory.

    Raises:
        UsageError: The driver has another version.
        SourceCorrupt: The files are not those of the run.
    """
    if begin.generation != GENERATION or begin.envhub != envhub.__version__:
        raise UsageError(
            f"it has EnvHub {envhub.__version__}, and the driver {begin.envhub}: install the same."
        )
    if begin.offline:
        os.environ[VARIABLE] = "1"
    info = parse_run(begin.run, place)
    request = request_of(info, place, trust_remote_code=False)
    variables = recorded_variables(info, {}, place)
    options = replace(request.options, env_vars=variables)
    workers = cores if begin.workers is None else begin.workers
    request = replace(
        request,
        batch=info.policy.batch or 1,
        shard=info.shard,
        workers=max(1, workers) if begin.workers is None else workers,
        policy_processes="auto" if begin.all_devices else begin.policy_processes,
        max_errors=begin.max_errors,
        options=options,
    )
    source = _source(begin.benchmark, info, request, place)
    if begin.policy is not None and isinstance(request.policy, OfFile):
        hashes = {begin.policy.file: f"sha256:{info.policy.sha256}", **info.policy.imports}
        unpack(begin.policy, hashes, place / "policy")
        path = str(place / "policy" / begin.policy.file)
        request = replace(request, policy=replace(request.policy, path=path))
    return request, source, info


def _source(parcel: Parcel | None, info: RunInfo, request: EvalRequest, place: Path) -> Source:
    if parcel is None:
        return find_source(info.benchmark.ref, request.options)
    known = info.benchmark
    directory = place / "benchmark"
    directory.mkdir()
    unpack(parcel, known.files, directory)
    source = FileSource(str(directory), parcel.file, parcel.package, parcel.name)
    if known.kind != "hub":
        return source
    origin = msgspec.convert(msgspec.structs.asdict(known), Origin)
    protection = info.protection
    sandbox = choose(protection.sandbox)
    confinement = confine_foreign(sandbox, (str(directory),), network=protection.network)
    return replace(source, origin=origin, confinement=confinement)


def _prepare(
    request: EvalRequest, source: Source, info: RunInfo, logs: Path, watcher: Node
) -> Prepared:
    """Prepare, and compare with the driver before and after code is executed.

    Raises:
        UsageError: This node differs from the driver in something that counts.
    """
    absent = Missing()
    request = look_for_policy(request, info, watcher, absent)
    files = identify(source)
    _compare(info, foresee(request, files, info))
    prepared = prepare(request, source, files, logs, watcher, absent)
    try:
        _compare(info, prepared.info)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _compare(driver: RunInfo, here: RunInfo) -> None:
    difference = find_difference(driver, here)
    if difference is not None:
        raise UsageError(f"it and the driver differ in {difference}.")
    for name in ("process", "sandbox", "network"):
        theirs, ours = getattr(driver.protection, name), getattr(here.protection, name)
        if theirs != ours:
            raise UsageError(f"it and the driver differ in the {name} ({theirs}, {ours}).")
