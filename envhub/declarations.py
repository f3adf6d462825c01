"""What a benchmark declares about itself: its suites, tasks and assets. Plain data only."""

import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from envhub.conventions import HZ, VALUES, Convention, find_problem
from envhub.errors import InvalidBenchmark
from envhub.values import find_value_problem, has_surrogate

Value = bool | int | float | str | None
"""The values that `Task.args` accepts."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
"""The names of benchmarks, suites, tasks and policies; used with fullmatch."""

CHANGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,._+%-]{0,39}")
"""What was changed in a suite."""

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*|:[A-Za-z_]\w*")

_PACKAGE_FILE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z0-9_][\w.-]*")

_LIMIT = r"(?:[<>!=]=|[<>])\d+(?:\.\d+)*"
_VERSIONS = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*{_LIMIT}(?:,{_LIMIT})*")

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


MAX_DESCRIPTION = 10_000
"""Characters of an instruction. The longest in use have some hundred, and every policy gets it with
every episode."""

MAX_HORIZON = 10_000_000
"""The largest horizon of a task."""

_MAX_HZ = 1_000_000


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a benchmark, with the rules of its episodes."""

    name: str
    """Unique in the benchmark; the key in `{suite: {task: ...}}`."""
    description: str
    """The instruction that a language-conditioned policy reads, of at most 10,000 characters."""
    horizon: int
    """The number of steps after which the host truncates an episode."""
    init_states: int = 0
    """If positive, episode k starts with `reset(options={"init_state": k % init_states})`."""
    success: Literal["once", "at_end", "ever"] = "once"
    """`once`: the first success ends the episode. `at_end`: the last step's success counts.
    `ever`: any step's success counts, and the env says when the episode ends."""
    args: Mapping[str, Value] = field(default_factory=dict)
    """The author's own values, e.g. the name of a scene file."""
    seeds_of: str | None = None
    """The task whose seeds this one shares, such as the first of several wordings of a scene;
    None: it has its own."""

    def __post_init__(self) -> None:
        owner = f"Task {self.name!r}"
        check_name("task", self.name)
        shown = reprlib.repr(self.description)
        _check(_is_text(self.description), owner, f"description must be plain text, found {shown}")
        _check(
            len(self.description) <= MAX_DESCRIPTION,
            owner,
            f"description must have at most {MAX_DESCRIPTION:,} characters, "
            f"found {len(self.description):,}",
        )
        _check_whole(owner, "horizon", self.horizon, 1, MAX_HORIZON)
        _check_whole(owner, "init_states", self.init_states, 0, MAX_HORIZON)
        rules = ("once", "at_end", "ever")
        _check(self.success in rules, owner, f"success must be one of {', '.join(rules)}")
        _check_args(owner, self.args)
        if self.seeds_of is not None:
            check_name("task", self.seeds_of)
        # A copy, which the author cannot change later; and msgspec encodes no other mapping.
        object.__setattr__(self, "args", dict(self.args))


