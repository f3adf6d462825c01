"""The content of `run.json` as types. `docs/runs.md` describes each field, and a test compares.

What two contents must agree in is said once, at the field: `Agree`. Plain data, no file is read.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

import envhub
from envhub.conventions import Convention
from envhub.declarations import CHANGE, NAME, Affected
from envhub.options import Argument, LatencyMode, Limits, SandboxKind
from envhub.records import Count, Seconds
from envhub.seeding import Seeding, make_seeds
from envhub.values import find_value_problem

FORMAT: Literal[2] = 2
"""The layout that is written; format 1 is read by `results.format1`."""

WORKER = 1
"""The generation of the worker's code. A version whose workers would play an episode otherwise, so
that its trace could change, raises it: a run is never continued by another generation."""

Purpose = Literal["resume", "compare", "protocol"]

MAX_SHARDS = 100_000
MAX_EPISODES = 1_000_000
"""The episodes of a run: more would need weeks, and their plan gigabytes."""

Name = Annotated[str, Meta(pattern=rf"^{NAME.pattern}\Z")]
Change = Annotated[str, Meta(pattern=rf"^{CHANGE.pattern}\Z")]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Episodes = Annotated[int, Meta(ge=1, le=MAX_EPISODES)]
Delay = Annotated[int, Meta(ge=0, le=2**31)]
"""Steps that an action is late."""
Limit = Annotated[float, Meta(gt=0, le=sys.float_info.max)]

_YEARS = range(1971, 9999)
"""Those in which every time can be told in every time zone."""


@dataclass(frozen=True, init=False)
class Agree:
    """What a field is compared for, and the words for it."""

    purposes: tuple[Purpose, ...]
    words: str
    """In the singular; of an object, those for one of its entries."""
    read: Callable[[Any], Any] | None
    """Makes what is compared from the part of `run.json` that has the field; None: the field."""

    def __init__(
        self, *purposes: Purpose, words: str, read: Callable[[Any], Any] | None = None
    ) -> None:
        object.__setattr__(self, "purposes", purposes)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "read", read)


class Info(Struct, frozen=True, kw_only=True):
    """A part of `run.json`."""


class BenchmarkInfo(Info, frozen=True, kw_only=True):
    """Which benchmark was evaluated."""

    ref: str
    path: str | None
    name: Annotated[str, Agree("resume", "compare", "protocol", words="benchmark")]
    kind: Annotated[
        Literal["local", "plugin", "hub"],
        Agree("resume", "protocol", words="kind of benchmark"),
    ]
    files: Annotated[
        dict[str, str],
        # An author may correct a README without making every run before incomparable.
        Agree(
            "resume",
            "compare",
            "protocol",
            words="benchmark's file",
            read=lambda of: of.counted_files,
        ),
    ]
    package: str | None = None
    repo: str | None = None
    commit: str | None = None
    endpoint: str | None = None
    proof: Literal["git", "listing"] | None = None
    consent: Literal["flag", "ledger"] | None = None
    env_args: Annotated[
        dict[str, Argument],
        Agree("resume", words="--env-arg"),
        # The content of assets matters, not where they lie.
        Agree("compare", "protocol", words="--env-arg", read=lambda of: of.args_without_assets),
    ]
    env_vars: Annotated[list[str], Agree("resume", words="--env-var")]
    env_var_hashes: Annotated[
        dict[str, str], Agree("resume", "compare", "protocol", words="--env-var value")
    ] = {}
    """Of the values; a run that was begun before they were recorded has none."""
    assets: Annotated[dict[str, str], Agree("resume", "compare", "protocol", words="asset")]
    asset_sources: dict[str, str]
    plugins: Annotated[
        list[str], Agree("resume", "compare", "protocol", words="choice of ENVHUB_PLUGINS")
    ]
    conventions: Annotated[
        dict[str, str], Agree("resume", "compare", "protocol", words="convention")
    ]
    lerobot_conventions: Annotated[
        dict[str, str], Agree("resume", "compare", "protocol", words="LeRobot convention")
    ]

    def __post_init__(self) -> None:
        _check_arguments("env_args", self.env_args)

    @property
    def args_without_assets(self) -> dict[str, Argument]:
        """The arguments that are not places of assets."""
        return {name: value for name, value in self.env_args.items() if name not in self.assets}

    @property
    def counted_files(self) -> dict[str, str]:
        """The files that can change an episode: code and data."""
        return {path: value for path, value in self.files.items() if counts(path)}

    @property
    def reference(self) -> str:
        """The reference by which the benchmark is found from any directory."""
        return self.path if self.kind == "local" and self.path is not None else self.ref


_PROSE = frozenset(
    {
        *("readme", "license", "licence", "copying", "notice", "authors", "citation"),
        *("changelog", "changes", "contributing"),
    }
)
_PROSE_SUFFIXES = frozenset({"", ".md", ".rst", ".txt", ".cff", ".bib"})
_UNCOUNTED = frozenset({"pyproject.toml", "tox.ini", "noxfile.py", "conftest.py"})
_TESTS = frozenset({"tests", "test"})


def counts(path: str) -> bool:
    """Whether a benchmark's file is part of the protocol: code and data are.

    Not part of it are READMEs, licences and the like, folders of tests, hidden files (which CI's
    are), and `pyproject.toml`, of which a benchmark in a directory uses nothing.

    Args:
        path: Of the file, from the benchmark's directory.
    """
    *folders, name = path.lower().split("/")
    if name in _UNCOUNTED or not _TESTS.isdisjoint(folders):
        return False
    if any(part.startswith(".") for part in (*folders, name)):
        return False
    return not (re.split(r"[.-]", name)[0] in _PROSE and PurePath(name).suffix in _PROSE_SUFFIXES)


def _check_arguments(name: str, values: Mapping[str, Argument]) -> None:
    for key, value in values.items():
        if (problem := find_value_problem(value)) is not None:
            raise ValueError(f"{name}, {key[:40]!r} {problem}")


# Without defaults, so that runs from before a field was added have the same protocol.
class TaskInfo(Info, frozen=True, kw_only=True, omit_defaults=True):
    """What is fixed of a task."""

    horizon: Positive
    success: Literal["once", "at_end", "ever"]
    init_states: Count
    description: str = ""
    """The instruction; of an env that says another in an episode, its record has that one. It
    follows from the benchmark's code, which must agree."""
    seeds_of: Name | None = None
    """The task whose seeds it shares."""

    @property
    def rules(self) -> dict[str, Any]:
        """What changes an episode, as plain data."""
        return {key: value for key, value in to_builtins(self).items() if key != "description"}


