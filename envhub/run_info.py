"""What `run.json` says of a policy, as types."""

from typing import Any, Literal

import msgspec

from envhub.options import Argument

Value = bool | int | float | str | None | list[Any] | dict[str, Any]
"""A value that JSON has."""


class ProvidedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says of its policy."""

    scheme: str
    package: str
    """The provider's distribution."""
    version: str
    files: dict[str, str] = {}
    """The hashes that must agree to resume, by name: `sha256:...`."""
    details: dict[str, Value] = {}
    """What else a reader wants to know, such as a repository and its commit."""


class PolicyRuntimeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter of the policy's own process."""

    kind: Literal["here", "isolated", "named"]
    key: str | None
    path: str | None
    python: str
    packages: dict[str, str]


class LatencyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How long the policy took to act."""

    calls: int
    p50: float
    p95: float
    counts: dict[str, int]


class OutlierInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a state far outside what the policy was trained with."""

    task: str
    feature: str
    index: int
    value: float
    statistics: dict[str, float]


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which policy was evaluated."""

    kind: Literal["builtin", "benchmark", "file", "module", "object", "provided"]
    ref: str
    """As it was given."""
    path: str | None = None
    """The reference that names it from any directory, if `ref` does not."""
    sha256: str | None = None
    """Of its file."""
    imports: dict[str, str] = {}
    """The hashes of the files beside it that it imports."""
    args: dict[str, Argument] = {}
    files: dict[str, str] = {}
    """The hashes of the files that its arguments name."""
    directory: str
    """Where it ran, and relative paths in its arguments began."""
    provided: ProvidedInfo | None = None
    batch: int | None = None
    placement: Literal["process", "worker"] | None = None
    about: dict[str, str] = {}
    latency: LatencyInfo | None = None
    outliers: list[OutlierInfo] = []
    runtime: PolicyRuntimeInfo | None = None
    """None: it has no process of its own."""
    processes: list[str | None] = []
    """The GPU of each of its processes; None: those that the user's variables say."""
