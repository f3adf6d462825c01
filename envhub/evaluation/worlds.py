"""What explain says of two worlds: what their episodes begin with, and their physics."""

import shlex
from collections.abc import Mapping, Sequence

from envhub.evaluation.again import NotPlayed, Played
from envhub.evaluation.judge import ORDER, begins_as_recorded
from envhub.evaluation.sample import Sample, says_beginning
from envhub.records import EpisodeRecord
from envhub.results.differences import (
    Divergence,
    Finding,
    PictureDifference,
    compare_first_states,
    find_divergence,
    is_picture,
    worst,
)
from envhub.results.explanation import Layer, not_checked
from envhub.text import pluralize
from envhub.wire.values import Array


class Worlds:
    """The world of A and that of B, compared by a sample."""

    def __init__(self, sample: Sample) -> None:
        """Take the sample."""
        self._sample = sample
        self._a, self._b = sample.a, sample.b
        self.pictures: list[PictureDifference] = []
        self.divergences: list[Divergence] = []

    def beginning(self, *, moved: bool) -> Layer:
        """Compare the first observations, if something differs that the benchmark runs with."""
        if not moved:
            return Layer("first observation", "same", "both runs have the same code and packages")
        if not self._sample.chosen:
            return not_checked("first observation", "A has no episode that was played to its end")
        if self._sample.elsewhere is not None:
            return self._beginning_of_record(self._sample.elsewhere)
        try:
            one = self._sample.play("A", "A", "A", "begin")
            other = self._sample.play("A", "B", "A", "begin")
        except NotPlayed as why:
            return not_checked("first observation", why, self._sample.full_command(why.command))
        found: list[tuple[Finding, str]] = []
        for record in self._sample.chosen:
            key = record.task, record.episode
            found += self._compare_first(record, one.first.get(key, {}), other.first.get(key, {}))
        finding = worst([each for each, _ in found])
        told = [f"{words} ({each})" for each, words in found if each != "same"]
        details = sorted(told, key=lambda line: not line.endswith("(differs)"))
        words = self.picture_words() or ""
        if not words and finding == "differs":
            words = "the numbers of the state"
        if finding == "same":
            words = f"bit-equal in {pluralize(len(self._sample.chosen), 'episode')}"
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
                self.pictures.append(picture)
                found.append((picture.finding, f"{name} {path} {picture.words}"))
        return found

    def picture_words(self) -> str | None:
        """How pictures differ, in a few words: where, and by how much at most."""
        differing = [each for each in self.pictures if each.finding == "differs"]
        if not differing:
            return None
        where = _where(differing, self.pictures)
        most = max(differing, key=lambda each: each.mean)
        if most.alike and abs(most.brighter) >= 1 and "levels" in most.words:
            shade = "brighter" if most.brighter > 0 else "darker"
            return f"Pictures differ in {where}: up to {abs(most.brighter):.0f} levels {shade}"
        return f"Pictures differ in {where}: {most.words}"

    def physics(self, *, moved: bool) -> Layer:
        """Compare how recorded actions go on, under the versions of A and of B."""
        if not self._sample.chosen:
            return not_checked("physics", "A has no episode that was played to its end")
        if not moved:
            return self._repeat()
        if self._sample.elsewhere is not None:
            return self._physics_of_record(self._sample.elsewhere)
        found: list[Divergence] = []
        try:
            for whose, other in (("A", "B"), ("B", "A")):
                if whose == "B" and (self._b is None or not self._sample.records(self._b)):
                    continue
                one = self._sample.play(whose, whose, whose, "states")
                if whose == "A" and (problems := self._unrepeated(one)):
                    return self._not_as_recorded(problems)
                two = self._sample.play(whose, other, whose, "states")
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
            return not_checked("physics", why, self._sample.full_command(why.command))
        self.divergences += found
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

    def _beginning_of_record(self, name: str) -> Layer:
        other = "B" if name == "A" else "A"
        try:
            played = self._sample.play(name, other, name, "record")
        except NotPlayed as why:
            return not_checked("first observation", why, self._sample.full_command(why.command))
        found = [
            begins_as_recorded(record, played.records[record.task, record.episode])
            for record in self._sample.records(self._sample.side(name).run)
            if says_beginning(record) and (record.task, record.episode) in played.records
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
            played = self._sample.play(name, other, name, "record")
        except NotPlayed as why:
            return not_checked("physics", why, self._sample.full_command(why.command))
        run = self._sample.side(name).run
        found = self._sample.judge(run, self._sample.records(run), played)
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
            played = self._sample.play("A", "A", "A", "run")
        except NotPlayed as why:
            return not_checked("physics", why, self._sample.full_command(why.command))
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
            for each in self._sample.judge(self._a, self._sample.chosen, played)
            if each.verdict not in ("identical", "equivalent")
        ]


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
