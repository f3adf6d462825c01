"""The fields of `run.json` and their types. `docs/runs.md` describes each, and a test compares."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta, ValidationError, convert

from envhub.declarations import NAME
from envhub.errors import RunDirectoryError
from envhub.options import Argument, SandboxKind
from envhub.types import Placement

Name = Annotated[str, Meta(pattern=rf"^{NAME.pattern}\Z")]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


class BenchmarkFields(TypedDict):
    """Which benchmark was evaluated."""

    ref: str
    path: str | None
    name: str
    kind: Literal["local", "plugin", "hub"]
    files: dict[str, str]
    package: NotRequired[str]
    repo: NotRequired[str]
    commit: NotRequired[str]
    endpoint: NotRequired[str]
    proof: NotRequired[Literal["git", "listing"]]
    consent: NotRequired[Literal["flag", "ledger"]]
    env_args: dict[str, Argument]
    env_vars: NotRequired[list[str]]
    assets: NotRequired[dict[str, str]]
    asset_sources: NotRequired[dict[str, str]]
    plugins: list[str]
    conventions: NotRequired[dict[str, str]]
    lerobot_conventions: NotRequired[dict[str, str]]


class TaskFields(TypedDict):
    """What is fixed of a task."""

    horizon: Positive
    success: Literal["once", "at_end", "ever"]
    init_states: Count


class PlanFields(TypedDict):
    """Which episodes were planned."""

    suites: dict[Name, list[Name]]
    episodes: Positive
    seed: Count
    max_steps: Positive | None
    reuse: Literal["reset", "rebuild"]
    tasks: dict[Name, TaskFields]


class PolicyRuntimeFields(TypedDict):
    """The interpreter of the policy's own process."""

    kind: Literal["here", "isolated", "named"]
    key: str | None
    path: str | None
    python: str
    packages: dict[str, str]


class ModelFields(TypedDict):
    """A repository or a directory that a checkpoint names, such as its tokenizer."""

    repo: str | None
    commit: str | None
    files: dict[str, str]


class CheckpointFields(TypedDict):
    """The checkpoint that the policy was made of."""

    repo: str | None
    commit: str | None
    files: dict[str, str]
    models: NotRequired[dict[str, ModelFields]]


class ProvidedFields(TypedDict):
    """What a provider says of its policy."""

    scheme: str
    package: str
    version: str
    files: dict[str, str]
    details: dict[str, Argument]


class LatencyFields(TypedDict):
    """How long the policy took to act."""

    calls: int
    p50: float
    p95: float
    counts: dict[str, int]


class OutlierFields(TypedDict):
    """A number of a state far outside what the checkpoint was trained with."""

    task: str
    feature: str
    index: Count
    value: float
    statistics: dict[str, float]


class PolicyFields(TypedDict):
    """Which policy was evaluated."""

    kind: Literal["named", "object"]
    ref: str
    path: str | None
    sha256: str | None
    imports: dict[str, str]
    args: dict[str, Argument]
    files: dict[str, str]
    directory: str
    checkpoint: NotRequired[CheckpointFields | None]
    provided: NotRequired[ProvidedFields | None]
    batch: int | None
    placement: Placement | None
    about: NotRequired[dict[str, str]]
    latency: NotRequired[LatencyFields | None]
    outliers: NotRequired[list[OutlierFields]]
    runtime: NotRequired[PolicyRuntimeFields | None]
    processes: NotRequired[list[str | None]]


class ConventionFields(TypedDict):
    """What actions and observations mean, by both sides."""

    ignore: bool
    benchmark: dict[str, str | float]
    policy: dict[str, str | float]
    overridden: list[str]


class RuntimeFields(TypedDict):
    """The interpreter of the workers."""

    kind: Literal["here", "isolated"]
    key: str | None
    python: str
    packages: dict[str, str]
    unmet: list[str]


class MachineFields(TypedDict):
    """What the last bits of a result can depend on."""

    arch: str
    cpu: str | None
    flags: list[str]
    libc: str | None
    openblas: str | None
    gl: str | None
    gl_devices: NotRequired[list[int]]


class ProtectionFields(TypedDict):
    """How the benchmark's code was confined."""

    process: bool
    sandbox: SandboxKind
    network: bool
    memory_mb: int | None
    differences: NotRequired[list[str] | None]


class LimitFields(TypedDict):
    """Seconds after which a process that does not answer is ended."""

    start: float
    reset: float
    step: float
    act: float
    close: float


class ManifestFields(TypedDict):
    """The content of `run.json`."""

    format: int
    envhub: str
    created: datetime
    benchmark: BenchmarkFields
    plan: PlanFields
    policy: PolicyFields
    conventions: NotRequired[ConventionFields]
    runtime: RuntimeFields
    machine: NotRequired[MachineFields]
    protection: ProtectionFields
    limits: LimitFields
    retries: Count
    protocol: str
    seal: NotRequired[str | None]


def check_shape(manifest: Mapping[str, Any], directory: Path) -> None:
    """Refuse a `run.json` that lacks a field, or has something else there. Others are ignored.

    Raises:
        RunDirectoryError: It does; says where.
    """
    try:
        convert(manifest, ManifestFields)
        tasks = {task for suite in manifest["plan"]["suites"].values() for task in suite}
        if tasks != set(manifest["plan"]["tasks"]):
            raise ValidationError("The suites name other tasks than there are - at `$.plan.suites`")
    except ValidationError as exc:
        raise RunDirectoryError(
            f"{directory}/run.json is damaged, or of another version of EnvHub: "
            f"{describe(exc)}. Restore the file, or start a new run in another directory."
        ) from exc


def describe(error: ValidationError) -> str:
    """Say in one line what is wrong, and in which field."""
    problem, _, place = str(error).partition(" - at ")
    field = place.replace("`", "").replace("$.", "").removeprefix("$")
    return f"{field}: {problem}" if field else problem
