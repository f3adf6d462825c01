"""Every error that EnvHub raises on purpose, and the exit code that it ends a command with.

    EnvHubError
    ├── UsageError                    2  invalid argument
    │   ├── InvalidReference          2  also a ValueError: the text names no benchmark
    │   ├── UnknownName               2  also a LookupError: no such benchmark, suite, task ...
    │   ├── UnpinnedReference         2  also a RuntimeError: a Hub reference that can change
    │   ├── UnsupportedPlatform       2  not Linux
    │   ├── SandboxUnavailable        2  the sandbox that was asked for does not work here
    │   ├── HomeExposed               2  a sandbox would have to show the user's home
    │   ├── NoScratchDirectory        2  no scratch directory can be made
    │   ├── ConventionsDiffer         2  a policy was made for other conventions
    │   ├── NoNodePlays               2  a cluster has no node that can play
    │   └── RunDirectoryError         2  a run's directory cannot be used as was asked
    ├── RemoteCodeRefused             3  also a RuntimeError: nobody agreed to run this code
    ├── SourceError                   6  the files of a source are not available
    │   ├── SourceUnavailable         6  it cannot be reached, or does not exist
    │   │   └── HubUnreachable        6  the Hub did not answer at all
    │   └── SourceCorrupt             6  what came is not what was asked for
    ├── RuntimeUnavailable            5  a benchmark's requirements are not available
    └── ContractError                 4  a benchmark, plugin or policy breaks its contract
        ├── RunAborted                4  the same error again and again: nothing can be evaluated
        ├── InvalidBenchmark          4  also a ValueError: a declared value makes no sense
        ├── InvalidEnvs               4  also a ValueError: make_env returned something else
        ├── InvalidObservation        4  also a ValueError: wrong layout or dtype
        ├── PluginError               4  a plugin cannot be used
        └── WorkerError               4  something happened to a worker process
            ├── WorkerRaised          4  the code in it raised
            ├── WorkerTimeout         4  it did not answer within its limit
            └── WorkerDied            4  it ended, or broke the protocol and was ended

A message is one or two sentences: what happened, what was found, what to do next. The data that it
speaks of is in attributes.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class ExitCode(IntEnum):
    """What a command's exit status means."""

    DONE = 0
    FOUND = 1
    USAGE = 2
    REFUSED = 3
    CONTRACT = 4
    RUNTIME = 5
    SOURCE = 6
    INTERRUPTED = 130


class EnvHubError(Exception):
    """The root of all errors that EnvHub raises on purpose."""

    exit_code: ClassVar[ExitCode] = ExitCode.FOUND


class UsageError(EnvHubError):
    """An argument is invalid."""

    exit_code = ExitCode.USAGE


class InvalidReference(UsageError, ValueError):
    """A text that names no benchmark.

    Attributes:
        text: What was given, as text.
        position: The index in `text` of the first character that is wrong.
    """

    def __init__(self, text: str, position: int, problem: str, instead: str) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(
            f"Invalid reference {shown!a}, at character {position + 1}: {problem}. {instead}"
        )
        self.text = text
        self.position = position


class UnknownName(UsageError, LookupError):
    """A benchmark, suite, task or other name that does not exist.

    Attributes:
        kind: What kind of thing was looked for, e.g. `task`.
        name: The name that was asked for.
        matches: The closest names that exist, best first.
    """

    def __init__(self, kind: str, name: str, known: "Iterable[str]", *, advice: str = "") -> None:
        known = sorted(known)
        self.kind = kind
        self.name = name
        from difflib import get_close_matches  # commands must start fast

        self.matches = tuple(get_close_matches(name, known, n=3, cutoff=0.5))
        if self.matches:
            found = f"Did you mean {_either(self.matches)}?"
        elif known:
            listed = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if known[8:] else "")
            found = f"Available: {listed}."
        else:
            found = "None is available."
        super().__init__(" ".join(filter(None, (f"No {kind} is called {name!r}.", found, advice))))