@dataclass(frozen=True, slots=True)
class Asset:
    """Files that a plugin's benchmark needs and its package does not have, such as meshes."""

    name: str
    """`--env-arg NAME=DIR` names their directory, and `make` gets it as the argument of this
    name."""
    repo: str
    """The Hub dataset that has them, `owner/name`."""
    variable: str
    """The environment variable that names their directory, unless an argument does."""

    def __post_init__(self) -> None:
        owner = f"Asset {self.name!r}"
        _check(type(self.name) is str and self.name.isidentifier(), owner, "it needs a plain name")
        _check(
            type(self.repo) is str and _REPO.fullmatch(self.repo) is not None,
            owner,
            f"repo must be 'owner/name', found {self.repo!r}",
        )
        _check(
            type(self.variable) is str and _VARIABLE.fullmatch(self.variable) is not None,
            owner,
            f"variable must be the name of an environment variable, found {self.variable!r}",
        )


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named set of suites of tasks, and the code that runs them."""

    name: str
    make: str
    """`pkg.module:make`, or `:make` in the declaring file: `make(task, **env_args) -> gym.Env`."""
    suites: Mapping[str, tuple[Task, ...]]
    """A task may be in several suites."""
    default: tuple[str, ...] = ()
    """The suites of a bare `envhub eval NAME`; empty means all."""
    episodes: int = 10
    """Episodes per task, unless the user gives another number."""
    dimensions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For suites that were made from others: `{"reach_dark": ("reach", "light")}`, which one, and
    what was changed. Each task names its original by `seeds_of`. Results then have a table of how
    much success each change costs."""
    control_hz: float = 0.0
    """Actions per second of the real system; 0 if there is none."""
    hold: tuple[float, ...] | str = ()
    """The action that does nothing, as its numbers in order. `--latency` takes it until a policy's
    first action is there, and later too where the convention `control` is a change or a velocity;
    empty: zeros there, and nothing elsewhere. Or `pkg.module:hold`: `hold(**env_args)` returns
    it, where arguments change it."""
    spaces: str | None = None
    """`pkg.module:spaces`: `spaces(task, **env_args) -> (observation, action)`, without importing a
    simulator. It must return the same objects for tasks that have the same spaces. With it,
    `envhub info` and `make_env` know the spaces without a simulator."""
    lerobot: str | None = None
    """`pkg.module:convert`, runs in the worker: one raw observation -> a mapping of LeRobot's
    names, such as `observation.state`, to arrays; images uint8, height x width x channels."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """The benchmark's own policies: `{"expert": "pkg.expert:make_policy"}`."""
    runtime: str | None = None
    """`pkg:runtime.txt`, for plugins: complete, hashed pins in a file of the package. A file
    `runtime-NAME.txt` beside it is a further runtime, which `--runtime NAME` chooses."""
    version_notes: Mapping[str, str] = field(default_factory=dict)
    """For plugins: `{"mujoco>=3.4": "computes contacts in another way"}`. The user is told when the
    benchmark runs with such a version."""
    assets: tuple[Asset, ...] = ()
    """For plugins: files that the package does not have. The run records their digest."""
    memory_mb: int = 1024
    """Memory that one worker needs; `--workers auto` stays within the free memory."""
    reuse: Literal["reset", "rebuild"] = "reset"
    """`rebuild`: every episode gets a new env, for simulators whose reset is incomplete."""
    conventions: Mapping[str, str] | str = field(default_factory=dict)
    """What actions and observations mean, by the keys of `docs/conventions.md`; or
    `pkg.module:conventions`: `conventions(**env_args)` returns them, where arguments change
    them."""
    lerobot_conventions: Mapping[str, str] = field(default_factory=dict)
    """Those that are others in the observations that `lerobot` returns."""

    def __post_init__(self) -> None:
        owner = f"Benchmark {self.name!r}"
        check_name("benchmark", self.name)
        _check_suites(owner, self.suites)
        _check(isinstance(self.default, tuple), owner, "default must be a tuple of suites")
        for name in self.default:
            _check(name in self.suites, owner, f"default suite {name!r} is not among its suites")
        _check_dimensions(owner, self.dimensions, self.suites)
        _check_whole(owner, "episodes", self.episodes, 1, MAX_HORIZON)
        _check_whole(owner, "memory_mb", self.memory_mb, 1, 2**30)
        hz = self.control_hz
        _check(
            type(hz) in (int, float) and 0 <= hz <= _MAX_HZ,
            owner,
            f"control_hz must be a number from 0 to {_MAX_HZ}, found {hz!r}",
        )
        if not _is_object(self.hold):  # otherwise known once the arguments are
            check_hold(owner, self.hold)
        _check(self.reuse in ("reset", "rebuild"), owner, "reuse must be 'reset' or 'rebuild'")
        objects = {"make": self.make, "spaces": self.spaces, "lerobot": self.lerobot}
        for name, target in objects.items():
            _check(
                (target is None and name != "make") or _is_object(target),
                owner,
                f"{name} must be 'package.module:name' or ':name', found {target!r}",
            )
        _check(
            self.runtime is None
            or (type(self.runtime) is str and _PACKAGE_FILE.fullmatch(self.runtime) is not None),
            owner,
            f"runtime must be 'package:file', found {self.runtime!r}",
        )
        _check_notes(owner, self.version_notes)
        _check(
            isinstance(self.assets, tuple) and all(isinstance(a, Asset) for a in self.assets),
            owner,
            "assets must be a tuple of Asset",
        )
        _check(isinstance(self.policies, Mapping), owner, "policies must be a mapping")
        for name, target in self.policies.items():
            check_name("policy", name)
            _check(
                _is_object(target),
                owner,
                f"policy {name!r} must be 'package.module:name' or ':name', found {target!r}",
            )
        if not _is_object(self.conventions):  # otherwise known once the arguments are
            check_declared_conventions(owner, self.conventions)
            object.__setattr__(self, "conventions", self.known_conventions)
        check_declared_conventions(owner, self.lerobot_conventions)
        object.__setattr__(self, "suites", dict(self.suites))
        object.__setattr__(self, "dimensions", dict(self.dimensions))
        object.__setattr__(self, "policies", dict(self.policies))
        object.__setattr__(self, "lerobot_conventions", dict(self.lerobot_conventions))
        object.__setattr__(self, "version_notes", dict(self.version_notes))

    def tasks(self) -> dict[str, Task]:
        """Return all tasks by name, each once, in the order of the suites."""
        return {task.name: task for suite in self.suites.values() for task in suite}

    @property
    def known_conventions(self) -> dict[str, str]:
        """The conventions; none as long as a function is to be asked for them."""
        return {} if isinstance(self.conventions, str) else dict(self.conventions)

    def conventions_for(self, format_: str) -> dict[str, Convention]:
        """Return what a policy's conventions are compared with, by the format that it reads."""
        declared: dict[str, Convention] = {**self.known_conventions}
        if format_ != "raw" and self.lerobot is not None:
            declared |= self.lerobot_conventions
        return {**declared, HZ: float(self.control_hz)} if self.control_hz else declared


