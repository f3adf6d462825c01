"""A run's directory: the request, and a record of each episode as soon as it ends.

    run.json         the request, and the code and packages that were used
    episodes.jsonl   one record per episode; the last line for an episode counts
    actions/         <plan index>.npy: the actions of every episode, then reward and flags of its
                     steps: two arrays in one file, since a file costs more than what is in it
    summary.json     rates with intervals
    logs/            the output of the workers

Every file but `episodes.jsonl` is written whole or not at all. A torn last line of that file, from
a host that was killed, is dropped.
"""

import errno
import fcntl
import json
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Protocol

from msgspec import convert

from envhub.errors import RunDirectoryError
from envhub.files import open_regular, write_whole
from envhub.records import Episode, EpisodeRecord
from envhub.results.arrays import arrays_path, pack_arrays
from envhub.results.schema import describe
from envhub.run_info import FORMAT, PlanInfo
from envhub.wire.values import Array

_FORMATS = (1, FORMAT)

_KEYS = {
    "return" if field.name == "return_" else field.name: field.name
    for field in fields(EpisodeRecord)
    if field.name != "number"
}
# Most tasks have one instruction, which the benchmark declares.
_OPTIONAL = ("description", "first_observation", "first_leaves", "calls", "held", "end_state")


_FILES = ("run.json", "episodes.jsonl", "summary.json", ".lock")
_FOLDERS = ("actions", "logs")
_MAX_MANIFEST = 2**22
"""Bytes of a `run.json`; 5,000 files and as many tasks are below 2 MB. Of `{},{},...` Python makes
thirty times as much."""
_MAX_RECORDS = 2**26
"""Bytes of an `episodes.jsonl`; 150,000 episodes have fewer."""
_MAX_DEPTH = 64
"""Lists and objects within each other; arguments have 16 at most."""


class Planned(Protocol):
    """The episodes of a plan, by task and index."""

    def __getitem__(self, key: tuple[str, int], /) -> Episode: ...


class PlannedEpisodes:
    """The episodes of a plan as `run.json` has it. Each is made when it is asked for."""

    def __init__(self, plan: PlanInfo) -> None:
        self._plan = plan
        self._suites: dict[str, str] = {}
        for suite, tasks in plan.suites.items():
            for task in tasks:
                self._suites.setdefault(task, suite)
        self._places = {task: place for place, task in enumerate(self._suites)}
        self._seeds: dict[str, Sequence[int]] = {}

    def __getitem__(self, key: tuple[str, int], /) -> Episode:
        task, index = key
        count = self._plan.episodes
        if task not in self._places or not 0 <= index < count:
            raise KeyError(key)
        if task not in self._seeds:
            self._seeds[task] = self._plan.seeds(task)
        number = self._places[task] * count + index
        states = self._plan.tasks[task].init_states
        state = index % states if states else None
        return Episode(number, self._suites[task], task, index, self._seeds[task][index], state)


class Journal:
    """A run's directory, locked by this process."""

    def __init__(self, directory: Path) -> None:
        """Lock a directory that exists.

        Raises:
            RunDirectoryError: Another process has locked it, or it cannot be written.
        """
        self.directory = directory
        self._lock = _lock(directory)
        try:
            self._file = self._prepare()
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def logs(self) -> Path:
        """The directory for the output of workers."""
        return self.directory / "logs"

    def append(
        self, record: EpisodeRecord, actions: Array | None, steps: Array | None = None
    ) -> None:
        """Write an episode: its actions and steps first, so that no record lacks them."""
        with _readable_errors(self.directory):
            if actions is not None:
                content = pack_arrays(actions, steps)
                write_whole(arrays_path(self.directory, record.number), content, durable=False)
            line = json.dumps(record_to_json(record), separators=(",", ":")) + "\n"
            data = line.encode()
            while data:
                data = data[os.write(self._file, data) :]

    def records(self, episodes: Iterable[Episode]) -> dict[int, EpisodeRecord]:
        """Return the records of these episodes, by their numbers."""
        return read_records(self.directory, {(e.task, e.index): e for e in episodes})

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file, whole or not at all."""
        with _readable_errors(self.directory):
            write_json(self.directory / name, content)

    def close(self) -> None:
        """Unlock the directory."""
        os.close(self._file)
        os.close(self._lock)

    def _prepare(self) -> int:
        """Make missing directories, and open the file of records."""
        with _readable_errors(self.directory):
            for name in _FOLDERS:
                (self.directory / name).mkdir(exist_ok=True)
            for place in (self.directory, self.directory / "actions"):
                for part in place.glob(".*.part"):  # of a process that was killed
                    part.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self.directory / "episodes.jsonl", flags, 0o666)
            try:
                _drop_torn_line(file)
            except BaseException:
                os.close(file)
                raise
            return file


def create_directory(directory: Path) -> tuple[Path, ...]:
    """Make a new run's directory.

    Returns:
        Its parents that were made too, the innermost first.

    Raises:
        RunDirectoryError: It exists and is not empty, or cannot be made.
    """
    with _readable_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            advice = "Choose another --out."
            if (directory / "run.json").exists():
                advice = (
                    f"Resume it with envhub eval --resume {directory}, or choose another --out."
                )
            raise RunDirectoryError(f"{directory} exists and is not empty. {advice}")
        missing = tuple(parent for parent in directory.parents if not parent.exists())
        (directory / "logs").mkdir(parents=True)
        return missing


def claim_directory(directory: Path) -> tuple[Path, ...] | None:
    """Make a new run's directory, which nobody else can then make; None if it exists."""
    with _readable_errors(directory):
        missing = tuple(parent for parent in directory.parents if not parent.exists())
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.mkdir()
        except FileExistsError:
            return None
    create_directory(directory)
    return missing


