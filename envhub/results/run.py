"""A run, as programs and observers see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.records import EpisodeRecord
from envhub.results.journal import PlannedEpisodes, read_records, read_run
from envhub.results.notebook import to_html, to_pandas
from envhub.results.paste import planned_episodes
from envhub.results.schema import check_shape
from envhub.results.summary import Summary, settle, summarize


@dataclass(frozen=True, slots=True, repr=False)
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
        records = read_records(self.directory, PlannedEpisodes(self.info["plan"]))
        return tuple(records[number] for number in sorted(records))

    def summary(self) -> Summary:
        """Return the rates with their intervals."""
        return summarize(self.records(), self.suites)

    def cases(self) -> tuple[Summary, Summary]:
        """Return the summary if every episode without a result had failed, or had succeeded."""
        summary, episodes = self.summary(), self.info["plan"]["episodes"]
        failed = settle(summary, self.suites, episodes, succeeded=False)
        return failed, settle(summary, self.suites, episodes, succeeded=True)

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a record."""
        return len(self.records()) == self.planned

    @property
    def planned(self) -> int:
        """The number of planned episodes."""
        return planned_episodes(self.info["plan"])

    def to_pandas(self) -> Any:
        """Return a data frame with a row per recorded episode; needs pandas.

        Its columns are the fields of a record; those of its error are `error_where`, `error_type`,
        `error_message` and `error_step`.
        """
        return to_pandas(self)

    def __repr__(self) -> str:
        named = {key: self.info.get(key, {}).get("ref", "?") for key in ("benchmark", "policy")}
        text = f"{named['benchmark']}, policy {named['policy']}, {self.planned} episodes planned"
        return f"<Run {self.directory}: {text}>"

    def _repr_html_(self) -> str:
        return to_html(self)


def open_run(directory: str | Path) -> Run:
    """Open the run in a directory.

    Raises:
        RunDirectoryError: The directory has no run, or a damaged one.
    """
    place = Path(directory)
    info = read_run(place)
    check_shape(info, place)
    return Run(place, info)
