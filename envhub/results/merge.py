"""Merging runs of one plan, as the shards of several machines, into one run."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace as changed

from envhub.errors import RunDirectoryError, UsageError
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.baselines import baseline_directory, baseline_names
from envhub.results.comparable import check_mergeable
from envhub.results.journal import Journal, check_directory, create_directory, is_vacant
from envhub.results.latency import Latency
from envhub.results.run import Run, open_run
from envhub.results.seal import is_sealed, make_seal
from envhub.results.summary import to_json
from envhub.run_info import LatencyInfo, MachineInfo, PartInfo, RunInfo, to_rows

_UNTOLD = ("seconds", "attempts", "error", "number")
"""What two plays of an episode may differ in: times, and the paths in a traceback."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two records of one episode that cannot both be true of it."""

    a: EpisodeRecord
    b: EpisodeRecord
    place_a: Path
    place_b: Path


class Contradicting(RunDirectoryError):
    """Runs that are to be merged contradict each other."""

    def __init__(self, found: Sequence[Contradiction]) -> None:
        first = found[0]
        a, b = first.a, first.b
        rest = f" So do {len(found) - 1} other episodes." if found[1:] else ""
        super().__init__(
            f"Episode {a.episode} of {a.task} differs: {_describe(a, b)} in {first.place_a}, "
            f"{_describe(b, a)} in {first.place_b}.{rest} Nothing was merged. Find out why they "
            "differ; then merge without the one that is wrong."
        )
        self.found = tuple(found)


def _describe(record: EpisodeRecord, other: EpisodeRecord) -> str:
    told = [
        f"{name.rstrip('_')} {_short(getattr(record, name))}"
        for name in EpisodeRecord.__slots__
        if name not in _UNTOLD and getattr(record, name) != getattr(other, name)
    ]
    return ", ".join(told[:3])


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:24]}..."


def merge_runs(out: Path, places: Sequence[Path]) -> Run:
    """Add the records of runs of one plan to a run, which is made if it does not exist.

    Runs that are still playing can be merged, and merged again later: what is new is added.

    Args:
        out: The directory of the merged run.
        places: The directories of the runs, such as shards.

    Raises:
        UsageError: No run is named, or `out` is one of them.
        RunDirectoryError: They do not belong together, or `out` is a run that was not merged.
        Contradicting: Two of them have different records of one episode.
    """
    if not places:
        raise UsageError("Name the runs to merge: envhub merge OUT DIR...")
    if any(place.resolve() == out.resolve() for place in places):
        raise UsageError(f"{out} is to be merged into itself. Name a new directory first.")
    runs = [open_run(place).keep_records() for place in places]
    before = _open_merged(out)
    for one, other in pairwise([*([before] if before else []), *runs]):
        check_mergeable(one.run_info, other.run_info, one.directory, other.directory)
    best = _choose([*([before] if before else []), *runs])
    if before is None and not (out.is_dir() and is_vacant(out)):
        create_directory(out)
    with closing(Journal(out)) as journal:
        info = _describe_merged(before, runs, best)
        journal.write("run.json", info.to_json())
        kept = {} if before is None else {record.number: record for record in before.records()}
        for number, (record, run) in sorted(best.items()):
            if kept.get(number) != record:
                stored = read_arrays(run.directory, number)
                journal.append(record, stored.actions, stored.steps)
        run = Run.of(out, info).keep_records()
        journal.write("summary.json", to_json(run.summary()))
    _merge_baselines(out, runs)
    return run


def _open_merged(out: Path) -> Run | None:
    if not (out / "run.json").exists():
        return None
    check_directory(out)
    run = open_run(out).keep_records()
    if not run.run_info.parts:
        raise RunDirectoryError(
            f"{out} is a run of its own, which was not merged. Name a new directory first: "
            "envhub merge NEW DIR..."
        )
    return run