Affected = Literal["pictures", "scene", "actions", "instruction"]
"""What a perturbation changes: pictures only, the scene's physics too, actions, the instruction."""
Capability = Literal["mujoco", "observe"]
"""What an env may offer beyond Gymnasium's methods: `mujoco()` returns its model and data,
`observe()` looks again after a change."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A change of benchmarks by a strength, for `--perturb NAME=STRENGTH`."""

    name: str
    """That of its entry point in the group `envhub.perturbations`."""
    make: str
    """`pkg.module:name`, or `:name` in the declaring module; workers call `make(strength)`."""
    description: str
    """What it does and what the strength is, in a sentence."""
    most: float
    """The greatest strength; 0 is none."""
    changes: tuple[Affected, ...]
    needs: tuple[Capability, ...] = ()
    """What the env must offer."""
    texts: bool = False
    """Whether texts by task, as of `--instructions`, may stand for the strength."""
    version: str = "1"
    """Raised by its author when the same strength comes to mean something else."""

    def __post_init__(self) -> None:
        owner = f"Perturbation {self.name!r}"
        check_name("perturbation", self.name)
        _check(
            _is_object(self.make), owner, f"make must be 'package.module:name', found {self.make!r}"
        )
        _check(_is_text(self.description), owner, "description must be plain text")
        _check(_is_text(self.version), owner, "version must be plain text")
        most = self.most
        good = type(most) in (int, float) and 0 < most < math.inf
        _check(good, owner, f"most must be a positive number, found {most!r}")
        for field_, given, known in (
            ("changes", self.changes, get_args(Affected)),
            ("needs", self.needs, get_args(Capability)),
        ):
            good = isinstance(given, tuple) and set(given) <= set(known)
            _check(good, owner, f"{field_} must be a tuple of {', '.join(known)}, found {given!r}")
        _check(bool(self.changes), owner, "changes must name what it changes")


def check_name(kind: str, name: object) -> None:
    """Raise `InvalidBenchmark` unless `name` may name a benchmark, suite, task or policy."""
    if type(name) is not str or not NAME.fullmatch(name):
        raise InvalidBenchmark(
            f"A {kind} cannot be called {name!r}: names are plain text, start with a letter or "
            "digit and hold at most 200 letters, digits and the characters . _ + -"
        )


def _check_suites(owner: str, suites: Mapping[str, tuple[Task, ...]]) -> None:
    _check(
        isinstance(suites, Mapping) and bool(suites),
        owner,
        "suites must be a mapping that is not empty",
    )
    seen: dict[str, Task] = {}
    for suite, tasks in suites.items():
        check_name("suite", suite)
        _check(isinstance(tasks, tuple), owner, f"suite {suite!r} must be a tuple of tasks")
        _check(bool(tasks), owner, f"suite {suite!r} has no tasks")
        for task in tasks:
            _check(isinstance(task, Task), owner, f"suite {suite!r} holds {task!r}, not a Task")
            _check(
                seen.setdefault(task.name, task) == task,
                owner,
                f"two different tasks are called {task.name!r}; names are unique in a benchmark",
            )
        names = [task.name for task in tasks]
        _check(len(names) == len(set(names)), owner, f"suite {suite!r} names a task twice")
    for task in seen.values():
        named = None if task.seeds_of is None else seen.get(task.seeds_of, task)
        _check(
            named is None or named.seeds_of is None,
            owner,
            f"task {task.name!r} has seeds_of {task.seeds_of!r}, which must be another task of the "
            "benchmark, with seeds of its own",
        )