class LatencyPlanInfo(Info, frozen=True, kw_only=True):
    """How late the policy's actions are, in simulated time."""

    mode: LatencyMode
    seconds: Seconds | None
    """None: drawn as another run's calls took."""
    hz: Limit
    steps: Annotated[list[tuple[Delay, Positive]], Meta(min_length=1, max_length=1000)]
    """Each number of steps, and how often it is drawn, of all together."""
    hold: list[float]
    keeps: Literal["none", "gripper", "all"]

    @property
    def words(self) -> str:
        """The latency for people: `120ms`, and the mode if it is not the usual one."""
        time = "as in a run" if self.seconds is None else f"{1000 * self.seconds:g}ms"
        return time if self.mode == "wait" else f"{time} {self.mode}"

    @property
    def argument(self) -> str:
        """The text of `--latency` that asks for it; RUN stands for a directory."""
        time = "RUN" if self.seconds is None else f"{1000 * self.seconds:g}ms"
        mode = "" if self.mode == "wait" else f",mode={self.mode}"
        return f"{time}{mode},hz={self.hz:g}"

    @property
    def rule(self) -> str:
        """What the actions follow from; the seconds do not matter beside the steps."""
        steps = ", ".join(f"{late} ({count})" for late, count in self.steps)
        late = self.steps[0][0] if len(self.steps) == 1 else f"drawn from {steps}"
        kept = {"none": "", "gripper": " with the gripper kept", "all": " or the last one"}
        return f"{self.mode}, steps late: {late}, holding {self.hold or 0}{kept[self.keeps]}"


