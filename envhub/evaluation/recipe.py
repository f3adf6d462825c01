"""A recipe: what somebody claims of a policy, and how to repeat it. Pure.

A recipe is data of a stranger. It says what to run by names only, and agrees to nothing: no field
of it reaches the options about code, sandboxes, tokens or variables.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from math import ceil, floor
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from envhub.declarations import MAX_HORIZON
from envhub.errors import UsageError, one_line
from envhub.options import Argument
from envhub.run_info import Episodes, Name
from envhub.values import find_value_problem

MAX_BYTES = 256 * 1024
_MOST_CLAIMS = 1000
_MOST_DIGITS = 12

Text = Annotated[str, Meta(max_length=2000)]
Short = Annotated[str, Meta(max_length=300)]
Horizon = Annotated[int, Meta(ge=1, le=MAX_HORIZON)]
Said = str | bool | int | float
"""What a claim says of its own protocol."""

Path = tuple[str | int, ...]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a recipe. An empty text means that it is not known."""


class CheckpointPart(Part, frozen=True, kw_only=True):
    """A checkpoint of LeRobot on the Hub; data, which nobody has to agree to."""

    repo: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z", max_length=200)]
    commit: Annotated[str, Meta(pattern=r"^([0-9a-f]{40})?\Z")] = ""
    type: Short = ""
    lerobot: Short = ""
    """The versions that can run it, as in `>=0.4.4`."""
    models: dict[str, str] = {}
    """The commits of the repositories that it names itself."""


class RunPart(Part, frozen=True, kw_only=True):
    """The benchmark and the protocol."""

    benchmark: Annotated[str, Meta(min_length=1, max_length=500)]
    episodes: Episodes
    """Per task."""
    suites: list[Name] = []
    tasks: list[Short] = []
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    seeding: Literal["shared", "task"] | None = None
    env: dict[str, Argument] = {}
    max_steps: Horizon | dict[Name, Horizon] | None = None
    """Of every task, or by suite."""


class Source(Part, frozen=True, kw_only=True, rename={"protocol": "with"}):
    """Where the claims stand."""

    url: Text = ""
    by: Text = ""
    protocol: dict[str, Said] = {}


class Claim(Part, frozen=True, kw_only=True, rename={"protocol": "with"}):
    """A rate that somebody says a suite has."""

    suite: Name
    episodes: Episodes | None = None
    """In all; None: nobody says."""
    successes: Annotated[int, Meta(ge=0)] | None = None
    rate: Decimal | None = None
    """A fraction, as it is written."""
    judged: bool = True
    source: Text = ""
    by: Text = ""
    protocol: dict[str, Said] = {}

    @property
    def share(self) -> float:
        """The claimed rate."""
        if self.successes is not None and self.episodes is not None:
            return self.successes / self.episodes
        return float(self.rate or 0)

    @property
    def tally(self) -> tuple[int, int] | None:
        """Successes and episodes; None if it does not say them, or they cannot be."""
        if self.episodes is None or self.problem is not None:
            return None
        if self.successes is not None:
            return self.successes, self.episodes
        assert self.rate is not None
        return round(self.rate * self.episodes), self.episodes

    @property
    def problem(self) -> str | None:
        """Why no number of successes gives the claimed rate; None if one does."""
        if self.rate is None or self.episodes is None:
            return None
        exact, n = self.rate * self.episodes, self.episodes
        if self.successes is not None:
            if _rounds_to(self.successes, n, self.rate):
                return None
            return (
                f"says {self.successes} of {n} and {self.rate:%}, and {self.successes} of {n} are "
                f"{100 * self.successes / n:.4g}%"
            )
        near = {floor(exact), ceil(exact)}
        if any(_rounds_to(k, n, self.rate) for k in near):
            return None
        known = " and ".join(f"{k} are {100 * k / n:.4g}%" for k in sorted(near))
        return f"says {self.rate:%} of {n} episodes, which no number of successes gives: {known}"


class Limits(Part, frozen=True, kw_only=True):
    """What is known about the recipe itself."""

    tested: Text = ""
    envhub: Text = ""