def discard_directory(directory: Path, parents: Iterable[Path] = ()) -> None:
    """Remove the directory of a run that never began; a directory with a run is kept.

    Args:
        directory: Of the run.
        parents: Its parents that were made for it, the innermost first; those that are empty go.
    """
    if (directory / "run.json").exists():
        return
    for name in _FOLDERS:
        shutil.rmtree(directory / name, ignore_errors=True)
    with suppress(OSError):
        for name in ("episodes.jsonl", ".lock"):
            (directory / name).unlink(missing_ok=True)
        for path in (directory, *parents):
            path.rmdir()


def forget_unplayed(directory: Path) -> None:
    """Remove the files of a run from its directory, unless an episode was recorded."""
    if has_records(directory):
        return
    for name in _FOLDERS:
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in _FILES:
        (directory / name).unlink(missing_ok=True)


def check_directory(directory: Path) -> None:
    """Refuse a directory in which a run's files are links, or no files: they lead elsewhere.

    Raises:
        RunDirectoryError: One of them is; says which.
    """
    with _readable_errors(directory, "read"):
        logs = directory / "logs"
        printed = sorted(logs.iterdir()) if logs.is_dir() and not logs.is_symlink() else []
        for path in (*(directory / name for name in _FILES), *printed):
            found = _look(path)
            if found and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 1):
                raise RunDirectoryError(_ELSEWHERE.format(path=path, due="file"))
        for path in (directory / name for name in _FOLDERS):
            found = _look(path)
            if found and not stat.S_ISDIR(found.st_mode):
                raise RunDirectoryError(_ELSEWHERE.format(path=path, due="directory"))


_ELSEWHERE = (
    "{path} is a link, or something else than a {due} of its own. A run writes only to its own "
    "directory: put a {due} there, or start a new run in another directory."
)


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def has_records(directory: Path) -> bool:
    """Whether a whole line was recorded in a directory."""
    path = directory / "episodes.jsonl"
    with _readable_errors(directory, "read"):
        if not path.exists():
            return False
        with open_regular(path, most=_MAX_RECORDS) as file:
            return b"\n" in file.read(_MAX_RECORDS)


def is_vacant(directory: Path) -> bool:
    """Whether a directory holds nothing but what a run leaves behind that never played."""
    with _readable_errors(directory, "read"):
        names = {path.name for path in directory.iterdir()} - {*_FILES, *_FOLDERS}
        rest = [name for name in names if not (name.startswith(".") and name.endswith(".part"))]
    return not rest and not has_records(directory)


def read_run(directory: Path) -> dict[str, Any]:
    """Read `run.json`.

    Raises:
        RunDirectoryError: The directory has no run, or one of another format.
    """
    try:
        content = read_json(directory / "run.json", _MAX_MANIFEST)
    except FileNotFoundError:
        if (directory / "experiment.json").is_file():
            raise RunDirectoryError(
                f"{directory} is an experiment, whose cells are runs: `envhub compare {directory}` "
                f"shows all of them, `envhub runs {directory}` lists them."
            ) from None
        raise RunDirectoryError(
            f"{directory} is not a run: it has no run.json. `envhub runs DIR` lists the runs in a "
            "directory."
        ) from None
    except OSError as exc:
        raise RunDirectoryError(
            f"{directory}/run.json cannot be read: {exc.strerror or exc}. Name a run's directory."
        ) from exc
    except ValueError as exc:
        raise RunDirectoryError(
            f"{directory}/run.json is damaged: {exc}. Restore the file, or start a new run in "
            "another directory."
        ) from exc
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is not int or version not in _FORMATS:
        raise RunDirectoryError(
            f"{directory} has the format {_shown(version)}; this version of EnvHub reads "
            f"{' and '.join(map(str, _FORMATS))}. Use the version that wrote it."
        )
    return dict(content)


