"""Explain why two results differ: walk down the layers, and name the first that differs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement

from envhub.errors import EnvHubError, UnknownName, UsageError
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
from envhub.evaluation.judge import ORDER, Verdict, begins_as_recorded, compare_machines, judge
from envhub.evaluation.request import Watcher
from envhub.evaluation.rerun import RerunOptions
from envhub.options import OtherVersions
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.differences import (
    ActionDifference,
    Divergence,
    Finding,
    PictureDifference,
    compare_actions,
    compare_first_states,
    find_divergence,
    is_picture,
    worst,
)
from envhub.results.explanation import (
    Explanation,
    Layer,
    compare_questions,
    compare_versions,
    conclude,
    declared_differences,
    judge_luck,
    not_checked,
    with_notes,
)
from envhub.results.journal import check_directory
from envhub.results.run import Run, open_run
from envhub.runtime.provision import other_pins
from envhub.sources.find import find_source
from envhub.text import pluralize
from envhub.wire.values import Array

SAMPLE = 10
"""Episodes that are played unless the user gives another number."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What to explain, and by how many episodes."""

    versions: Mapping[str, str]
    """Of A's packages, if there is no B."""
    episodes: int = SAMPLE
    tasks: tuple[str, ...] = ()
    """Only these; none: all."""


def explain_runs(
    a: Path, b: Path | None, request: ExplainRequest, options: RerunOptions, watcher: Watcher
) -> Explanation:
    """Say why two results differ, or what other versions change of one.

    Args:
        a: The directory of A.
        b: That of B; None: A in other versions.
        request: What to explain.
        options: What the user says about running their code.
        watcher: Receives messages.

    Raises:
        UsageError: There is no such run or task, or both are runs of different benchmarks.
        RuntimeUnavailable: The versions that were asked for cannot be built.
    """
    first = _open(a)
    if b is None:
        return _Walk(first, None, request, options, watcher).explain()
    second = _open(b)
    names = [run.run_info.benchmark.name for run in (first, second)]
    if names[0] != names[1]:
        raise UsageError(
            f"A is a run of {names[0]} and B one of {names[1]}: explain compares runs of one "
            "benchmark."
        )
    return _Walk(first, second, request, options, watcher).explain()


def _open(directory: Path) -> Run:
    check_directory(directory)
    return open_run(directory).keep_records()


