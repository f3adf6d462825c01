"""Explain why two results differ: walk down the layers, and name the first that differs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from envhub.errors import EnvHubError, UsageError
from envhub.evaluation.again import NotPlayed
from envhub.evaluation.judge import compare_machines
from envhub.evaluation.request import Watcher
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.sample import ExplainRequest, Sample
from envhub.evaluation.worlds import Worlds
from envhub.options import OtherVersions
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.differences import ActionDifference, compare_actions, worst
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
        return _Walk(Sample(first, None, request, options, watcher)).explain()
    second = _open(b)
    names = [run.run_info.benchmark.name for run in (first, second)]
    if names[0] != names[1]:
        raise UsageError(
            f"A is a run of {names[0]} and B one of {names[1]}: explain compares runs of one "
            "benchmark."
        )
    return _Walk(Sample(first, second, request, options, watcher)).explain()


def _open(directory: Path) -> Run:
    check_directory(directory)
    return open_run(directory).keep_records()


class _Walk:
    """One walk down the layers."""

    def __init__(self, sample: Sample) -> None:
        self._sample, self._worlds = sample, Worlds(sample)
        self._a, self._b = sample.a, sample.b
        self._pins: str | None = None

    def explain(self) -> Explanation:
        """Walk down the layers."""
        if self._b is None:
            self._build()
        question, versions = self._question(), self._versions()
        moved = versions.finding == "differs" and self._sample.moves_env()
        beginning = self._worlds.beginning(moved=moved)
        physics = self._worlds.physics(moved=moved)
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
            versions=dict(self._sample.request.versions),
            verdict=conclude(layers, self._cause(), self._worlds.picture_words()),
            layers=tuple(layers),
            pictures=tuple(self._worlds.pictures),
            divergences=tuple(self._worlds.divergences),
            pins=self._pins,
            episodes=tuple(f"{task}:{index}" for task, index in self._sample.keys),
        )

    def _build(self) -> None:
        """Build the versions that were asked for.

        Raises:
            EnvHubError: They cannot be built, or A's own cannot.
        """
        if not self._sample.chosen:
            raise UsageError(f"{self._a.directory} has no episode that was played to its end.")
        try:
            played = self._sample.play("A", "A", "A", "begin")
            request = self._sample.side("B").request
            choice = request.options.runtime
            assert isinstance(choice, OtherVersions)
            source = find_source(request.ref, request.options, message=self._sample.watcher.message)
            self._pins = other_pins(source, played.benchmark, choice)[1].text()
            self._sample.play("A", "B", "A", "begin")
        except NotPlayed as why:
            if isinstance(why.__cause__, EnvHubError):
                raise why.__cause__ from None
            advice = f" The command: {why.command}" if why.command else ""
            raise UsageError(f"Nothing was played, because {why}.{advice}") from None

    def _question(self) -> Layer:
        if self._b is None:
            return Layer("question", "same", "it is one run")
        return compare_questions(self._a.run_info, self._b.run_info)

    def _versions(self) -> Layer:
        if self._b is None:
            there = self._sample.play("A", "B", "A", "begin").info.runtime.packages
            found = {**there, **self._sample.request.versions}
            differing = [
                name
                for name, version in found.items()
                if name in self._sample.request.versions or version != self._packages.get(name)
            ]
            words = [f"{name} {self._packages.get(name, 'as locked')} in A, {found[name]} there"
                     for name in differing]  # fmt: skip
            return Layer("versions", "differs", "; ".join(words))
        machine = list(compare_machines(self._a.run_info, self._b.run_info, sides=("in A", "in B")))
        return compare_versions(self._a.run_info, self._b.run_info, machine)

    @property
    def _packages(self) -> Mapping[str, str]:
        return self._a.run_info.runtime.packages

    def _cause(self) -> str:
        """What differs in the versions, in a few words; those that are known to matter first."""
        if self._b is None:
            return ", ".join(f"{name} {v}" for name, v in self._sample.request.versions.items())
        packages = self._b.run_info.runtime.packages
        differing = [n for n, v in packages.items() if self._packages.get(n) != v]
        noted = [
            name
            for name in differing
            if any(_named(n) == name for n in self._sample.version_notes())
        ]
        if not differing and self._sample.elsewhere is None:
            one, other = (r.run_info.benchmark.counted_files for r in (self._a, self._b))
            changed = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
            return f"another {', '.join(changed[:3])}" if changed else ""
        python = [f"Python {self._b.run_info.runtime.python}"] if self._sample.elsewhere else []
        return ", ".join([*(f"{n} {packages[n]}" for n in (noted or differing)[:3]), *python])

    def _with_notes(self, layer: Layer) -> Layer:
        """Add what the plugin says of a version that only one of both has."""
        if self._b is None:
            others = {**self._packages, **self._sample.request.versions}
        else:
            others = dict(self._b.run_info.runtime.packages)
        told = []
        for text, note in self._sample.version_notes().items():
            name, fits = _named(text), Requirement(text).specifier
            found = [v is not None and fits.contains(v, prereleases=True)
                     for v in (self._packages.get(name), others.get(name))]  # fmt: skip
            if found[0] != found[1]:
                version = (self._packages if found[0] else others)[name]
                told.append(f"{name} {version} {note}")
        return with_notes(layer, told)

    def _policy(self, *, direct: bool) -> Layer:
        if self._b is None:
            return Layer("policy", "same", "it is one run")
        declared = declared_differences(self._a.run_info, self._b.run_info)
        shared = _shared(self._a, self._b)
        if direct and shared:
            return self._judge_policy(_recorded_actions(self._a, self._b, shared), declared)
        if not self._sample.chosen:
            return not_checked("policy", "A has no episode that was played to its end")
        try:
            setting = "B" if self._sample.elsewhere == "A" else "A"
            one = self._sample.play("A", setting, "A", "policy")
            self._sample.check_random()
            other = self._sample.play("A", setting, "B", "policy")
        except NotPlayed as why:
            layer = not_checked("policy", why, self._sample.full_command(why.command))
            return with_notes(layer, [f"run.json: {each}" for each in declared])
        found = [
            compare_actions(key, one.actions[key], other.actions[key])
            for key in one.actions
            if key in other.actions
        ]
        return self._judge_policy(found, declared)

    def _judge_policy(self, found: Sequence[ActionDifference], declared: Sequence[str]) -> Layer:
        finding = worst([each.finding for each in found])
        details = [f"run.json: {each}" for each in declared]
        episodes = pluralize(len(found), "episode")
        if finding == "same":
            return Layer("policy", "same", f"the same actions in {episodes}", tuple(details))
        try:
            self._sample.check_random()
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


def _named(text: str) -> str:
    return Requirement(text).name