def read_json(path: Path, most: int) -> Any:
    """Read a JSON file of a run.

    Args:
        path: The file.
        most: The bytes that it may have.

    Raises:
        OSError: It is no file, too large, or cannot be read.
        ValueError: It is not JSON, or not what a run can have written.
    """
    with open_regular(path, most=most) as file:
        return parse_json(file.read(most))


def parse_json(data: bytes) -> Any:
    """Return what JSON says, without what no run has written and Python would read nevertheless.

    Raises:
        ValueError: It is not JSON, says NaN or an infinity, or is nested deeply.
    """
    try:
        content = json.loads(data.decode(), parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(_NESTED) from None
    if data.count(b"[") + data.count(b"{") > _MAX_DEPTH:
        _check_depth(content)
    return content


_NESTED = f"it is nested deeper than {_MAX_DEPTH} levels"


def _check_depth(content: object) -> None:
    level = [content]
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError(_NESTED)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def read_records(directory: Path, planned: Planned) -> dict[int, EpisodeRecord]:
    """Read the records of a run, by episode number; the last line for an episode counts.

    Raises:
        RunDirectoryError: A line is not a record of one of the planned episodes; says which.
    """
    records: dict[int, EpisodeRecord] = {}
    for count, line in enumerate(read_lines(directory), start=1):
        try:
            record = _planned_record(parse_json(line), planned)
        except ValueError as exc:
            raise RunDirectoryError(
                f"{directory}/episodes.jsonl, line {count}, is not a record of this run: {exc}. "
                "Delete the line; --resume then runs the episode again."
            ) from exc
        records[record.number] = record
    return records


def read_lines(directory: Path) -> Iterator[bytes]:
    """Yield the whole lines of `episodes.jsonl`: a torn last one, or a missing file, has none.

    Raises:
        RunDirectoryError: It cannot be read, or is too large.
    """
    path = directory / "episodes.jsonl"
    with _readable_errors(path, "read"):
        if not path.exists():
            return
        with open_regular(path, most=_MAX_RECORDS) as file:
            yield from (line for line in file if line.endswith(b"\n"))


def _planned_record(content: object, planned: Planned) -> EpisodeRecord:
    record = record_from_json(content)
    try:
        episode = planned[record.task, record.episode]
    except KeyError:
        raise ValueError(
            f"episode {record.episode} of task {record.task!r} is not in the plan"
        ) from None
    _check_planned(record, episode)
    return replace(record, number=episode.number)


def _check_planned(record: EpisodeRecord, episode: Episode) -> None:
    for name in ("suite", "seed", "init_state"):
        found, due = getattr(record, name), getattr(episode, name)
        if found != due:
            raise ValueError(f"its {name} is {found!r}, and the plan's is {due!r}")


def record_to_json(record: EpisodeRecord) -> dict[str, Any]:
    """Return the content of a line of `episodes.jsonl`."""
    content = {key: getattr(record, name) for key, name in _KEYS.items()}
    content["error"] = asdict(record.error) if record.error else None
    for name in _OPTIONAL:
        if content[name] is None:
            del content[name]
    return content


def record_from_json(content: object, number: int = -1) -> EpisodeRecord:
    """Return the record of a line of `episodes.jsonl`; unknown fields are ignored.

    Raises:
        ValueError: It is not a record; says which field is missing or of another type.
    """
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    values = {_KEYS.get(key, key): value for key, value in content.items()}
    try:
        return convert({**values, "number": number}, EpisodeRecord)
    except ValueError as exc:  # msgspec's own, or a name that UTF-8 cannot encode
        raise ValueError(describe(exc).replace("return_", "return")) from exc


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def _lock(directory: Path) -> int:
    with _readable_errors(directory):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory / ".lock", flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(descriptor).st_nlink > 0  # or its holder has just discarded it
        except BlockingIOError:
            held = False
        if not held:
            os.close(descriptor)
            raise RunDirectoryError(
                f"Another process is writing to {directory}; wait for it, or stop it."
            )
        return descriptor


def _drop_torn_line(descriptor: int) -> None:
    """Remove a last line that a killed host did not finish."""
    size = end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)


_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Too few descriptors are not the directory's fault: the command line says what to do."""


class _readable_errors:  # noqa: N801 - used like a function
    """Turn errors of the file system into one sentence."""

    def __init__(self, directory: Path, verb: str = "written") -> None:
        self._directory, self._verb = directory, verb

    def __enter__(self) -> None:
        return

    def __exit__(self, exc_type: object, exc: BaseException | None, trace: object) -> None:
        if not isinstance(exc, OSError) or exc.errno in _DESCRIPTORS:
            return
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunDirectoryError(
                f"No space is left for {self._directory}. All records so far are complete: free "
                f"some space and resume with envhub eval --resume {self._directory}"
            ) from exc
        reason = exc.strerror or str(exc)
        raise RunDirectoryError(f"{self._directory} cannot be {self._verb}: {reason}.") from exc