class PerturbationInfo(Info, frozen=True, kw_only=True):
    """How a run changes its benchmark."""

    strength: float | dict[Name, list[str]]
    """A number, or texts by task."""
    version: str
    """Of its meaning, as its author says."""
    package: str
    code: str
    """The digest of the package's Python files."""
    changes: list[Affected]

    @property
    def words(self) -> str:
        """The strength for people."""
        return "texts" if isinstance(self.strength, dict) else f"{self.strength:.15g}"

    @property
    def argument(self) -> str:
        """What `--perturb` is given after the name; FILE stands for one with the texts."""
        return "FILE" if isinstance(self.strength, dict) else self.words

    @property
    def rule(self) -> dict[str, Any]:
        """What changes an episode, as plain data."""
        strength: float | str
        if isinstance(self.strength, dict):
            strength = f"texts {hashlib.sha256(canonical(self.strength).encode()).hexdigest()}"
        else:
            strength = self.strength
        return {"strength": strength, "version": self.version, "code": self.code}


class PlanInfo(Info, frozen=True, kw_only=True):
    """Which episodes were planned."""

    suites: Annotated[
        dict[Name, list[Name]],
        Agree("resume", words="suite"),
        # By it the episodes are numbered.
        Agree("resume", words="order of tasks", read=lambda of: of.order),
    ]
    dimensions: Annotated[
        dict[Name, tuple[Name, Change]],
        Agree("resume", words="dimension"),
    ] = {}
    """Of suites that were made from others: which one, and what was changed."""
    part: bool = False
    """Whether the suites have further tasks, which the user left out."""
    episodes: Annotated[Episodes, Agree("resume", "protocol", words="--episodes")]
    seed: Annotated[Count, Agree("resume", "compare", "protocol", words="--seed")]
    seeding: Annotated[
        Seeding,
        Agree("resume", "compare", words="--seeding"),
        # Nothing is said of it in runs from before there was a choice.
        Agree("protocol", words="--seeding", read=lambda of: of.own_seeding),
    ] = "shared"
    max_steps: Annotated[Positive | None, Agree("resume", words="--max-steps")]
    instructions: Annotated[
        dict[Name, list[str]], Agree("resume", "protocol", words="--instructions")
    ] = {}
    """Of tasks that the user words otherwise; episode k is told number k mod n."""
    latency: Annotated[
        LatencyPlanInfo | None,
        Agree(
            "resume",
            "compare",
            "protocol",
            words="--latency",
            read=lambda of: of.latency and of.latency.rule,
        ),
    ] = None
    perturbations: Annotated[
        dict[Name, PerturbationInfo],
        Agree(
            "resume",
            "compare",
            "protocol",
            words="--perturb",
            read=lambda of: {name: each.rule for name, each in of.perturbations.items()},
        ),
    ] = {}
    """By name; one of strength 0 changes nothing, and is not there."""
    reuse: Annotated[
        Literal["reset", "rebuild"],
        Agree("resume", "compare", "protocol", words="reuse of envs"),
    ]
    tasks: Annotated[
        dict[Name, TaskInfo],
        Agree(
            "resume",
            "protocol",
            words="task",
            read=lambda of: {name: task.rules for name, task in of.tasks.items()},
        ),
    ]

    def __post_init__(self) -> None:
        if set(self.order) != set(self.tasks):
            raise ValueError("The suites name other tasks than there are")
        if not set(self.dimensions) <= set(self.suites):
            raise ValueError("dimensions names a suite that is not there")
        if self.planned > MAX_EPISODES:
            raise ValueError(f"{self.planned:,} episodes are more than {MAX_EPISODES:,}")

    @property
    def order(self) -> list[str]:
        """The tasks in the order of the plan; one that is in several suites is played once."""
        return list(dict.fromkeys(task for tasks in self.suites.values() for task in tasks))

    @property
    def planned(self) -> int:
        """The number of planned episodes."""
        return len(self.tasks) * self.episodes

    def retells(self, task: str) -> bool:
        """Whether a perturbation words the instruction of a task otherwise."""
        return any(
            "instruction" in each.changes
            and (not isinstance(each.strength, dict) or task in each.strength)
            for each in self.perturbations.values()
        )

    @property
    def own_seeding(self) -> Seeding | None:
        """How tasks have seeds of their own; None: they share them."""
        return None if self.seeding == "shared" else self.seeding

    @property
    def seed_groups(self) -> dict[str, str]:
        """What tasks have in common that share their seeds, by task."""
        shared = self.seeding == "shared"
        return {
            task: "" if shared else of_task.seeds_of or task for task, of_task in self.tasks.items()
        }

    def seeds(self, task: str) -> Sequence[int]:
        """Return the seeds of a task's episodes, in order."""
        named = self.tasks[task].seeds_of or task
        return make_seeds(self.seeding, self.seed, named, self.episodes)


