"""The file that describes an experiment: policies, benchmarks and seeds, with their options. Pure.

    baseline = "released"                    the policy that the others are compared with
    seeds = [0, 1, 2]
    overlap = true                           whether the next cell may begin before one has ended

    [options]                                of every cell, named as the options of `envhub eval`
    episodes = 50

    [policies.released]                      a row of the matrix
    policy = "lerobot:owner/policy@<commit>"

    [benchmarks.walk]                        a column of it
    ref = "./walk"
    tasks = ["near", "far"]

A policy's own option comes before the benchmark's, and this before the one for all. The file gives
no consent: what is trusted, and how it is confined, is said on the command line alone.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from envhub.arguments import MAX_PROCESSES, check_instructions, check_values
from envhub.errors import UsageError
from envhub.run_info import Episodes, Positive
from envhub.seeding import Seeding

MAX_CELLS = 10_000
MOST_NAME = 60
"""Characters of a name."""

_Seed = Annotated[int, Meta(ge=0, le=2**62)]
_Names = list[Annotated[str, Meta(min_length=1)]]
_Texts = dict[str, str | Annotated[list[str], Meta(min_length=1)]]
_Seconds = Annotated[float, Meta(gt=0, lt=1e9)]


class Options(Struct, frozen=True, kw_only=True):
    """The options of `envhub eval` that a cell can have."""

    suites: _Names | UnsetType = UNSET
    tasks: _Names | UnsetType = UNSET
    episodes: Episodes | UnsetType = UNSET
    seeding: Seeding | UnsetType = UNSET
    max_steps: Positive | UnsetType = UNSET
    instructions: _Texts | UnsetType = UNSET
    latency: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    perturb: dict[str, float | _Texts] | UnsetType = UNSET
    env_args: dict[str, Any] | UnsetType = UNSET
    timeout: dict[str, _Seconds] | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    max_errors: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    runtime: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    policy_args: dict[str, Any] | UnsetType = UNSET
    policy_python: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    policy_processes: Annotated[int, Meta(ge=1, le=MAX_PROCESSES)] | UnsetType = UNSET
    ignore_conventions: bool | UnsetType = UNSET


class Policy(Options, frozen=True, kw_only=True):
    """A row."""

    policy: Annotated[str, Meta(min_length=1)]


class Benchmark(Options, frozen=True, kw_only=True):
    """A column."""

    ref: Annotated[str, Meta(min_length=1)]


_MERGED = ("env_args", "policy_args", "timeout", "instructions", "perturb")
"""The options whose entries add up."""
_CONSENT = (
    *("trust_remote_code", "allow_unpinned", "private", "sandbox", "sandbox_allow_network"),
    *("env_var", "env_vars", "locked"),
)
_ELSEWHERE = ("workers", "out", "cache", "log", "watch", "quiet", "seed")
_TIMEOUTS = ("start", "reset", "step", "act", "close")
_SHORT = {"policies": "policy", "benchmarks": "ref"}
"""Of a table that would have this key alone, the text may stand for the table."""


class _Top(Struct, frozen=True, kw_only=True):
    """What stands outside of the tables."""

    baseline: str | None = None
    seeds: Annotated[list[_Seed], Meta(min_length=1)] = msgspec.field(default_factory=lambda: [0])
    overlap: bool = True
    options: dict[str, Any] = {}
    policies: dict[str, Any]
    benchmarks: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What an experiment asks."""

    baseline: str | None
    seeds: tuple[int, ...]
    overlap: bool
    options: Options
    policies: Mapping[str, Policy]
    benchmarks: Mapping[str, Benchmark]

    def of_cell(self, policy: str, benchmark: str) -> dict[str, Any]:
        """Return the options of a cell, those of its policy first."""
        found: dict[str, Any] = {}
        for part in (self.options, self.benchmarks[benchmark], self.policies[policy]):
            for name in Options.__struct_fields__:
                value = getattr(part, name)
                if value is UNSET:
                    continue
                found[name] = {**found.get(name, {}), **value} if name in _MERGED else value
        return found


