"""The values that modules and processes exchange. They hold plain data only."""

import math
import re
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from envhub.errors import InvalidBenchmark

Value = bool | int | float | str | None
"""The values that `Task.args` accepts."""

Argument = Value | list[Any] | dict[str, Any]
"""The values that `--env-arg` and `--policy-arg` accept: what JSON can say."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
"""The names of benchmarks, suites, tasks and policies; used with fullmatch."""

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*|:[A-Za-z_]\w*")

_PACKAGE_FILE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z0-9_][\w.-]*")

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")

_SURROGATE = re.compile("[\ud800-\udfff]")

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
    control_hz: float = 0.0
    """Actions per second of the real system; 0 if there is none."""
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
    """`pkg:runtime.txt`, for plugins: complete, hashed pins in a file of the package."""
    assets: tuple[Asset, ...] = ()
    """For plugins: files that the package does not have. The run records their digest."""
    memory_mb: int = 1024
    """Memory that one worker needs; `--workers auto` stays within the free memory."""
    reuse: Literal["reset", "rebuild"] = "reset"
    """`rebuild`: every episode gets a new env, for simulators whose reset is incomplete."""

    def __post_init__(self) -> None:
        owner = f"Benchmark {self.name!r}"
        check_name("benchmark", self.name)
        _check_suites(owner, self.suites)
        _check(isinstance(self.default, tuple), owner, "default must be a tuple of suites")
        for name in self.default:
            _check(name in self.suites, owner, f"default suite {name!r} is not among its suites")
        _check_whole(owner, "episodes", self.episodes, 1, MAX_HORIZON)
        _check_whole(owner, "memory_mb", self.memory_mb, 1, 2**30)
        hz = self.control_hz
        _check(
            type(hz) in (int, float) and 0 <= hz <= _MAX_HZ,
            owner,
            f"control_hz must be a number from 0 to {_MAX_HZ}, found {hz!r}",
        )
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
        object.__setattr__(self, "suites", dict(self.suites))
        object.__setattr__(self, "policies", dict(self.policies))

    def tasks(self) -> dict[str, Task]:
        """Return all tasks by name, each once, in the order of the suites."""
        return {task.name: task for suite in self.suites.values() for task in suite}


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The code of an installed plugin."""

    name: str


SandboxKind = Literal["bubblewrap", "landlock", "none"]
SandboxChoice = Literal["auto", "bubblewrap", "landlock", "none"]
"""`auto`: the strongest one that works on this machine."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the files of a Hub repository came from, and how they were checked."""

    repo: str
    commit: str
    endpoint: str
    proof: Literal["git", "listing"]
    """`git`: every byte was checked against the commit. `listing`: against the Hub's listing."""
    consent: Literal["flag", "ledger"]
    files: Mapping[str, str]
    """The sha256 of each file, by its path."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The restrictions on foreign code."""

    sandbox: SandboxKind
    network: bool
    """Whether it may use the network."""
    readable: tuple[str, ...] = ()
    """Paths it may read besides the system and its interpreter: the benchmark, its assets."""
    memory_mb: int | None = None
    """Memory that all processes of a worker may use together."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A Python file in a directory that is its package."""

    directory: str
    """The absolute path of the directory."""
    file: str
    """The path of the file, relative to the directory."""
    package: str
    """The name that the directory is imported as."""
    name: str
    """The benchmark's name, unless the file itself declares one."""
    origin: Origin | None = None
    """None for a local file."""
    confinement: Confinement | None = None
    """None for a local file, which is the user's own; foreign files always have a confinement."""

    def __post_init__(self) -> None:
        if (self.origin is None) != (self.confinement is None):
            raise ValueError(
                "A file must have both an origin and a confinement, or neither if it is local."
            )

    @property
    def home(self) -> Path:
        """The directory that the file is in, where its code starts."""
        return Path(self.directory, self.file).parent


Source = PluginSource | FileSource

RuntimeChoice = Literal["auto", "here", "isolated"]
"""`auto`: here if the requirements are installed, else isolated."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter that workers run on: this one, or that of a runtime."""

    kind: Literal["here", "isolated"] = "here"
    python: str = sys.executable
    key: str | None = None
    """The key of the runtime."""
    paths: tuple[str, ...] = ()
    """Copies of EnvHub's own package and of plugins, which are not part of the runtime."""
    unmet: tuple[str, ...] = ()
    """Requirements that are not installed; only if the user chose this interpreter anyway."""


HERE = Interpreter()


