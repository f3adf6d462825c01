"""The episodes that explain plays of two runs: which, under whose versions, and each but once."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envhub.errors import UnknownName, UsageError
from envhub.evaluation.again import (
    Key,
    NotPlayed,
    Played,
    Side,
    actions_of,
    is_of_another_python,
    leaves_of_states,
    make_side,
    play_actions,
    play_policy,
)
from envhub.evaluation.judge import Verdict, judge
from envhub.evaluation.request import Watcher
from envhub.evaluation.rerun import RerunOptions
from envhub.options import OtherVersions
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.explanation import compare_questions
from envhub.results.run import Run
from envhub.text import pluralize
from envhub.wire.values import Array

SAMPLE = 10
"""Episodes that are played unless the user gives another number."""
_VERSION = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)={1,2}(?P<version>[0-9][\w.!+-]*)")


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What to explain, and by how many episodes."""

    versions: Mapping[str, str]
    """Of A's packages, if there is no B."""
    episodes: int = SAMPLE
    tasks: tuple[str, ...] = ()
    """Only these; none: all."""


def parse_versions(texts: Iterable[str]) -> dict[str, str]:
    """Read NAME=VERSION, several in one text too."""
    found: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        match = _VERSION.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--versions takes NAME=VERSION, as in mujoco=3.3.7; found {part!r}.")
        if match["name"] in found:
            raise UsageError(f"--versions names {match['name']} twice.")
        found[match["name"]] = match["version"]
    return found


class Sample:
    """Episodes of A that are played in many ways, each of which is played once."""

    def __init__(
        self,
        a: Run,
        b: Run | None,
        request: ExplainRequest,
        options: RerunOptions,
        watcher: Watcher,
    ) -> None:
        """Choose the episodes.

        Args:
            a: The run A.
            b: The run B; None: A in other versions.
            request: What to explain.
            options: What the user says about running their code.
            watcher: Receives messages.
        """
        self.a, self.b, self.request = a, b, request
        self.options, self.watcher = options, watcher
        self._sides: dict[str, Side | NotPlayed] = {}
        self._played: dict[tuple[str, str, str, str], Played | NotPlayed] = {}
        self.chosen = _choose(a, b, request)
        directories = [str(run.directory) for run in (a, b) if run is not None]
        self.command = shlex.join(["envhub", "explain", *directories])

    @property
    def keys(self) -> list[Key]:
        """The episodes that are played."""
        return [(record.task, record.episode) for record in self.chosen]

    @property
    def elsewhere(self) -> str | None:
        """The one of both that ran on another Python than this; None: neither, or both."""
        if self.b is None:
            return None
        names = [n for n, r in (("A", self.a), ("B", self.b)) if is_of_another_python(r.run_info)]
        return names[0] if len(names) == 1 else None

    def moves_env(self) -> bool:
        """Whether something differs that the benchmark itself runs with."""
        if self.b is None:
            return True
        one, other = self.a.run_info, self.b.run_info
        return (
            one.runtime.packages != other.runtime.packages
            or one.runtime.key != other.runtime.key
            or one.runtime.python != other.runtime.python
            or one.benchmark.counted_files != other.benchmark.counted_files
            or one.benchmark.assets != other.benchmark.assets
        )

    def version_notes(self) -> Mapping[str, str]:
        """Return what the plugin says of versions; nothing before something was played."""
        for played in self._played.values():
            if isinstance(played, Played):
                return played.benchmark.version_notes
        return {}

    def side(self, name: str) -> Side:
        """Return a run as it may be played here.

        Raises:
            NotPlayed: It may not, and why.
        """
        if name not in self._sides:
            try:
                self._sides[name] = self._make_side(name)
            except NotPlayed as why:
                self._sides[name] = why
        side = self._sides[name]
        if isinstance(side, NotPlayed):
            raise side
        return side

    def _make_side(self, name: str) -> Side:
        run = self.a if name == "A" or self.b is None else self.b
        side = make_side(name, run, self.options, f"{self.command} --benchmark REF --policy P")
        if self.b is not None:
            files = [each.run_info.benchmark.files for each in (self.a, self.b)]
            return replace(side, strict=files[0] != files[1])
        if name == "A":
            return side
        begun = side.request.options.runtime
        begun = "isolated" if begun in ("here", "auto") else begun
        assert not isinstance(begun, OtherVersions)
        choice = OtherVersions(self.request.versions, begun)
        request = replace(side.request, options=replace(side.request.options, runtime=choice))
        return replace(side, request=request, chosen=True)

    def play(self, question: str, setting: str, whose: str, kind: str) -> Played:
        """Play the sample once: `kind` is how much is seen of it."""
        key = question, setting, whose, kind
        if key not in self._played:
            try:
                self._played[key] = self._play_now(*key)
            except NotPlayed as why:
                self._played[key] = why
        found = self._played[key]
        if isinstance(found, NotPlayed):
            raise found
        if found.problem is not None:
            raise NotPlayed(found.problem)
        return found

    def _play_now(self, question: str, setting: str, whose: str, kind: str) -> Played:
        asked, code = self.side(question), self.side(setting)
        what = {"begin": "beginning of", "policy": "policy"}
        acts = f"{what.get(kind, 'actions of')} {whose}"
        under = f" under the versions of {setting}" if self.moves_env() else ""
        if self.b is None:
            under = " under the other versions" if setting == "B" else ""
        self.watcher.progress(
            f"Playing {pluralize(len(self.chosen), 'episode')}, {acts}{under} ..."
        )
        if kind == "policy":
            return play_policy(asked, code, self.side(whose), self.keys, self.watcher)
        actions = self._actions(whose)
        if kind == "states":
            same = self._same_question()  # then so are the leaves, and one look is enough
            begun = (
                self.play("A", "A", "A", "begin")
                if same
                else self.play(question, question, whose, "begin")
            )
            needs = leaves_of_states(begun)
            return play_actions(asked, code, actions, self.watcher, needs=needs)
        leaves = None
        if kind == "record":
            told = (each for each in self.records(asked.run) if says_beginning(each))
            leaves = {record.number: record.first_leaves for record in told}
        return play_actions(
            asked, code, actions, self.watcher, reset_only=kind == "begin", first_leaves=leaves
        )

    def _same_question(self) -> bool:
        return self.b is None or (
            compare_questions(self.a.run_info, self.b.run_info).finding == "same"
        )

    def _actions(self, whose: str) -> dict[Key, Array]:
        run = self.a if whose == "A" or self.b is None else self.b
        actions = actions_of(run, self.records(run))
        if not actions:
            raise NotPlayed(f"{whose} has no recorded actions of these episodes")
        return actions

    def records(self, run: Run) -> list[EpisodeRecord]:
        """Return a run's records of the sample, but those of errors."""
        wanted = set(self.keys)
        return [r for r in run.records() if (r.task, r.episode) in wanted and r.error is None]

    def judge(self, run: Run, records: Sequence[EpisodeRecord], played: Played) -> list[Verdict]:
        """Judge how a run's actions score, by its records; what they began with is left out."""
        found = []
        for record in records:
            key = record.task, record.episode
            if key in played.records:
                stored = read_arrays(run.directory, record.number).steps
                recorded = replace(record, first_observation=None)
                found.append(judge(recorded, played.records[key], stored, played.steps[key]))
        return found

    def full_command(self, command: str | None) -> str | None:
        """Return the whole command, of one or of what is to be added to this one."""
        if command is not None and command.endswith(" -m"):
            return f"{command} {self.command}"
        if command is None or not command.startswith("--"):
            return command
        alone = shlex.join(["envhub", "explain", str(self.a.directory)])
        return f"{alone if command.startswith('--versions') else self.command} {command}"

    def check_random(self) -> None:
        """Refuse to compare policies that draw random numbers of their own.

        Raises:
            NotPlayed: One of both does.
        """
        for run, name in ((self.a, "A"), (self.b, "B")):
            if run is not None and not run.run_info.reproducible:
                raise NotPlayed(f"the policy of {name} draws random numbers that no seed reaches")