class ProvidedInfo(Info, frozen=True, kw_only=True):
    """What a provider of policies says of one."""

    scheme: str
    package: str
    """The provider's distribution."""
    version: str
    files: Annotated[dict[str, str], Agree("resume", words="file of the policy")] = {}
    details: dict[str, Argument] = {}


class PolicyRuntimeInfo(Info, frozen=True, kw_only=True):
    """The interpreter of the policy's own process."""

    kind: Annotated[
        Literal["here", "isolated", "named"],
        Agree("resume", words="interpreter of the policy"),
    ]
    key: Annotated[str | None, Agree("resume", words="runtime of the policy")]
    path: str | None
    python: Annotated[str, Agree("resume", words="Python of the policy")]
    packages: Annotated[dict[str, str], Agree("resume", words="policy's package")]


class LatencyInfo(Info, frozen=True, kw_only=True):
    """How long the policy took to act."""

    calls: Count
    p50: Seconds
    p95: Seconds
    counts: dict[str, Count]


class OutlierInfo(Info, frozen=True, kw_only=True):
    """A number of a state far outside what the policy was trained with."""

    task: str
    feature: str
    index: Count
    value: float
    statistics: dict[str, float]


class PolicyInfo(Info, frozen=True, kw_only=True):
    """Which policy was evaluated."""

    kind: Annotated[
        Literal["builtin", "benchmark", "file", "module", "object", "provided"],
        Agree("resume", words="kind of policy", read=lambda of: of.way),
    ]
    ref: Annotated[str, Agree("resume", words="policy", read=lambda of: of.identity)]
    path: str | None = None
    sha256: Annotated[str | None, Agree("resume", words="policy's file")] = None
    imports: Annotated[dict[str, str], Agree("resume", words="policy's imported file")] = {}
    args: Annotated[dict[str, Argument], Agree("resume", words="--policy-arg")] = {}
    files: Annotated[dict[str, str], Agree("resume", words="file of --policy-arg")] = {}
    directory: str
    provided: ProvidedInfo | None = None
    batch: Positive | Literal["any"] | None = None
    """None only for runs that began before one row per call was the default."""
    placement: Literal["process", "worker"] | None = None
    about: dict[str, str] = {}
    instructions: dict[str, str] = {}
    """What its own provider tells it instead of the benchmark's texts, by task."""
    latency: LatencyInfo | None = None
    outliers: list[OutlierInfo] = []
    runtime: PolicyRuntimeInfo | None = None
    processes: list[str | None] = []

    def __post_init__(self) -> None:
        _check_arguments("args", self.args)

    @property
    def way(self) -> str:
        """Whether it was named, or an object: which of the names it has follows from the rest."""
        return "object" if self.kind == "object" else "named"

    @property
    def identity(self) -> str:
        """What is the same if the policy is, wherever its files have moved to."""
        if self.provided is not None:
            # Without files to compare, as of a server, the reference is all that says which it is.
            place = self.path or self.ref
            return f"one of {self.provided.scheme}" if self.provided.files else place
        function = self.path and self.path.rpartition(":")[2]
        return f"{function} of a file" if function else self.ref


class ConventionsInfo(Info, frozen=True, kw_only=True):
    """What actions and observations mean, by both sides."""

    ignore: bool
    benchmark: dict[str, Convention] = {}
    policy: dict[str, Convention] = {}
    overridden: list[str] = []


class RuntimeInfo(Info, frozen=True, kw_only=True):
    """The interpreter of the workers."""

    kind: Literal["here", "isolated"]
    key: Annotated[str | None, Agree("resume", words="runtime")]
    worker: Positive
    """The generation of the worker's code; see `WORKER`."""
    python: str
    packages: Annotated[dict[str, str], Agree("resume", "compare", "protocol", words="package")]
    unmet: list[str]


class MachineInfo(Info, frozen=True, kw_only=True):
    """What the last bits of a result can depend on."""

    arch: str
    cpu: str | None
    flags: list[str]
    libc: str | None
    openblas: str | None
    gl: str | None
    gl_devices: list[int]