def _choose(runs: Sequence[Run]) -> dict[int, tuple[EpisodeRecord, Run]]:
    """Return the record of each episode and its run: one that was played to its end, if there is.

    Raises:
        Contradicting: Two that were played to their ends differ.
    """
    best: dict[int, tuple[EpisodeRecord, Run]] = {}
    contradictions: list[Contradiction] = []
    for run in runs:
        for record in run.records():
            known = best.get(record.number)
            if known is None or (known[0].status != "ok" and record.status == "ok"):
                best[record.number] = (record, run)
            elif record.status == known[0].status == "ok" and not _agree(record, known[0]):
                contradictions.append(
                    Contradiction(known[0], record, known[1].directory, run.directory)
                )
    if contradictions:
        raise Contradicting(contradictions)
    return best


def _agree(a: EpisodeRecord, b: EpisodeRecord) -> bool:
    return a == replace(b, **{name: getattr(a, name) for name in _UNTOLD})


def _describe_merged(
    before: Run | None, runs: Sequence[Run], best: dict[int, tuple[EpisodeRecord, Run]]
) -> RunInfo:
    """Return the content of `run.json`: one question, and who played what.

    It carries this user's seal if all of them do: what it says may then be obeyed by `--resume`.
    """
    first = (before or runs[0]).run_info
    played = next((r.run_info for r in runs if r.run_info.policy.placement), first)
    sealed = all(is_sealed(run.info) for run in (*([before] if before else []), *runs))
    parts, machines = _parts(before, runs, best)
    policy = changed(
        played.policy, latency=_add_latencies(before, runs), processes=first.policy.processes
    )
    info = changed(
        first,
        format=played.format,
        created=min(run.run_info.created for run in runs) if before is None else first.created,
        policy=policy,
        conventions=played.conventions,
        shard=None,
        parts=parts,
        machines=machines,
        seal=None,
    )
    return changed(info, seal=make_seal(info.to_json()) if sealed else None)


def _parts(
    before: Run | None, runs: Sequence[Run], best: dict[int, tuple[EpisodeRecord, Run]]
) -> tuple[list[PartInfo], list[MachineInfo | None]]:
    """Return where the episodes were played, and the machines: of the merged run, then the new."""
    machines: list[MachineInfo | None] = []
    parts: list[PartInfo] = []

    def add(part: PartInfo, machine: MachineInfo | None, numbers: Iterable[int]) -> None:
        if machine not in machines:
            machines.append(machine)
        rows = to_rows(numbers)
        if rows:
            parts.append(changed(part, machine=machines.index(machine), numbers=rows))

    for run in (*([before] if before else []), *runs):
        info = run.run_info
        own = {number for number, (_, source) in best.items() if source is run}
        for part in info.parts:
            taken = {number for number in own if number in part}
            add(part, info.machines[part.machine], taken)
            own -= taken
        if run is not before:
            whole = PartInfo(
                name=run.directory.resolve().name,
                created=info.created,
                envhub=info.envhub,
                machine=0,
                numbers=[],
            )
            add(whole, info.machine, own)
    return _join(parts), machines


def _join(parts: Sequence[PartInfo]) -> list[PartInfo]:
    """Join parts of one origin: a shard that was merged before, and has played more since."""
    joined: dict[tuple[str, str, int], PartInfo] = {}
    for part in parts:
        key = (part.name, part.created, part.machine)
        if key in joined:
            numbers = (
                number
                for first, last in (*joined[key].numbers, *part.numbers)
                for number in range(first, last + 1)
            )
            part = changed(part, numbers=to_rows(set(numbers)))  # noqa: PLW2901
        joined[key] = part
    return list(joined.values())


def _add_latencies(before: Run | None, runs: Sequence[Run]) -> LatencyInfo | None:
    """Return how long the policy took to act: in the merged run, and in those that are new."""
    known = {(part.name, part.created) for part in before.run_info.parts} if before else set()
    latency = Latency(before.run_info.policy.latency if before else None)
    for run in runs:
        if (run.directory.resolve().name, run.run_info.created) not in known:
            latency.include(Latency(run.run_info.policy.latency))
    return latency.info()


def _merge_baselines(out: Path, runs: Sequence[Run]) -> None:
    """Merge the baselines that the runs have, into those of the merged run."""
    places: dict[str, list[Path]] = {}
    for run in runs:
        for name in baseline_names(run.directory):
            places.setdefault(name, []).append(baseline_directory(run.directory, name))
    for name, there in places.items():
        merge_runs(baseline_directory(out, name), there)