class Recipe(Part, frozen=True, kw_only=True):
    """A claim and how to repeat it."""

    format: Literal[1]
    title: Short
    run: RunPart
    claims: list[Claim]
    checkpoint: CheckpointPart | None = None
    policy: dict[str, Any] = {}
    """Arguments of the policy, and two names of its own: `ref` and `config`."""
    source: Source = Source()
    differences: dict[str, Text] = {}
    """How the claim's protocol is known to differ, in words."""
    limits: Limits = Limits()

    @property
    def policy_ref(self) -> str:
        """The policy, as `--policy` names it."""
        if self.checkpoint is None:
            return str(self.policy.get("ref", ""))
        at = f"@{self.checkpoint.commit}" if self.checkpoint.commit else ""
        return f"lerobot:{self.checkpoint.repo}{at}"

    @property
    def policy_args(self) -> dict[str, Argument]:
        """The arguments of the policy that are known."""
        args = {
            name: value
            for name, value in self.policy.items()
            if name not in ("ref", "config") and value != ""
        }
        models = self.checkpoint.models if self.checkpoint is not None else {}
        pinned = [f"{name}@{commit}" for name, commit in models.items() if commit]
        return {**args, **({"models": ",".join(pinned)} if pinned else {})}

    @property
    def config(self) -> tuple[str, ...]:
        """The fields of the checkpoint's `config.json` that the claim's command replaced."""
        return tuple(self.policy.get("config", {}))


def parse_recipe(text: str, name: str) -> Recipe:
    """Return the recipe that a file holds.

    Args:
        text: Its content.
        name: Of the file, for errors.

    Raises:
        UsageError: It is no recipe; the text says the line.
    """
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise UsageError(f"{name} is not TOML: {one_line(str(exc))}.") from exc
    for path, known in _unknown_keys(content):
        raise _at(text, path, name, _describe_unknown(path, known))
    try:
        recipe = msgspec.convert(_without_decimals(content), Recipe)
    except msgspec.ValidationError as exc:
        said, _, where = str(exc).partition(" - at `$")
        path = _path_of(where.rstrip("`"))
        raise _at(
            text, path, name, f"{_dotted(path)}: {one_line(said[:1].lower() + said[1:])}."
        ) from exc
    for path, problem in _find_problems(recipe):
        raise _at(text, path, name, problem)
    return recipe


def _find_problems(recipe: Recipe) -> Iterator[tuple[Path, str]]:
    """Name what types cannot say, with its place."""
    if recipe.checkpoint is None and not recipe.policy_ref:
        yield (
            ("policy",),
            "it names no policy: write repo in [checkpoint], or ref in [policy]",
        )
    if recipe.checkpoint is not None and "ref" in recipe.policy:
        yield ("policy", "ref"), "policy.ref: [checkpoint] names the policy already"
    if recipe.checkpoint is not None and "models" in recipe.policy:
        yield ("policy", "models"), "policy.models: models belong to [checkpoint]"
    if not isinstance(recipe.policy.get("ref", ""), str):
        yield ("policy", "ref"), "policy.ref: expected a text"
    if not isinstance(recipe.policy.get("config", {}), dict):
        yield ("policy", "config"), "policy.config: expected a table"
    for table, values in (("policy", recipe.policy), ("run.env", recipe.run.env)):
        for key, value in values.items():
            if (problem := find_value_problem(value)) is not None:
                yield (*table.split("."), key), f"{table}.{key} {problem}"
            elif not key.isidentifier():
                yield (*table.split("."), key), f"{table}: {key!r} is not the name of an argument"
    if not recipe.claims or len(recipe.claims) > _MOST_CLAIMS:
        yield ("claims",), f"it has {len(recipe.claims)} claims; 1 to {_MOST_CLAIMS} are possible"
    for number, claim in enumerate(recipe.claims):
        yield from _problems_of_claim(claim, ("claims", number))