@dataclass(frozen=True, slots=True)
class LocalAsset:
    """The directory of an asset on this machine."""

    name: str
    path: str
    """Absolute."""
    digest: str
    """Of the names and contents of all its files."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Everything needed to start a worker for a benchmark's envs.

    The confinement is part of the source, so that no worker can be started without it.
    """

    source: Source
    env_args: Mapping[str, Argument]
    limits: "Limits"
    horizon: int | None = None
    """For envs of the published contract: replaces their own."""
    interpreter: Interpreter = HERE
    """The interpreter that the worker runs on."""
    assets: tuple[LocalAsset, ...] = ()
    """Replace the arguments of the same names."""
    alone: bool = False
    """Whether to leave out the other plugins that `ENVHUB_PLUGINS` names."""
    declared: Benchmark | None = None
    """The benchmark that a worker read from the envs of a file, so that others need not."""
    env_vars: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the user lets through to the worker; they may be secrets."""
    makes_envs: bool = True
    """Whether the worker may make envs, which may draw; False if it only reads what a plugin
    declares."""

    @property
    def arguments(self) -> dict[str, Argument]:
        """The arguments of the benchmark's `make`: the user's, and the places of the assets."""
        return {**self.env_args, **{asset.name: asset.path for asset in self.assets}}

    @property
    def confinement(self) -> Confinement | None:
        """The restrictions on the worker; None for the user's own code."""
        return confinement_of(self.source)


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """Everything needed to start a process for a policy, which is the user's own code."""

    limits: "Limits"
    interpreter: Interpreter = HERE
    directory: str = "."
    """Where it runs."""


def confinement_of(source: Source) -> Confinement | None:
    """Return the restrictions on a source's code, wherever it runs."""
    return source.confinement if isinstance(source, FileSource) else None


class SourceKeywords(TypedDict, total=False):
    """`SourceOptions` as the keyword arguments of a function."""

    trust_remote_code: bool
    """Agree to run code from the Hub at exactly the commit that the reference names."""
    allow_unpinned: bool
    """With `trust_remote_code`, also accept a branch or tag, which can move."""
    private: bool
    """Send your token, for a private repository."""
    locked: bool
    """Refuse files and packages that differ from `envhub.lock`."""
    sandbox: SandboxChoice
    """The sandbox for code from the Hub."""
    sandbox_allow_network: bool
    """Let code from the Hub use the network."""
    runtime: RuntimeChoice
    """`here`: this interpreter; `isolated`: one that is built from the benchmark's requirements;
    `auto`: here if the requirements are installed, else isolated."""
    env_vars: Mapping[str, str]
    """Environment variables that the benchmark's code sees besides the usual ones. A run records
    their names only."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How to get a source, and where to run its code; `SourceKeywords` describes each option."""

    trust_remote_code: bool = False
    allow_unpinned: bool = False
    private: bool = False
    locked: bool = False
    sandbox: SandboxChoice = "auto"
    sandbox_allow_network: bool = False
    runtime: RuntimeChoice = "auto"
    env_vars: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, caller: str, given: SourceKeywords) -> "SourceOptions":
        """Return the options that a function was called with.

        Args:
            caller: The name of the function.
            given: The keyword arguments that are not parameters of its own.

        Raises:
            TypeError: One of them is not an option.
        """
        for name in given:
            if name not in cls.__dataclass_fields__:
                raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")
        return cls(**given)


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The factory of a policy, and its arguments."""

    module: FileSource | str
    """A file, or the name of a module."""
    name: str
    """The name of the factory in the module."""
    args: Mapping[str, Argument] = field(default_factory=dict)
    confined: bool = False
    """Whether a confined benchmark names it: then it is made in workers only."""


Placement = Literal["process", "worker"]
PolicyFormat = Literal["raw", "lerobot"]


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What a policy declares about itself."""

    placement: Placement
    needs: tuple[str, ...] | None
    format: PolicyFormat
    batch: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a process that does not answer is ended."""

    start: float = 300.0
    """For starting, loading a benchmark and making an env."""
    reset: float = 120.0
    step: float = 60.0
    """For one step."""
    act: float = 120.0
    """For one call of the policy."""
    close: float = 5.0


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
    if type(value) is int:
        return -(2**63) <= value < 2**64
    if type(value) is float:
        return not math.isnan(value)
    return value is None or type(value) is bool or _is_text(value)


def _is_text(value: object) -> bool:
    """Whether a value is plain text without lone surrogates, which UTF-8 cannot encode."""
    return type(value) is str and not _SURROGATE.search(value)


def _check(good: bool, owner: str, problem: str) -> None:  # noqa: FBT001
    if not good:
        raise InvalidBenchmark(f"{owner}: {problem}.")