class ShardInfo(Info, frozen=True, kw_only=True):
    """The share of the plan that a run plays: the episodes of one machine among several."""

    index: Positive
    """From 1."""
    of: Positive

    def __post_init__(self) -> None:
        if not self.index <= self.of <= MAX_SHARDS:
            raise ValueError(f"there is no shard {self.index}/{self.of}")

    def numbers(self, planned: int) -> range:
        """Return the numbers of its episodes: neighbours in the plan, so that it has few tasks."""
        first, end = ((i * planned) // self.of for i in (self.index - 1, self.index))
        return range(first, end)

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"


class PartInfo(Info, frozen=True, kw_only=True):
    """Episodes of a run that were played elsewhere: in a shard, or before the run moved."""

    name: str
    """That of the directory they came from."""
    created: str
    envhub: str
    machine: Count
    """The index of its machine among `machines`."""
    numbers: list[tuple[Count, Count]]
    """The first and the last of each row of neighbours."""

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.numbers)


class ProtectionInfo(Info, frozen=True, kw_only=True):
    """How the benchmark's code was confined."""

    process: bool
    sandbox: SandboxKind
    network: bool
    memory_mb: Count | None


class LimitsInfo(Info, frozen=True, kw_only=True):
    """Seconds after which a process that does not answer is ended."""

    start: Limit
    reset: Limit
    step: Limit
    act: Limit
    close: Limit


class RunInfo(Info, frozen=True, kw_only=True):
    """The content of `run.json`."""

    format: Literal[1, 2]
    envhub: str
    created: str
    benchmark: BenchmarkInfo
    plan: PlanInfo
    policy: PolicyInfo
    conventions: ConventionsInfo
    runtime: RuntimeInfo
    machine: MachineInfo | None
    """None only for runs of format 1 that were begun before it was recorded."""
    protection: ProtectionInfo
    limits: LimitsInfo
    retries: Count
    protocol: str
    reproducible: bool = True
    """False where the policy draws random numbers that no seed reaches, as most servers do."""
    shard: Annotated[ShardInfo | None, Agree("resume", words="--shard")] = None
    parts: list[PartInfo] = []
    """Where the episodes of a merged run were played; those in none of them, on `machine`."""
    machines: list[MachineInfo | None] = []
    """Those of the parts, each once."""
    seal: str | None

    def __post_init__(self) -> None:
        try:
            year = datetime.fromisoformat(self.created).year
        except ValueError as exc:
            raise ValueError(f"created is not a time: {exc}") from exc
        if year not in _YEARS:
            raise ValueError(f"created is not a time of a run: it is in the year {year}")
        if any(part.machine >= len(self.machines) for part in self.parts):
            raise ValueError("a part names a machine that is not there")

    @classmethod
    def begin(
        cls,
        *,
        benchmark: BenchmarkInfo,
        plan: PlanInfo,
        policy: PolicyInfo,
        runtime: RuntimeInfo,
        machine: MachineInfo,
        protection: ProtectionInfo,
        limits: Limits,
        retries: int,
        ignore_conventions: bool = False,
        shard: ShardInfo | None = None,
    ) -> "RunInfo":
        """Return the content of a run that begins now."""
        info = cls(
            format=FORMAT,
            envhub=envhub.__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            benchmark=benchmark,
            plan=plan,
            policy=policy,
            conventions=ConventionsInfo(ignore=ignore_conventions),
            runtime=runtime,
            machine=machine,
            protection=protection,
            limits=LimitsInfo(**asdict(limits)),
            retries=retries,
            protocol="",
            shard=shard,
            seal=None,
        )
        return replace(info, protocol=hash_protocol(info))

    def continued(self, before: "RunInfo") -> "RunInfo":
        """Return the content of a run that was begun before, and is asked for again now.

        Args:
            before: What this user sealed: what is taken from it is sealed again.
        """
        then = before.policy
        policy = replace(
            self.policy,
            batch=then.batch,
            placement=then.placement,
            about=then.about,
            instructions=then.instructions,
            latency=then.latency,
            outliers=then.outliers,
            processes=then.processes,
        )
        conventions = replace(before.conventions, ignore=self.conventions.ignore)
        return replace(
            self,
            envhub=before.envhub,
            created=before.created,
            policy=policy,
            conventions=conventions,
            reproducible=before.reproducible,
            parts=before.parts,
            machines=before.machines,
        )

    def moved(self, now: "RunInfo", played: Iterable[int]) -> "RunInfo":
        """Return the content with the machine that plays the rest, if that is another one.

        Args:
            now: What this machine would say of a run that begins now.
            played: The numbers of the episodes that have a record.
        """
        if self.machine == now.machine:
            return self
        rest = [number for number in played if not any(number in part for part in self.parts)]
        if not rest:
            return replace(self, machine=now.machine)
        machines = self.machines
        if self.machine not in machines:
            machines = [*machines, self.machine]
        part = PartInfo(
            name="",
            created=self.created,
            envhub=self.envhub,
            machine=machines.index(self.machine),
            numbers=to_rows(rest),
        )
        parts = [*self.parts, part]
        return replace(self, machine=now.machine, parts=parts, machines=machines)

    @property
    def all_machines(self) -> list[MachineInfo | None]:
        """The machines that the episodes were played on, each once."""
        rows = (row for part in self.parts for row in part.numbers)
        in_parts = sum(last - first + 1 for first, last in rows)
        own = in_parts < self.plan.planned and self.machine not in self.machines
        return [*self.machines, *([self.machine] if own else [])]

    @property
    def numbers(self) -> range:
        """The numbers of the episodes that the run plays: those of its shard, or all."""
        planned = self.plan.planned
        return range(planned) if self.shard is None else self.shard.numbers(planned)

    def finished(
        self,
        *,
        batch: int | Literal["any"],
        placement: Literal["process", "worker"],
        about: Mapping[str, str],
        instructions: Mapping[str, str],
        latency: LatencyInfo | None,
        outliers: list[OutlierInfo],
        conventions: ConventionsInfo,
        reproducible: bool,
    ) -> "RunInfo":
        """Return the content with what playing has shown of the policy.

        Of the policy's own instructions those count that the user did not replace.
        A run of an earlier format is told in this one from now on, with the digest of this one.
        """
        told = {
            task: text
            for task, text in instructions.items()
            if task in self.plan.tasks
            and task not in self.plan.instructions
            and not self.plan.retells(task)
        }
        policy = replace(
            self.policy,
            batch=batch,
            placement=placement,
            about=dict(about),
            instructions=told,
            latency=latency,
            outliers=outliers,
        )
        info = replace(
            self,
            format=FORMAT,
            policy=policy,
            conventions=conventions,
            reproducible=self.reproducible and reproducible,
        )
        return replace(info, protocol=hash_protocol(info))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as the file has it."""
        content: dict[str, Any] = to_builtins(self)
        return content


def to_rows(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each row of neighbours."""
    rows: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if rows and number == rows[-1][1] + 1:
            rows[-1] = (rows[-1][0], number)
        else:
            rows.append((number, number))
    return rows