class UnpinnedReference(UsageError, RuntimeError):
    """A Hub reference without a full commit, which can change under your feet."""


class UnsupportedPlatform(UsageError):
    """EnvHub runs on Linux only."""


class SandboxUnavailable(UsageError):
    """The sandbox that was asked for does not work here.

    Attributes:
        choice: Which one was asked for.
        problems: What keeps each from working.
    """

    def __init__(self, choice: str, problems: dict[str, str]) -> None:
        which = "No sandbox" if choice == "auto" else f"The sandbox {choice!r}"
        verb = "works" if choice == "auto" else "does not work"
        found = "; ".join(f"{kind}: {problem}" for kind, problem in problems.items())
        super().__init__(
            f"{which} {verb} here: {found}. `envhub doctor` says what to install or to set; "
            "--sandbox none runs the code unprotected, if you trust it with everything you have."
        )
        self.choice = choice
        self.problems = problems


class HomeExposed(UsageError):
    """A directory that a sandbox would have to show holds the user's home.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: "Path") -> None:
        super().__init__(
            f"The sandbox would have to show {path} to foreign code, and with it your home "
            "directory. Move what is needed into a directory of its own."
        )
        self.path = path


class NoScratchDirectory(UsageError):
    """No scratch directory can be made where temporary files belong.

    Attributes:
        directory: The directory.
        problem: Why not.
    """

    def __init__(self, directory: str, problem: str) -> None:
        super().__init__(
            f"No scratch directory can be made in {directory}: {problem}. Set TMPDIR to an "
            "existing directory that you can write to and that has free space."
        )
        self.directory = directory
        self.problem = problem


class ConventionsDiffer(UsageError):
    """A policy was made for other conventions than the benchmark has.

    Attributes:
        benchmark: The benchmark's conventions.
        policy: The policy's.
    """

    def __init__(
        self,
        problem: str,
        benchmark: "Mapping[str, str | float]",
        policy: "Mapping[str, str | float]",
    ) -> None:
        super().__init__(
            f"The policy was made for other conventions: {problem}. Convert what it reads and "
            "returns, or correct the declaration that is wrong; --ignore-conventions runs it all "
            "the same, and records that."
        )
        self.benchmark = benchmark
        self.policy = policy


class NoNodePlays(UsageError):
    """A cluster has no node that can play."""


class RunDirectoryError(UsageError):
    """A run's directory cannot be used as was asked."""


class RemoteCodeRefused(EnvHubError, RuntimeError):
    """Code from the Hub that nobody here has agreed to execute."""

    exit_code = ExitCode.REFUSED


class SourceError(EnvHubError):
    """The files of a source are not available."""

    exit_code = ExitCode.SOURCE


class SourceUnavailable(SourceError):
    """A source cannot be reached, or does not exist."""


class HubUnreachable(SourceUnavailable):
    """The Hub did not answer at all."""


class SourceCorrupt(SourceError):
    """What came is not what was asked for; nothing of it was executed."""


class RuntimeUnavailable(EnvHubError):
    """The runtime that a benchmark requires cannot be built or used.

    Attributes:
        requirement: The one that is not available, where that is known.
        said: The last lines of the tool that was to build it.
        refused: Whether that tool found that these packages cannot be installed.
    """

    exit_code = ExitCode.RUNTIME

    def __init__(
        self,
        problem: str,
        advice: str,
        *,
        requirement: str | None = None,
        said: str = "",
        refused: bool = False,
    ) -> None:
        said = printable(said).strip()
        quoted = f"\nuv said:\n{_indent(said)}\n" if said else " "
        super().__init__(f"{printable(problem)}{quoted}{printable(advice)}")
        self.requirement = requirement
        self.said = said
        self.refused = refused


class ContractError(EnvHubError):
    """A benchmark, plugin or policy does not keep its side of the contract."""

    exit_code = ExitCode.CONTRACT


class RunAborted(ContractError):
    """The same error from the start, again and again: nothing can be evaluated."""