def _problems_of_claim(claim: Claim, path: Path) -> Iterator[tuple[Path, str]]:
    if claim.rate is None and (claim.successes is None or claim.episodes is None):
        yield path, f"{_dotted(path)} needs successes and episodes, or rate"
    if claim.rate is not None and not (claim.rate.is_finite() and 0 <= claim.rate <= 1):
        yield (*path, "rate"), f"rates are fractions from 0 to 1, found {claim.rate}"
    elif claim.rate is not None and claim.rate != round(claim.rate, _MOST_DIGITS):
        yield (*path, "rate"), f"rate has more than {_MOST_DIGITS} digits"
    if None not in (claim.successes, claim.episodes) and claim.successes > claim.episodes:  # type: ignore[operator]
        yield (
            (*path, "successes"),
            f"{claim.successes} of {claim.episodes} episodes cannot have succeeded",
        )


def _rounds_to(successes: int, n: int, rate: Decimal) -> bool:
    """Whether so many successes are the rate, as precisely as it is written."""
    exponent = rate.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(Decimal(successes) / n - rate) <= Decimal(1).scaleb(min(exponent, 0)) / 2


def _without_decimals(content: Any, key: str = "") -> Any:
    """Return the content with plain numbers, but for rates, whose digits count."""
    match content:
        case dict():
            return {name: _without_decimals(value, name) for name, value in content.items()}
        case list():
            return [_without_decimals(value, key) for value in content]
        case Decimal() if key != "rate":
            return float(content)
        case int() if key == "rate" and not isinstance(content, bool):
            return Decimal(content)
    return content


def _unknown_keys(content: Mapping[str, Any]) -> Iterator[tuple[Path, list[str]]]:
    """Find keys that a table does not have, with those that it has."""
    parts: dict[str, type[Struct]] = {
        "checkpoint": CheckpointPart, "run": RunPart, "source": Source, "limits": Limits,
    }  # fmt: skip
    tables: list[tuple[Path, Any, type[Struct]]] = [((), content, Recipe)]
    tables += [((name,), content.get(name), part) for name, part in parts.items()]
    claims = content.get("claims")
    if isinstance(claims, list):
        tables += [(("claims", n), claim, Claim) for n, claim in enumerate(claims)]
    for path, table, part in tables:
        known = [field.encode_name for field in msgspec.structs.fields(part)]
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                yield (*path, key), known


def _describe_unknown(path: Path, known: Iterable[str]) -> str:
    key, table = str(path[-1]), _dotted(path[:-1])
    near = get_close_matches(key, list(known), 1, 0.6)
    meant = f"Did you mean {near[0]!r}?" if near else f"Available: {', '.join(known)}."
    return f"{f'[{table}]' if table else 'a recipe'} has no key {key!r}. {meant}"


def _path_of(text: str) -> Path:
    """Return the path in an error of msgspec, such as `.claims[0].rate`; `[...]` is a key."""
    found = re.findall(r"\.([A-Za-z_]\w*)|\[(\d+)\]", text)
    return tuple(name or int(index) for name, index in found)


def _dotted(path: Path) -> str:
    """Return the path as TOML writes it; the claims are counted from 1."""
    words = [f" {part + 1}" if isinstance(part, int) else f".{part}" for part in path]
    return one_line("".join(words).removeprefix("."))[:100]


def _at(text: str, path: Path, name: str, problem: str) -> UsageError:
    line = _line_of(text, path)
    end = "" if problem.endswith((".", "?", "...")) else "."
    return UsageError(f"{name}, line {line}: {one_line(problem)}{end}")


_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"\s*{_KEY}(?:\s*\.\s*{_KEY})*\s*"
_HEADER = re.compile(rf"\s*(\[\[?)({_DOTTED})\]")
_ASSIGNED = re.compile(rf"({_DOTTED})=")


def _line_of(text: str, path: Path) -> int:
    """Return the line that says the most of a path; of a key inside a line, that line."""
    table: Path = ()
    counts: dict[str, int] = {}
    best, line_of_best = 0, 1
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _keys(header[2])
            if header[1] == "[[":
                counts[str(table[0])] = counts.get(str(table[0]), -1) + 1
                table = (*table, counts[str(table[0])])
            here = table
        elif assigned := _ASSIGNED.match(line):
            here = (*table, *_keys(assigned[1]))
        else:
            continue
        shared = len(here) if here == path[: len(here)] else 0
        if shared > best:
            best, line_of_best = shared, number
    return line_of_best


def _keys(dotted: str) -> Path:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, dotted))
