"""A run, as programs and observers see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.records import EpisodeRecord
from envhub.results.journal import read_records, read_run
from envhub.results.summary import Summary, summarize


@dataclass(frozen=True, slots=True)
class Run:
    """A run's directory, and the content of its `run.json`."""

    directory: Path
    info: Mapping[str, Any]

    @property
    def suites(self) -> dict[str, list[str]]:
        """The tasks of each evaluated suite."""
        return {suite: list(tasks) for suite, tasks in self.info["plan"]["suites"].items()}

    def records(self) -> tuple[EpisodeRecord, ...]:
        """Return the records so far, in the order of the plan."""
        count = self.info["plan"]["episodes"]
        tasks = dict.fromkeys(task for suite in self.suites.values() for task in suite)
        keys = [(task, index) for task in tasks for index in range(count)]
        numbers = {key: number for number, key in enumerate(keys)}
        records = read_records(self.directory, numbers)
        return tuple(records[number] for number in sorted(records))

    def summary(self) -> Summary:
        """Return the rates with their intervals."""
        return summarize(self.records(), self.suites)

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a record."""
        tasks = {task for suite in self.suites.values() for task in suite}
        return len(self.records()) == len(tasks) * int(self.info["plan"]["episodes"])


def open_run(directory: str | Path) -> Run:
    """Open the run in a directory.

    Raises:
        RunDirectoryError: The directory has no run.
    """
    return Run(Path(directory), read_run(Path(directory)))