class _Walk:
    """One walk down the layers."""

    def __init__(
        self,
        a: Run,
        b: Run | None,
        request: ExplainRequest,
        options: RerunOptions,
        watcher: Watcher,
    ) -> None:
        self._a, self._b, self._request = a, b, request
        self._options, self._watcher = options, watcher
        self._sides: dict[str, Side | NotPlayed] = {}
        self._played: dict[tuple[str, str, str, str], Played | NotPlayed] = {}
        self._pictures: list[PictureDifference] = []
        self._divergences: list[Divergence] = []
        self._pins: str | None = None
        self._chosen = _choose(a, b, request)
        directories = [str(run.directory) for run in (a, b) if run is not None]
        self._command = shlex.join(["envhub", "explain", *directories])

    def explain(self) -> Explanation:
        """Walk down the layers."""
        if self._b is None:
            self._build()
        question, versions = self._question(), self._versions()
        moved = versions.finding == "differs" and self._moves_env()
        beginning = self._beginning(moved=moved)
        physics = self._physics(moved=moved)
        alike = not moved or beginning.finding == physics.finding == "same"
        policy = self._policy(direct=alike and question.finding == "same")
        layers = [question, self._with_notes(versions), beginning, physics, policy]
        if self._b is None:
            layers.append(not_checked("luck", "there is one run"))
        else:
            layers.append(judge_luck(self._a, self._b, layers))
        return Explanation(
            a=str(self._a.directory),
            b=None if self._b is None else str(self._b.directory),
            versions=dict(self._request.versions),
            verdict=conclude(layers, self._cause(), self._picture_words()),
            layers=tuple(layers),
            pictures=tuple(self._pictures),
            divergences=tuple(self._divergences),
            pins=self._pins,
            episodes=tuple(f"{task}:{index}" for task, index in self._keys),
        )

    def _build(self) -> None:
        """Build the versions that were asked for.

        Raises:
            EnvHubError: They cannot be built, or A's own cannot.
        """
        if not self._chosen:
            raise UsageError(f"{self._a.directory} has no episode that was played to its end.")
        try:
            played = self._play("A", "A", "A", "begin")
            request = self._side("B").request
            choice = request.options.runtime
            assert isinstance(choice, OtherVersions)
            source = find_source(request.ref, request.options, message=self._watcher.message)
            self._pins = other_pins(source, played.benchmark, choice)[1].text()
            self._play("A", "B", "A", "begin")
        except NotPlayed as why:
            if isinstance(why.__cause__, EnvHubError):
                raise why.__cause__ from None
            advice = f" The command: {why.command}" if why.command else ""
            raise UsageError(f"Nothing was played, because {why}.{advice}") from None

    @property
    def _keys(self) -> list[Key]:
        return [(record.task, record.episode) for record in self._chosen]

    # The question and the versions: read, not played

    def _question(self) -> Layer:
        if self._b is None:
            return Layer("question", "same", "it is one run")
        return compare_questions(self._a.run_info, self._b.run_info)

    def _versions(self) -> Layer:
        if self._b is None:
            there = self._play("A", "B", "A", "begin").info.runtime.packages
            found = {**there, **self._request.versions}
            differing = [
                name
                for name, version in found.items()
                if name in self._request.versions or version != self._packages.get(name)
            ]
            words = [f"{name} {self._packages.get(name, 'as locked')} in A, {found[name]} there"
                     for name in differing]  # fmt: skip
            return Layer("versions", "differs", "; ".join(words))
        machine = list(compare_machines(self._a.run_info, self._b.run_info, sides=("in A", "in B")))
        return compare_versions(self._a.run_info, self._b.run_info, machine)

    @property
    def _packages(self) -> Mapping[str, str]:
        return self._a.run_info.runtime.packages

    def _moves_env(self) -> bool:
        """Whether something differs that the benchmark itself runs with."""
        if self._b is None:
            return True
        one, other = self._a.run_info, self._b.run_info
        return (
            one.runtime.packages != other.runtime.packages
            or one.runtime.key != other.runtime.key
            or one.runtime.python != other.runtime.python
            or one.benchmark.counted_files != other.benchmark.counted_files
            or one.benchmark.assets != other.benchmark.assets
        )

    def _cause(self) -> str:
        """What differs in the versions, in a few words; those that are known to matter first."""
        if self._b is None:
            return ", ".join(f"{name} {v}" for name, v in self._request.versions.items())
        packages = self._b.run_info.runtime.packages
        differing = [n for n, v in packages.items() if self._packages.get(n) != v]
        noted = [name for name in differing if any(_named(n) == name for n in self._notes())]
        if not differing and self._elsewhere is None:
            one, other = (r.run_info.benchmark.counted_files for r in (self._a, self._b))
            changed = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
            return f"another {', '.join(changed[:3])}" if changed else ""
        python = [f"Python {self._b.run_info.runtime.python}"] if self._elsewhere else []
        return ", ".join([*(f"{n} {packages[n]}" for n in (noted or differing)[:3]), *python])

    def _notes(self) -> Mapping[str, str]:
        for played in self._played.values():
            if isinstance(played, Played):
                return played.benchmark.version_notes
        return {}

    def _with_notes(self, layer: Layer) -> Layer:
        """Add what the plugin says of a version that only one of both has."""
        if self._b is None:
            others = {**self._packages, **self._request.versions}
        else:
            others = dict(self._b.run_info.runtime.packages)
        told = []
        for text, note in self._notes().items():
            name, fits = _named(text), Requirement(text).specifier
            found = [v is not None and fits.contains(v, prereleases=True)
                     for v in (self._packages.get(name), others.get(name))]  # fmt: skip
            if found[0] != found[1]:
                version = (self._packages if found[0] else others)[name]
                told.append(f"{name} {version} {note}")
        return with_notes(layer, told)

    # Playing

    def _side(self, name: str) -> Side:
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
        run = self._a if name == "A" or self._b is None else self._b
        side = make_side(name, run, self._options, f"{self._command} --benchmark REF --policy P")
        if self._b is not None:
            files = [each.run_info.benchmark.files for each in (self._a, self._b)]
            return replace(side, strict=files[0] != files[1])
        if name == "A":
            return side
        begun = side.request.options.runtime
        begun = "isolated" if begun in ("here", "auto") else begun
        assert not isinstance(begun, OtherVersions)
        choice = OtherVersions(self._request.versions, begun)
        request = replace(side.request, options=replace(side.request.options, runtime=choice))
        return replace(side, request=request, chosen=True)

    def _play(self, question: str, setting: str, whose: str, kind: str) -> Played:
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
        asked, code = self._side(question), self._side(setting)
        what = {"begin": "beginning of", "policy": "policy"}
        acts = f"{what.get(kind, 'actions of')} {whose}"
        under = f" under the versions of {setting}" if self._moves_env() else ""
        if self._b is None:
            under = " under the other versions" if setting == "B" else ""
        self._watcher.progress(
            f"Playing {pluralize(len(self._chosen), 'episode')}, {acts}{under} ..."
        )
        if kind == "policy":
            return play_policy(asked, code, self._side(whose), self._keys, self._watcher)
        actions = self._actions(whose)
        if kind == "states":
            same = (
                self._question().finding == "same"
            )  # then so are the leaves, and one look is enough
            begun = (
                self._play("A", "A", "A", "begin")
                if same
                else self._play(question, question, whose, "begin")
            )
            needs = leaves_of_states(begun)
            return play_actions(asked, code, actions, self._watcher, needs=needs)
        leaves = None
        if kind == "record":
            told = (each for each in self._records(asked.run) if _says_beginning(each))
            leaves = {record.number: record.first_leaves for record in told}
        return play_actions(
            asked, code, actions, self._watcher, reset_only=kind == "begin", first_leaves=leaves
        )

    def _actions(self, whose: str) -> dict[Key, Array]:
        run = self._a if whose == "A" or self._b is None else self._b
        actions = actions_of(run, self._records(run))
        if not actions:
            raise NotPlayed(f"{whose} has no recorded actions of these episodes")
        return actions

    def _records(self, run: Run) -> list[EpisodeRecord]:
        wanted = set(self._keys)
        return [r for r in run.records() if (r.task, r.episode) in wanted and r.error is None]

    # What is played

    def _beginning(self, *, moved: bool) -> Layer:
        if not moved:
            return Layer("first observation", "same", "both runs have the same code and packages")
        if not self._chosen:
            return not_checked("first observation", "A has no episode that was played to its end")
        if self._elsewhere is not None:
            return self._beginning_of_record(self._elsewhere)
        try:
            one = self._play("A", "A", "A", "begin")
            other = self._play("A", "B", "A", "begin")
        except NotPlayed as why:
            return not_checked("first observation", why, self._full(why.command))
        found: list[tuple[Finding, str]] = []
        for record in self._chosen:
            key = record.task, record.episode
            found += self._compare_first(record, one.first.get(key, {}), other.first.get(key, {}))
        finding = worst([each for each, _ in found])
        told = [f"{words} ({each})" for each, words in found if each != "same"]
        details = sorted(told, key=lambda line: not line.endswith("(differs)"))
        words = self._picture_words() or ""
        if not words and finding == "differs":
            words = "the numbers of the state"
        if finding == "same":
            words = f"bit-equal in {pluralize(len(self._chosen), 'episode')}"
        return Layer("first observation", finding, _lower(words), tuple(details))

    def _compare_first(
        self, record: EpisodeRecord, a: Mapping[str, Array], b: Mapping[str, Array]
    ) -> list[tuple[Finding, str]]:
        """Compare what an episode begins with; keep its pictures."""
        name = f"{record.task}:{record.episode}"
        states = [{p: v for p, v in each.items() if not is_picture(v)} for each in (a, b)]
        finding, words = compare_first_states(*states)
        found = [(finding, f"{name} {words}")]
        for path in a:
            if is_picture(a[path]) and is_picture(b.get(path)):
                where = record.suite, record.task, record.episode, path
                picture = PictureDifference(*where, a[path], b[path])
                self._pictures.append(picture)
                found.append((picture.finding, f"{name} {path} {picture.words}"))
        return found

    def _picture_words(self) -> str | None:
        """How pictures differ, in a few words: where, and by how much at most."""
        differing = [each for each in self._pictures if each.finding == "differs"]
        if not differing:
            return None
        where = _where(differing, self._pictures)
        most = max(differing, key=lambda each: each.mean)
        if most.alike and abs(most.brighter) >= 1 and "levels" in most.words:
            shade = "brighter" if most.brighter > 0 else "darker"
            return f"Pictures differ in {where}: up to {abs(most.brighter):.0f} levels {shade}"
        return f"Pictures differ in {where}: {most.words}"

    def _physics(self, *, moved: bool) -> Layer:
        if not self._chosen:
            return not_checked("physics", "A has no episode that was played to its end")
        if not moved:
            return self._repeat()
        if self._elsewhere is not None:
            return self._physics_of_record(self._elsewhere)
        found: list[Divergence] = []
        try:
            for whose, other in (("A", "B"), ("B", "A")):
                if whose == "B" and (self._b is None or not self._records(self._b)):
                    continue
                one = self._play(whose, whose, whose, "states")
                if whose == "A" and (problems := self._unrepeated(one)):
                    return self._not_as_recorded(problems)
                two = self._play(whose, other, whose, "states")
                found += [
                    find_divergence(
                        (*key, whose),
                        *((one.states[key], two.states[key]) if whose == "A"
                          else (two.states[key], one.states[key])),
                        (one.steps[key], two.steps[key]),
                    )
                    for key in one.states
                    if key in two.states
                ]  # fmt: skip
        except NotPlayed as why:
            return not_checked("physics", why, self._full(why.command))
        self._divergences += found
        finding = worst([each.finding for each in found])
        differing = [each for each in found if each.finding == "differs"]
        words = f"of {pluralize(len(found), 'replayed episode')} none parts beyond rounding"
        if finding == "same":
            words = f"bit-equal in {pluralize(len(found), 'replayed episode')}"
        if differing:
            first = min(differing, key=lambda each: each.apart or each.reward or each.success or 0)
            counted = f"in {len(differing)} of {pluralize(len(found), 'replayed episode')}"
            words = f"{counted}, first {first.task}:{first.episode}, {first.words}"
            if all(each.reward is None and each.success is None for each in found):
                words += "; rewards and successes are the same"
        found.sort(key=lambda each: each.finding != "differs")
        details = [f"{d.task}:{d.episode} with the actions of {d.whose}: {d.words}" for d in found]
        return Layer("physics", finding, words, tuple(details))

    # One of both ran on another Python: what it recorded stands for what cannot be played here

    @property
    def _elsewhere(self) -> str | None:
        """The one of both that ran on another Python than this; None: neither, or both."""
        if self._b is None:
            return None
        names = [n for n, r in (("A", self._a), ("B", self._b)) if is_of_another_python(r.run_info)]
        return names[0] if len(names) == 1 else None

    def _beginning_of_record(self, name: str) -> Layer:
        other = "B" if name == "A" else "A"
        try:
            played = self._play(name, other, name, "record")
        except NotPlayed as why:
            return not_checked("first observation", why, self._full(why.command))
        found = [
            begins_as_recorded(record, played.records[record.task, record.episode])
            for record in self._records(self._side(name).run)
            if _says_beginning(record) and (record.task, record.episode) in played.records
        ]
        count = pluralize(len(found), "episode")
        if not found:
            reason = f"{name} ran on another Python and has recorded nothing of it"
            return not_checked("first observation", reason)
        if all(found):
            words = f"by its hash that {name} has recorded, in {count}"
            return Layer("first observation", "same", words)
        reason = (
            f"{name} ran on another Python and has recorded its hash only, which is another one "
            f"under the versions of {other} in {found.count(False)} of {count}"
        )
        return not_checked("first observation", reason)

    def _physics_of_record(self, name: str) -> Layer:
        other = "B" if name == "A" else "A"
        try:
            played = self._play(name, other, name, "record")
        except NotPlayed as why:
            return not_checked("physics", why, self._full(why.command))
        run = self._side(name).run
        found = self._judge(run, self._records(run), played)
        count = pluralize(len(found), "episode")
        told = [each for each in found if each.verdict != "identical"]
        told.sort(key=lambda each: ORDER.index(each.verdict))
        details = tuple(f"{each.task}:{each.episode} {each.reason}" for each in told)
        words = f"the actions of {name} score under the versions of {other}"
        if not told:
            return Layer("physics", "same", f"{words} as {name} has recorded, in {count}")
        differing = [each for each in told if each.verdict != "equivalent"]
        if not differing:
            words = f"{words} as {name} has recorded but for last digits, in {count}"
            return Layer("physics", "same to rounding", words, details)
        words = f"{words} otherwise than {name} has recorded, in {len(differing)} of {count}"
        return Layer("physics", "differs", words, details)

    def _repeat(self) -> Layer:
        """With the same versions: whether the recorded actions score as recorded here."""
        try:
            played = self._play("A", "A", "A", "run")
        except NotPlayed as why:
            return not_checked("physics", why, self._full(why.command))
        details = self._unrepeated(played)
        if details:
            return self._not_as_recorded(details)
        count = pluralize(len(played.records), "episode")
        return Layer("physics", "same", f"A's actions score as recorded in {count}")

    def _not_as_recorded(self, details: Sequence[str]) -> Layer:
        words = "A's own actions do not score as recorded on this machine"
        command = shlex.join(["envhub", "verify", str(self._a.directory)])
        return Layer("physics", "differs", words, tuple(details), command)

    def _unrepeated(self, played: Played) -> list[str]:
        """Say in which episodes A's actions do not score as recorded, under its own versions."""
        return [
            f"{each.task}:{each.episode} {each.reason}"
            for each in self._judge(self._a, self._chosen, played)
            if each.verdict not in ("identical", "equivalent")
        ]

    def _judge(self, run: Run, records: Sequence[EpisodeRecord], played: Played) -> list[Verdict]:
        """Judge how a run's actions score, by its records; what they began with is left out."""
        found = []
        for record in records:
            key = record.task, record.episode
            if key in played.records:
                stored = read_arrays(run.directory, record.number).steps
                recorded = replace(record, first_observation=None)
                found.append(judge(recorded, played.records[key], stored, played.steps[key]))
        return found

    def _policy(self, *, direct: bool) -> Layer:
        if self._b is None:
            return Layer("policy", "same", "it is one run")
        declared = declared_differences(self._a.run_info, self._b.run_info)
        shared = _shared(self._a, self._b)
        if direct and shared:
            return self._judge_policy(_recorded_actions(self._a, self._b, shared), declared)
        if not self._chosen:
            return not_checked("policy", "A has no episode that was played to its end")
        try:
            setting = "B" if self._elsewhere == "A" else "A"
            one = self._play("A", setting, "A", "policy")
            self._check_random()
            other = self._play("A", setting, "B", "policy")
        except NotPlayed as why:
            layer = not_checked("policy", why, self._full(why.command))
            return with_notes(layer, [f"run.json: {each}" for each in declared])
        found = [
            compare_actions(key, one.actions[key], other.actions[key])
            for key in one.actions
            if key in other.actions
        ]
        return self._judge_policy(found, declared)

    def _full(self, command: str | None) -> str | None:
        """Return the whole command, of one or of what is to be added to this one."""
        if command is not None and command.endswith(" -m"):
            return f"{command} {self._command}"
        if command is None or not command.startswith("--"):
            return command
        alone = shlex.join(["envhub", "explain", str(self._a.directory)])
        return f"{alone if command.startswith('--versions') else self._command} {command}"

    def _check_random(self) -> None:
        for run, name in ((self._a, "A"), (self._b, "B")):
            if run is not None and not run.run_info.reproducible:
                raise NotPlayed(f"the policy of {name} draws random numbers that no seed reaches")

    def _judge_policy(self, found: Sequence[ActionDifference], declared: Sequence[str]) -> Layer:
        finding = worst([each.finding for each in found])
        details = [f"run.json: {each}" for each in declared]
        episodes = pluralize(len(found), "episode")
        if finding == "same":
            return Layer("policy", "same", f"the same actions in {episodes}", tuple(details))
        try:
            self._check_random()
        except NotPlayed as why:
            return with_notes(not_checked("policy", why), details)
        if all(each.may_grow for each in found) and all(d.startswith("the rows") for d in declared):
            finding = "same to rounding"
        told = [each for each in found if each.finding == finding] or found
        first = min(told, key=lambda each: each.apart or each.first or 0)
        if finding == "same to rounding":
            words = f"{first.task}:{first.episode}, {first.words}"
        else:
            cause = f" ({'; '.join(declared)})" if declared else ""
            words = f"{first.words} of {first.task}:{first.episode}, having seen the same{cause}"
        details += [f"{each.task}:{each.episode} {each.words}" for each in found[:_SHOWN]]
        return Layer("policy", finding, words, tuple(details))