class InvalidBenchmark(ContractError, ValueError):
    """A declared value of a benchmark or task makes no sense."""


class InvalidEnvs(ContractError, ValueError):
    """What `make_env` returned is none of the accepted shapes.

    Attributes:
        key: Where in the returned value the problem stands, e.g. `('suite', 'task')`.
    """

    def __init__(self, problem: str, key: tuple[object, ...] = ()) -> None:
        super().__init__(
            "make_env must return a gymnasium Env or VectorEnv, a callable that makes an Env or a "
            f"list of them, {{task: env}} or {{suite: {{task: env}}}}: {problem}"
        )
        self.key = key


class InvalidObservation(ContractError, ValueError):
    """An observation whose layout or dtype policies cannot take.

    Attributes:
        path: The leaf of the observation, e.g. `pixels/image`.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"Observation {path!r}: {problem}")
        self.path = path


class PluginError(ContractError):
    """A plugin cannot be used.

    Attributes:
        plugin: The plugin's name.
        distribution: The package that it came from, or None for a file.
    """

    def __init__(self, plugin: str, problem: str, *, distribution: str | None = None) -> None:
        source = f" of {distribution}" if distribution else ""
        super().__init__(f"Plugin {plugin!r}{source} {problem}")
        self.plugin = plugin
        self.distribution = distribution


class WorkerError(ContractError):
    """Something happened to a worker process.

    Attributes:
        doing: What it was doing, e.g. `reset of task 'reach' in env 3`.
        where: Whose code was running.
        log: The last lines that the process printed.
        hint: A sentence about the place that it ran in, if that explains the error.
    """

    def __init__(self, doing: str, problem: str, *, log: str = "", hint: str = "") -> None:
        log, problem = printable(log), printable(problem)
        quoted = f"\nIts last lines:\n{_indent(log)}" if log.strip() else ""
        super().__init__(f"{doing}: {problem}{quoted}" + (f"\n{hint}" if hint else ""))
        self.doing = doing
        self.problem = problem
        self.log = log
        self.hint = hint
        self.where: Literal["env", "policy"] = "env"


class WorkerRaised(WorkerError):
    """The code in a worker raised.

    Attributes:
        kind: The name of the exception's class.
        message: Its text.
        contract: Whether EnvHub itself raised it there, because a contract was broken.
        traceback: Its traceback, as text.
        place: File, line and function of the last frame of the user's own code, if known.
    """

    def __init__(
        self,
        doing: str,
        kind: str,
        message: str,
        *,
        contract: bool = False,
        traceback: str = "",
        where: Literal["env", "policy"] = "env",
        log: str = "",
        place: str = "",
        hint: str = "",
    ) -> None:
        text = message if contract else ": ".join(filter(None, (kind, message)))
        told = not place or f"({place})" in text  # as by a syntax error
        super().__init__(doing, text if told else f"{text} ({place})", log=log, hint=hint)
        self.kind = kind
        self.message = message
        self.contract = contract
        self.traceback = traceback
        self.place = place
        self.where = where


class WorkerTimeout(WorkerError):
    """A worker did not answer within its limit, and was ended."""


class WorkerDied(WorkerError):
    """A worker process ended, or broke the protocol and was ended."""


def printable(text: str) -> str:
    """Foreign text without the characters that could rewrite a terminal or cannot be seen."""
    return "".join(
        c
        if (c.isprintable() and c not in _INVISIBLE) or c in "\n\t"
        else c.encode("unicode_escape").decode()
        for c in text
    )


def one_line(text: str) -> str:
    """Foreign text that stays on its line: as `printable`, and line ends and tabs are escaped."""
    return printable(text).replace("\n", r"\n").replace("\t", r"\t")


# Characters that Python takes for printable and nobody sees: those of Unicode's property
# Default_Ignorable_Code_Point that are letters or marks, and the empty Braille pattern.
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def _either(names: tuple[str, ...]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _indent(text: str) -> str:
    return "\n".join("  | " + line for line in text.strip().splitlines())