def parse_experiment(text: str, place: str) -> tuple[Question, dict[str, Any]]:
    """Parse the text of an experiment.

    Args:
        text: TOML.
        place: Where it was found, for errors.

    Returns:
        What it asks, and the same as plain data.

    Raises:
        UsageError: It is no TOML, or says something else than an experiment can; names the line.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{place} is not TOML: {str(exc)[:200]}.") from exc
    return check_content(content, place, text), content


def check_content(content: Mapping[str, Any], place: str, text: str = "") -> Question:
    """Check plain data that is to be an experiment.

    Args:
        content: As TOML says it.
        place: Where it was found, for errors.
        text: The TOML, for the numbers of lines.

    Raises:
        UsageError: It says something else than an experiment can.
    """
    return _Checker(place, text).question(content)


class _Checker:
    """Says where something is wrong."""

    def __init__(self, place: str, text: str) -> None:
        self._place, self._text = place, text

    def question(self, content: Mapping[str, Any]) -> Question:
        top: _Top = self._struct(_Top, content, ())
        for table in _SHORT:
            if not getattr(top, table):
                raise self._error((table,), f"{table} is empty: name one, as in [{table}.NAME]")
        policies, benchmarks = self._tables(content)
        if top.baseline is not None and top.baseline not in policies:
            problem = f"no policy is called {top.baseline!r}{_meant(top.baseline, policies)}"
            raise self._error(("baseline",), problem)
        if len(set(top.seeds)) < len(top.seeds):
            raise self._error(("seeds",), f"{top.seeds} names a seed twice")
        count = len(policies) * len(benchmarks) * len(top.seeds)
        if count > MAX_CELLS:
            raise self._error((), f"{count:,} cells are more than {MAX_CELLS:,}")
        options: Options = self._struct(Options, top.options, ("options",))
        return Question(top.baseline, tuple(top.seeds), top.overlap, options, policies, benchmarks)

    def _tables(self, content: Mapping[str, Any]) -> tuple[dict[str, Policy], dict[str, Benchmark]]:
        found: dict[str, dict[str, Any]] = {}
        for table, kind in (("policies", Policy), ("benchmarks", Benchmark)):
            found[table] = {}
            for name, given in content[table].items():
                self._check_name(table, name)
                short = {_SHORT[table]: given} if isinstance(given, str) else given
                if not isinstance(short, dict):
                    problem = f"{name} must be a table or text, found {_shown(given)}"
                    raise self._error((table, name), problem)
                found[table][name] = self._struct(kind, short, (table, name))
        return found["policies"], found["benchmarks"]

    def _check_name(self, table: str, name: str) -> None:
        if not name.strip() or not name.isprintable() or len(name) > MOST_NAME:
            problem = f"a name has 1 to {MOST_NAME} printable characters, found {_shown(name)}"
            raise self._error((table, name), problem)

    def _struct(self, kind: type[Any], given: Any, path: tuple[str, ...]) -> Any:
        fields = get_type_hints(kind, include_extras=True)
        for name in given:
            if name not in fields:
                raise self._error((*path, name), _unknown(name, fields, bool(path)))
        for needed in (name for name in ("policy", "ref", "policies", "benchmarks")):
            if needed in fields and needed not in given:
                problem = f"{'.'.join(path) or 'the file'} has no {needed}"
                raise self._error(path, problem)
        values = {
            name: self._value(value, fields[name], (*path, name)) for name, value in given.items()
        }
        return kind(**values)

    def _value(self, value: Any, kind: Any, path: tuple[str, ...]) -> Any:
        try:
            found = msgspec.convert(value, kind)
        except msgspec.ValidationError as exc:
            said = str(exc).split(" - at ")[0].replace("`", "")
            said = said.replace(" | unset", "").replace("object", "table").replace("array", "list")
            problem = f"{path[-1]}: {said[0].lower()}{said[1:]}, found {_shown(value)}"
            raise self._error(path, problem) from exc
        try:
            self._check_value(path[-1], found)
        except UsageError as exc:
            raise self._error(path, str(exc).rstrip(".")) from exc
        return found

    def _check_value(self, name: str, value: Any) -> None:
        if name in ("env_args", "policy_args"):
            check_values(name, value)
        elif name == "instructions":
            check_instructions(name, value)
        elif name == "timeout":
            for limit in value:
                if limit not in _TIMEOUTS:
                    raise UsageError(
                        f"timeout has no {limit!r}{_meant(limit, _TIMEOUTS)}; it limits "
                        f"{', '.join(_TIMEOUTS)}."
                    )

    def _error(self, path: tuple[str, ...], problem: str) -> UsageError:
        line = find_line(self._text, path)
        at = f", line {line}" if line else ""
        return UsageError(f"{self._place}{at}: {problem}.")


def _unknown(name: str, fields: Mapping[str, object], of_cell: bool) -> str:  # noqa: FBT001
    if name in _CONSENT:
        return (
            f"{name} cannot stand in a file: what is trusted, and how it is confined, is said on "
            "the command line"
        )
    if name in _ELSEWHERE:
        where = "seeds stand above the tables, as in seeds = [0, 1]"
        return where if name == "seed" else f"{name} is an option of the command line"
    if not of_cell and name in Options.__struct_fields__:
        return f"{name} belongs in a table: [options], or that of a policy or a benchmark"
    known = ", ".join(fields)
    return f"no option is called {name!r}{_meant(name, fields) or f'; known are {known}'}"


def _meant(name: str, known: Any) -> str:
    near = get_close_matches(name, list(known), 1, 0.6)
    return f": did you mean {near[0]!r}?".rstrip("?") if near else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:\"[^\"]*\"|'[^']*'|[A-Za-z0-9_-]+|\s*\.\s*)+?)\s*=")


def find_line(text: str, path: tuple[str, ...]) -> int | None:
    """Return the number of the line that sets a key, or else what it is in; None: not found."""
    best, number = 0, None
    for line, keys in _keys(text):
        shared = 0
        for one, other in zip(keys, path, strict=False):
            if one != other:
                break
            shared += 1
        if shared == min(len(keys), len(path)) and shared > best:
            best, number = shared, line
    return number


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines that set a key or begin a table, with their keys from the top."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if (header := _HEADER.fullmatch(line)) is not None:
            table = _split(header[1])
            yield number, table
        elif (key := _KEY.match(line)) is not None:
            yield number, (*table, *_split(key[1]))


def _split(dotted: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    try:
        left: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:  # a line of a text that goes over several
        return ()
    parts: list[str] = []
    while isinstance(left, dict):
        (part,) = left
        parts.append(part)
        left = left[part]
    return tuple(parts)
