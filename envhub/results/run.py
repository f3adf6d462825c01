"""A run, as programs and observers see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from envhub.records import EpisodeRecord
from envhub.results.journal import PlannedEpisodes, read_records, read_run
from envhub.results.schema import parse_run
from envhub.results.summary import Summary, settle, summarize
from envhub.run_info import RunInfo


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run's directory, and the content of its `run.json`."""

    directory: Path
    info: Mapping[str, Any]
    """The content, as the file has it."""
    run_info: RunInfo
    """The same as types, whatever the format of the file."""
    kept: tuple[EpisodeRecord, ...] | None = field(default=None, compare=False)
    """Records that were read; None: each question reads them, for others may be writing."""

    @classmethod
    def of(cls, directory: Path, run_info: RunInfo) -> "Run":
        """Return the run of a content that this version writes."""
        return cls(directory, run_info.to_json(), run_info)

    @property
    def suites(self) -> dict[str, list[str]]:
        """The tasks of each evaluated suite."""
        return {suite: list(tasks) for suite, tasks in self.run_info.plan.suites.items()}

    def records(self) -> tuple[EpisodeRecord, ...]:
        """Return the records so far, in the order of the plan."""
        if self.kept is not None:
            return self.kept
        records = read_records(self.directory, PlannedEpisodes(self.run_info.plan))
        return tuple(records[number] for number in sorted(records))

    def keep_records(self) -> "Run":
        """Return the same run with the records that it has now, so that they are read once."""
        return self if self.kept is not None else replace(self, kept=self.records())

    def summary(self) -> Summary:
        """Return the rates with their intervals."""
        return summarize(self.records(), self.suites, self.run_info.plan.seed_groups)

    def cases(self) -> tuple[Summary, Summary]:
        """Return the summary if every episode without a result had failed, or had succeeded."""
        plan, records = self.run_info.plan, self.records()
        failed, succeeded = (
            settle(records, self.suites, plan.episodes, succeeded=each, groups=plan.seed_groups)
            for each in (False, True)
        )
        return failed, succeeded

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a record."""
        return len(self.records()) == self.planned

    @property
    def planned(self) -> int:
        """The number of planned episodes."""
        return self.run_info.plan.planned

    def to_pandas(self) -> Any:
        """Return a data frame with a row per recorded episode; needs pandas.

        Its columns are the fields of a record; those of its error are `error_where`, `error_type`,
        `error_message` and `error_step`.
        """
        from envhub.results.notebook import to_pandas  # few runs are shown in a notebook

        return to_pandas(self)

    def __repr__(self) -> str:
        benchmark, policy = self.run_info.benchmark.ref, self.run_info.policy.ref
        return (
            f"<Run {self.directory}: {benchmark}, policy {policy}, {self.planned} episodes planned>"
        )

    def _repr_html_(self) -> str:
        from envhub.results.notebook import to_html

        return to_html(self.keep_records())


def open_run(directory: str | Path) -> Run:
    """Open the run in a directory.

    Raises:
        RunDirectoryError: The directory has no run, or a damaged one.
    """
    place = Path(directory)
    info = read_run(place)
    return Run(place, info, parse_run(info, place))