class Item(NamedTuple):
    """A value that must agree."""

    path: str
    """Where `run.json` has it: `plan.seed`."""
    words: str
    value: Any


def agreeing(info: Info, purpose: Purpose, above: str = "") -> Iterator[Item]:
    """Yield what two contents must agree in, as plain data. A part that is null has nothing."""
    for name, agrees in _agrees(type(info)).items():
        value = getattr(info, name)
        for agree in agrees:
            if purpose in agree.purposes:
                found = agree.read(info) if agree.read else value
                yield Item(f"{above}{name}", agree.words, to_builtins(found))
        if isinstance(value, Info):
            yield from agreeing(value, purpose, f"{above}{name}.")


@cache
def _agrees(kind: type[Info]) -> dict[str, list[Agree]]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Agree)]
        for name, hint in hints.items()
        if name in kind.__struct_fields__
    }


def hash_protocol(info: RunInfo, *, every_file: bool = False) -> str:
    """Hash everything that must be equal for two runs to be comparable.

    What is empty is left out, so that a field of a later version that says nothing changes no hash.

    Args:
        info: The content of `run.json`.
        every_file: Whether READMEs and tests count, too, as they once did in format 2.
    """
    relevant = {
        path: value
        for path, _, value in agreeing(info, "protocol")
        if value is not None and value != {} and value != []
    }
    if every_file and info.benchmark.files:
        relevant["benchmark.files"] = info.benchmark.files
    return f"sha256:{hashlib.sha256(canonical(relevant).encode()).hexdigest()}"


def canonical(value: object) -> str:
    """Return a value as text: unlike the values themselves, 1 and true are not equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