_SHOWN = 20


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


def _shared(a: Run, b: Run) -> list[tuple[EpisodeRecord, EpisodeRecord]]:
    """Return the episodes that both played to their end, from the same beginning."""
    others = {(r.task, r.episode, r.seed, r.init_state): r for r in b.records() if r.error is None}
    return [
        (record, others[key])
        for record in a.records()
        if record.error is None
        and (key := (record.task, record.episode, record.seed, record.init_state)) in others
    ]


def _recorded_actions(
    a: Run, b: Run, shared: Sequence[tuple[EpisodeRecord, EpisodeRecord]]
) -> list[ActionDifference]:
    return [
        compare_actions(
            (one.task, one.episode),
            read_arrays(a.directory, one.number).actions,
            read_arrays(b.directory, other.number).actions,
        )
        for one, other in shared
    ]


def _says_beginning(record: EpisodeRecord) -> bool:
    """Whether a record has a hash of an observation, not only of what was drawn."""
    return record.first_observation is not None and record.first_leaves != ()


def _named(text: str) -> str:
    return Requirement(text).name


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _where(differing: Sequence[PictureDifference], every: Sequence[PictureDifference]) -> str:
    """Name suites in which every task differs, else tasks."""
    tasks = list(dict.fromkeys(each.task for each in differing))
    suites = list(dict.fromkeys(each.suite for each in differing))
    whole = {each.task for each in every if each.suite in suites} == set(tasks)
    others = {each.suite for each in every} != set(suites)
    if whole and others:
        return ", ".join(suites)
    if len(tasks) == len({each.task for each in every}) > 1:
        return "both tasks" if len(tasks) == 2 else f"all {len(tasks)} tasks"
    return tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
