"""What users choose, by options of commands and by arguments of functions. Plain data only."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

Argument = bool | int | float | str | None | list[Any] | dict[str, Any]
"""The values that `--env-arg` and `--policy-arg` accept: what JSON can say."""

SandboxKind = Literal["bubblewrap", "landlock", "none"]
SandboxChoice = Literal["auto", "bubblewrap", "landlock", "none"]
"""`auto`: the strongest one that works on this machine."""


@dataclass(frozen=True, slots=True)
class RecordedRuntime:
    """The runtime of a run, as it was recorded: of a plugin's runtimes, the one that is like it."""

    key: str | None
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OtherVersions:
    """A benchmark's runtime with some of its packages in other versions."""

    versions: Mapping[str, str]
    begun: str | RecordedRuntime = "isolated"
    """The runtime whose other packages stay as they are."""


RUNTIMES = ("auto", "here", "isolated")
RuntimeChoice = str | RecordedRuntime | OtherVersions
"""One of `RUNTIMES`, where `auto` is here if the requirements are installed, else isolated; or the
name of a further runtime that a plugin comes with."""

Processes = int | Literal["auto"]
"""Of a policy; `auto`: one per visible GPU, and at least one."""


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What a user says about a policy: its text, its factory's arguments, its interpreter."""

    name: str | None = None
    args: Mapping[str, Argument] = field(default_factory=dict)
    python: str | None = None
    """None: this interpreter, or the one that the policy's file declares."""


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
    `auto`: here if the requirements are installed, else isolated; or the name of a further runtime
    that a plugin comes with."""
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
    def of(cls, caller: str, given: SourceKeywords, others: Iterable[str] = ()) -> "SourceOptions":
        """Return the options that a function was called with.

        Args:
            caller: The name of the function.
            given: The keyword arguments that are not parameters of its own.
            others: Its own parameters, which may have been meant.

        Raises:
            TypeError: One of them is not an option.
        """
        for name in given:
            if name not in cls.__dataclass_fields__:
                from difflib import get_close_matches  # commands must start fast

                near = get_close_matches(name, {*others, *cls.__dataclass_fields__}, 1, 0.75)
                meant = f". Did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}{meant}")
        return cls(**given)


LatencyMode = Literal["wait", "overlap"]


@dataclass(frozen=True, slots=True)
class Delays:
    """How many steps late the results of a policy's calls are, and what is done meanwhile."""

    mode: LatencyMode
    steps: tuple[tuple[int, int], ...]
    """Each number of steps, and how often it is drawn, of all together; a single one is always."""
    hold: tuple[float, ...] = ()
    """The action that does nothing; empty: zeros."""
    keeps: Literal["none", "gripper", "all"] = "none"
    """What of the last action stays as it was while the robot holds still."""


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


Say = Callable[[str], None]
"""Receives a text for the user."""


def _silent(_text: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who is told what happens before envs run; by default nobody."""

    message: Say = _silent
    """Receives sentences that the user should know."""
    progress: Say = _silent
    """Receives a line before something slow."""


SILENT = Reporter()
