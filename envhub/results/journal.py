"""A run's directory: the request, and a record of each episode as soon as it ends.

    run.json         the request, and the code and packages that were used
    episodes.jsonl   one record per episode; the last line for an episode counts
    actions/         <plan index>.npy: the actions of every episode
    summary.json     rates with intervals
    logs/            the output of the workers

Every file but `episodes.jsonl` is written whole or not at all. A torn last line of that file, from
a host that was killed, is dropped.
"""

import errno
import fcntl
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import RunDirectoryError
from envhub.files import write_whole
from envhub.records import Episode, EpisodeError, EpisodeRecord
from envhub.wire.values import Array

FORMAT = 1

_KEYS = {
    "return" if field.name == "return_" else field.name: field.name
    for field in fields(EpisodeRecord)
    if field.name != "number"
}


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

    def append(self, record: EpisodeRecord, actions: Array | None) -> None:
        """Write an episode: its actions first, so that no record lacks them."""
        with _readable_errors(self.directory):
            if actions is not None:
                buffer = io.BytesIO()
                np.save(buffer, actions, allow_pickle=False)
                path = self.directory / "actions" / f"{record.number}.npy"
                write_whole(path, buffer.getvalue(), durable=False)
            line = json.dumps(record_to_json(record), separators=(",", ":")) + "\n"
            data = line.encode()
            while data:
                data = data[os.write(self._file, data) :]

    def records(self, episodes: Iterable[Episode]) -> dict[int, EpisodeRecord]:
        """Return the records of these episodes, by their numbers."""
        return read_records(self.directory, {(e.task, e.index): e.number for e in episodes})

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
            for name in ("actions", "logs"):
                (self.directory / name).mkdir(exist_ok=True)
            for place in (self.directory, self.directory / "actions"):
                for part in place.glob(".*.part"):  # of a process that was killed
                    part.unlink(missing_ok=True)
            path = self.directory / "episodes.jsonl"
            _drop_torn_line(path)
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def create_directory(directory: Path) -> None:
    """Make a new run's directory.

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
        (directory / "logs").mkdir(parents=True)


def discard_directory(directory: Path) -> None:
    """Remove the directory of a run that never began; a directory with a run is kept."""
    if (directory / "run.json").exists():
        return
    for name in ("actions", "logs"):
        shutil.rmtree(directory / name, ignore_errors=True)
    with suppress(OSError):
        for name in ("episodes.jsonl", ".lock"):
            (directory / name).unlink(missing_ok=True)
        directory.rmdir()


def read_run(directory: Path) -> dict[str, Any]:
    """Read `run.json`.

    Raises:
        RunDirectoryError: The directory has no run, or one of another format.
    """
    try:
        content = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDirectoryError(f"{directory} is not a run: it has no run.json.") from None
    except (OSError, ValueError) as exc:
        raise RunDirectoryError(f"{directory}/run.json cannot be read: {exc}.") from exc
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise RunDirectoryError(
            f"{directory} has the format {version!r}; this version of EnvHub reads {FORMAT}."
        )
    return dict(content)


def read_records(
    directory: Path, numbers: Mapping[tuple[str, int], int]
) -> dict[int, EpisodeRecord]:
    """Read the records of a run, by episode number; the last line for an episode counts."""
    records: dict[int, EpisodeRecord] = {}
    path = directory / "episodes.jsonl"
    if not path.exists():
        return records
    with path.open("rb") as file:
        for count, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break  # torn
            try:
                content = json.loads(line)
                number = numbers[content["task"], content["episode"]]
                records[number] = record_from_json(content, number)
            except (ValueError, KeyError, TypeError) as exc:
                raise RunDirectoryError(
                    f"{path}, line {count}, is not a record of this run: {type(exc).__name__}: "
                    f"{exc}. Delete the line; --resume then runs the episode again."
                ) from exc
    return records


def record_to_json(record: EpisodeRecord) -> dict[str, Any]:
    """Return the content of a line of `episodes.jsonl`."""
    content = {key: getattr(record, name) for key, name in _KEYS.items()}
    content["error"] = asdict(record.error) if record.error else None
    return content


def record_from_json(content: Mapping[str, Any], number: int) -> EpisodeRecord:
    """Return the record of a line of `episodes.jsonl`."""
    values = {_KEYS.get(key, key): value for key, value in content.items()}
    error = values.pop("error")
    return EpisodeRecord(**values, error=EpisodeError(**error) if error else None, number=number)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def _lock(directory: Path) -> int:
    with _readable_errors(directory):
        descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunDirectoryError(
                f"Another process is writing to {directory}; wait for it, or stop it."
            ) from None
        return descriptor


def _drop_torn_line(path: Path) -> None:
    """Remove a last line that a killed host did not finish."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)


class _readable_errors:  # noqa: N801 - used like a function
    """Turn errors of the file system into one sentence."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        return

    def __exit__(self, exc_type: object, exc: BaseException | None, trace: object) -> None:
        if not isinstance(exc, OSError):
            return
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunDirectoryError(
                f"No space is left for {self._directory}. All records so far are complete: free "
                f"some space and resume with envhub eval --resume {self._directory}"
            ) from exc
        reason = exc.strerror or str(exc)
        raise RunDirectoryError(f"{self._directory} cannot be written: {reason}.") from exc
