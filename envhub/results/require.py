"""Requirements on a run's results, such as `rate>=0.9`: a gate for CI. Pure."""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from envhub.errors import UnknownName, UsageError
from envhub.results.summary import Line, Summary

FIELDS = (
    "rate", "ci_low", "ci_high", "ci_low_tasks", "ci_high_tasks", "rate_worst", "rate_best",
    "successes", "n", "n_tasks", "errors", "policy_errors", "mean_return", "mean_steps",
)  # fmt: skip
"""What can be required; the fields of `summary.json`. Rates are fractions."""

_UNCERTAIN = frozenset({
    "rate", "ci_low", "ci_high", "ci_low_tasks", "ci_high_tasks", "successes",
})  # fmt: skip
"""What episodes without a result would change."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"(?:(?P<name>.+)\.)?(?P<field>\w+)\s*(?P<sign>>=|<=|==|>|<)\s*(?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement."""

    text: str
    """As it was written."""
    name: str | None
    """A suite or a task; None: overall."""
    field: str
    sign: str
    value: float

    def failure(self, summary: Summary, *cases: Summary) -> str | None:
        """Return what is wrong; None if the results meet the requirement.

        Args:
            summary: The results.
            *cases: What they would be if the episodes without a result had failed, or succeeded.

        Raises:
            UnknownName: There is no such suite or task.
        """
        found = getattr(_line(summary, self.name), self.field)
        if found is None:
            return f"{self.text} is not met: there is no {self.field}."
        if not self._met(found):
            return f"{self.text} is not met: it is {found:.6g}."
        for case in cases if self.field in _UNCERTAIN else ():
            could_be = getattr(_line(case, self.name), self.field)
            if could_be is not None and not self._met(could_be):
                return (
                    f"{self.text} is not shown: it is {found:.6g} so far, and can become "
                    f"{could_be:.6g} with the episodes that have no result."
                )
        return None

    def _met(self, found: float) -> bool:
        return _COMPARE[self.sign](found, self.value)


def parse_requirement(text: str) -> Requirement:
    """Read a requirement: `FIELD>=NUMBER`, or `SUITE.FIELD>=NUMBER`, or with a task.

    Raises:
        UsageError: It is written otherwise, or the value is not a number.
        UnknownName: There is no such field; suggests similar ones.
    """
    match = _FORM.fullmatch(text.strip())
    try:
        value = float(match["value"]) if match else None
    except ValueError:
        value = None
    if match is None or value is None or value != value:
        raise UsageError(
            f"--require {text!r} is not understood. Write it like 'rate>=0.9' or "
            "'SUITE.ci_low>=0.8'; rates are fractions."
        )
    if match["field"] not in FIELDS:
        raise UnknownName("field of a summary", match["field"], FIELDS)
    return Requirement(text.strip(), match["name"], match["field"], match["sign"], value)


def failures(requirements: Iterable[Requirement], summary: Summary, *cases: Summary) -> list[str]:
    """Return what is wrong with results: a sentence for each requirement that is not met.

    Args:
        requirements: The requirements.
        summary: The results.
        *cases: What they would be if the episodes without a result had failed, or succeeded.
    """
    return [said for each in requirements if (said := each.failure(summary, *cases)) is not None]


def check_names(requirements: Iterable[Requirement], suites: Mapping[str, Iterable[str]]) -> None:
    """Refuse requirements on what an evaluation does not have, before it is played.

    Args:
        requirements: The requirements.
        suites: The names of the tasks that are to be played, by suite.

    Raises:
        UnknownName: There is no such suite or task.
    """
    pairs = [(suite, task) for suite, tasks in suites.items() for task in tasks]
    names = {*suites, *(task for _, task in pairs), *(f"{suite}/{task}" for suite, task in pairs)}
    for each in requirements:
        if each.name is not None:
            _check_name(each.name, names)


def _line(summary: Summary, name: str | None) -> Line:
    if name is None:
        return summary.overall
    lines = {f"{line.suite}/{line.task}": line for line in summary.tasks}
    lines |= {str(line.task): line for line in summary.tasks}
    lines |= {str(line.suite): line for line in summary.suites}
    _check_name(name, lines)
    return lines[name]


def _check_name(name: str, names: Collection[str]) -> None:
    if name not in names:
        raise UnknownName("suite or task", name, [each for each in names if "/" not in each])
