"""The values that modules and processes exchange. They hold plain data only."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from envhub.conventions import Convention
from envhub.declarations import Benchmark
from envhub.options import Argument, Limits, SandboxKind


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The code of an installed plugin."""

    name: str


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

    @property
    def in_sandbox(self) -> bool:
        """Whether the code is in a sandbox, and not in none because the user asked for that."""
        return self.sandbox != "none"


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


def _spell_out(path: str) -> str:
    """Return a path without `..`: the directory before it is not there in a sandbox."""
    place = Path(path)
    return str(place.parent.resolve() / place.name) if ".." in place.parts else path


THIS_PYTHON = _spell_out(sys.executable)
"""The running interpreter, as workers are started with it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter of a process: this one, that of a runtime, or one that the user names."""

    kind: Literal["here", "isolated", "named"] = "here"
    python: str = THIS_PYTHON
    key: str | None = None
    """The key of the runtime."""
    paths: tuple[str, ...] = ()
    """Copies of EnvHub's own package and of plugins, which are not part of the runtime."""
    unmet: tuple[str, ...] = ()
    """Requirements that are not installed; only if the user chose this interpreter anyway."""
    former_key: str | None = None
    """The key that the same runtime had in run.json of format 1."""


HERE = Interpreter()


@dataclass(frozen=True, slots=True)
class LocalAsset:
    """The directory of an asset on this machine."""

    name: str
    path: str
    """Absolute."""
    digest: str
    """Of the names and contents of all its files."""
    source: str | None = None
    """`owner/dataset@commit` if it was fetched from the Hub; None for the user's own directory."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Everything needed to start a worker for a benchmark's envs.

    The confinement is part of the source, so that no worker can be started without it.
    """

    source: Source
    env_args: Mapping[str, Argument]
    limits: Limits
    horizon: int | None = None
    """For LeRobot-style `make_env` files: replaces their own."""
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
    perturb: Mapping[str, float | dict[str, list[str]]] = field(default_factory=dict)
    """The strengths of perturbations, by name."""

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

    limits: Limits
    interpreter: Interpreter = HERE
    directory: str = "."
    """Where it runs."""
    device: str | None = None
    """The GPU that it sees; None: those that the user's variables say."""


def confinement_of(source: Source) -> Confinement | None:
    """Return the restrictions on a source's code, wherever it runs."""
    return source.confinement if isinstance(source, FileSource) else None


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
PolicyFormat = Literal["raw", "lerobot", "converted"]
MAX_BATCH = 65536
Batch = int | Literal["any"]
"""The rows of every call of a policy; "any": as many as wait."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A number of a state that lies far outside what a policy was trained with."""

    task: str
    """In whose first episode it was met."""
    feature: str
    index: int
    """Of the number in the feature."""
    value: float
    statistics: Mapping[str, float]
    """Of its training data: `mean`, `std`, `min` and `max`, as far as it has them."""


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What a policy declares about itself."""

    placement: Placement
    needs: tuple[str, ...] | None
    format: PolicyFormat
    batch: Batch
    about: Mapping[str, str] = field(default_factory=dict)
    """What else a run is to record of it, such as the device that it runs on."""
    remarks: tuple[str, ...] = ()
    """Sentences for the user."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """What it was trained with."""
    declares_batch: bool = True
    """Whether `batch` is the policy's own, not the default."""
    instructions: Mapping[str, str] = field(default_factory=dict)
    """What it is told instead of the benchmark's texts, by task."""
    reproducible: bool = True
    """Whether it acts the same when an episode is played again: false of most servers."""

    def __post_init__(self) -> None:
        # Also where a policy's process says it.
        if self.batch != "any" and not 1 <= self.batch <= MAX_BATCH:
            raise ValueError(f"a policy cannot have a batch of {self.batch}")