def _check_dimensions(
    owner: str, dimensions: Mapping[str, tuple[str, str]], suites: Mapping[str, tuple[Task, ...]]
) -> None:
    _check(isinstance(dimensions, Mapping), owner, "dimensions must be a mapping")
    for suite, found in dimensions.items():
        shown = f"found {suite!r}: {reprlib.repr(found)}"
        good = type(found) is tuple and len(found) == 2 and all(map(_is_text, found))
        _check(good, owner, f"dimensions must be as in 'dark': ('plain', 'light'), {shown}")
        base, change = found
        _check(
            suite in suites and base in suites and base not in dimensions,
            owner,
            f"dimensions must name suites, and unchanged ones that they were made from, {shown}",
        )
        _check(
            CHANGE.fullmatch(change) is not None,
            owner,
            f"what was changed must be plain words of at most 40 characters, {shown}",
        )
        originals = [task.seeds_of for task in suites[suite]]
        _check(
            set(originals) <= {task.name for task in suites[base]}
            and len(originals) == len(set(originals)),
            owner,
            f"each task of suite {suite!r} must name one of suite {base!r} by seeds_of, and no two "
            "the same",
        )
    pairs = list(dimensions.values())
    _check(len(set(pairs)) == len(pairs), owner, "two suites have the same entry in dimensions")


def check_declared_conventions(owner: str, declared: object) -> None:
    """Raise `InvalidBenchmark` unless a benchmark may declare such conventions."""
    problem = find_problem(declared, tuple(VALUES))
    if isinstance(declared, Mapping) and HZ in declared:
        problem = f"{HZ} is a field of its own, and not one of its conventions"
    _check(problem is None, owner, str(problem))


def check_hold(owner: str, hold: object) -> None:
    """Raise `InvalidBenchmark` unless a benchmark may declare such an action."""
    good = isinstance(hold, tuple) and all(
        type(number) in (int, float) and math.isfinite(number) for number in hold
    )
    _check(good, owner, f"hold must be a tuple of numbers, found {reprlib.repr(hold)}")


def _check_notes(owner: str, notes: object) -> None:
    _check(isinstance(notes, Mapping), owner, "version_notes must be a mapping")
    assert isinstance(notes, Mapping)
    for versions, note in notes.items():
        good = _is_text(versions) and _VERSIONS.fullmatch(versions) and _is_text(note)
        shown = f"{versions!r}: {reprlib.repr(note)}"
        example = "'mujoco>=3.4': 'computes contacts in another way'"
        _check(bool(good), owner, f"version_notes must be as in {example}, found {shown}")


def _check_args(owner: str, args: Mapping[str, Value]) -> None:
    _check(isinstance(args, Mapping), owner, "args must be a mapping")
    for key, value in args.items():
        _check(_is_text(key), owner, f"args has the key {key!r}, which is not plain text")
        shown = reprlib.repr(value)
        problem = f"args[{key!r}] must be a plain bool, number, text or None, found {shown}"
        _check(_is_value(value), owner, problem)


def _check_whole(owner: str, name: str, value: object, low: int, high: int) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _check(good, owner, f"{name} must be a whole number from {low} to {high}, found {value!r}")


def _is_object(target: object) -> bool:
    return type(target) is str and _OBJECT.fullmatch(target) is not None


def _is_value(value: object) -> bool:
    """Whether a value stays equal when it is sent to another process."""
    plain = value is None or type(value) in (bool, int, float, str)
    return plain and find_value_problem(value, infinite=True) is None


def _is_text(value: object) -> bool:
    """Whether a value is plain text without lone surrogates, which UTF-8 cannot encode."""
    return type(value) is str and not has_surrogate(value)


def _check(good: bool, owner: str, problem: str) -> None:  # noqa: FBT001
    if not good:
        raise InvalidBenchmark(f"{owner}: {problem}.")