def _choose(a: Run, b: Run | None, request: ExplainRequest) -> list[EpisodeRecord]:
    """Choose episodes of A that are played: of each task the first, those first that B has too."""
    for task in request.tasks:
        if task not in a.run_info.plan.tasks:
            raise UnknownName("task", task, a.run_info.plan.tasks)
    also = {} if b is None else {(r.task, r.episode): r for r in b.records() if r.error is None}
    by_task: dict[str, list[EpisodeRecord]] = {}
    for record in a.records():
        wanted = not request.tasks or record.task in request.tasks
        if record.error is None and record.steps and wanted:
            by_task.setdefault(record.task, []).append(record)

    def rank(record: EpisodeRecord) -> tuple[bool, bool, int]:
        other = also.get((record.task, record.episode))
        return other is None, other is not None and other.success == record.success, record.episode

    for records in by_task.values():
        records.sort(key=rank)
    found: list[EpisodeRecord] = []
    tasks = list(by_task)
    if len(tasks) > request.episodes:  # spread over the plan, and so over its suites
        last = max(1, request.episodes - 1)
        tasks = [tasks[round(i * (len(tasks) - 1) / last)] for i in range(request.episodes)]
    while len(found) < request.episodes and any(by_task[task] for task in tasks):
        for task in tasks:
            if by_task[task] and len(found) < request.episodes:
                found.append(by_task[task].pop(0))
    return sorted(found, key=lambda record: record.number)


def says_beginning(record: EpisodeRecord) -> bool:
    """Whether a record has a hash of an observation, not only of what was drawn."""
    return record.first_observation is not None and record.first_leaves != ()
