"""The kinds of policies, each with the same verbs.

    written                              kind          acts in
    random, zero                         Builtin       the worker
    a name that the benchmark declares   OfBenchmark   the worker, as confined as it
    ./policy.py[:name]                   OfFile        a process of its own
    package.module:name, NAME[:TEXT]     OfModule      a process of its own
    an object given to `evaluate`        InProgram     this process
    SCHEME:REST, of a provider           Provided      a process of its own

`obtain` is the only verb that may use the network, and is called once, before the plan. `identify`
says what `run.json` records. `interpreter` chooses what the policy's process runs on, and `factory`
says what is loaded there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from envhub.declarations import Benchmark
from envhub.discovery import find
from envhub.errors import UsageError
from envhub.options import Argument
from envhub.policies.interpreter import (
    AskedInterpreter,
    PolicyRuntime,
    choose_for_file,
    choose_interpreter,
)
from envhub.policies.provider import ProvidedPolicy, Wanted
from envhub.policies.providers import ask_provider, find_provider
from envhub.refs import PathRef
from envhub.run_info import PolicyInfo, ProvidedInfo
from envhub.sources.find import locate
from envhub.sources.fingerprint import hash_file, hash_named_files
from envhub.sources.siblings import hash_siblings
from envhub.types import FileSource, PolicySource, Source, confinement_of

Factory = PolicySource | Callable[..., object]
"""The place of a function that makes a policy, or such a function of this program."""

BUILTIN = {"random": "make_random", "zero": "make_zero"}
"""The policies of `envhub.worker.policy.builtin`, and their factories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What all kinds have."""

    args: Mapping[str, Argument] = field(default_factory=dict)
    """The user's arguments for the factory."""
    directory: Path = field(default_factory=Path.cwd)
    """Where the policy runs, and relative paths in its arguments begin."""

    def obtain(self, wanted: Wanted) -> Self:
        """Return the policy with all that it needs on this machine.

        Args:
            wanted: The user's token, the receivers of messages, and what the run recorded before;
                the policy's own arguments and directory are put into it.

        Raises:
            UsageError: It does not exist.
            SourceError: It cannot be fetched.
        """
        return self

    def _info(self, **fields: Any) -> PolicyInfo:
        files = hash_named_files(self.args, self.directory)
        directory = str(self.directory.absolute())
        return PolicyInfo(args=dict(self.args), files=files, directory=directory, **fields)


class _WithoutProcess(_Common):
    """A policy that has no process of its own."""

    __slots__ = ()
    where: ClassVar[str]
    """For errors."""

    def interpreter(self, asked: AskedInterpreter) -> PolicyRuntime | None:
        """Return None: there is nothing to choose.

        Raises:
            UsageError: The user names an interpreter.
        """
        if asked.python is not None:
            raise no_process("--policy-python", self.where)
        return None


class _InWorker(_WithoutProcess):
    __slots__ = ()
    acts_in: ClassVar[Literal["worker"]] = "worker"
    where = "runs where the benchmark does"


@dataclass(frozen=True, slots=True)
class Builtin(_InWorker):
    """A policy of EnvHub."""

    name: str

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records."""
        return self._info(kind="builtin", ref=self.name)

    def factory(self, benchmark: Benchmark, source: Source) -> PolicySource:
        """Return the place of the function that makes it."""
        return PolicySource("envhub.worker.policy.builtin", BUILTIN[self.name], dict(self.args))


@dataclass(frozen=True, slots=True)
class OfBenchmark(_InWorker):
    """A policy of the benchmark; or a name that nothing else has, until the benchmark is known."""

    name: str

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records: its code is among the benchmark's files."""
        return self._info(kind="benchmark", ref=self.name)

    def factory(self, benchmark: Benchmark, source: Source) -> PolicySource:
        """Return the place of the function that makes it, as confined as the benchmark."""
        module, _, name = benchmark.policies[self.name].partition(":")
        code = module or (source if isinstance(source, FileSource) else find(source.name).module)
        confined = confinement_of(source) is not None
        return PolicySource(code, name, dict(self.args), confined=confined)


@dataclass(frozen=True, slots=True)
class OfFile(_Common):
    """A policy in a file of the user."""

    acts_in: ClassVar[Literal["process"]] = "process"
    ref: str
    path: str
    name: str = "make_policy"

    def obtain(self, wanted: Wanted) -> Self:
        """Check that the file is there, and is one that can be loaded."""
        if Path(self.path).is_dir():
            raise UsageError(f"{self.path} is a directory: name the policy's file.")
        self._source()
        return self

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records, with the hashes of the file and of what it imports."""
        source = self._source()
        path = Path(source.directory, source.file)
        return self._info(
            kind="file",
            ref=self.ref,
            path=f"{path}:{self.name}",
            sha256=hash_file(path).removeprefix("sha256:"),
            imports=hash_siblings(path),
        )

    def interpreter(self, asked: AskedInterpreter) -> PolicyRuntime | None:
        """Choose the interpreter: the user's, or as the file declares."""
        return choose_for_file(self._source(), asked)

    def factory(self, benchmark: Benchmark, source: Source) -> PolicySource:
        """Return the place of the function that makes it."""
        return PolicySource(self._source(), self.name, dict(self.args))

    def _source(self) -> FileSource:
        return locate(PathRef(self.path))


@dataclass(frozen=True, slots=True)
class OfModule(_Common):
    """A policy of an installed package, by its module or by an entry point."""

    acts_in: ClassVar[Literal["process"]] = "process"
    ref: str
    module: str
    name: str = "make_policy"
    argument: str = ""
    """What follows the name of an entry point."""

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records."""
        return self._info(kind="module", ref=self.ref)

    def interpreter(self, asked: AskedInterpreter) -> PolicyRuntime | None:
        """Choose the interpreter: the user's, or this one."""
        return choose_interpreter(asked)

    def factory(self, benchmark: Benchmark, source: Source) -> PolicySource:
        """Return the place of the function that makes it."""
        extra = {"argument": self.argument} if self.argument else {}
        return PolicySource(self.module, self.name, {**self.args, **extra})


@dataclass(frozen=True, slots=True)
class InProgram(_WithoutProcess):
    """A policy object of this program."""

    acts_in: ClassVar[Literal["program"]] = "program"
    where = "is an object of this program"
    policy: Any

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records: its class, and what a provider's loader said of it."""
        said = getattr(self.policy, "provided", None)
        provided = said if isinstance(said, ProvidedInfo) else None
        return self._info(kind="object", ref=type(self.policy).__qualname__, provided=provided)

    def factory(self, benchmark: Benchmark, source: Source) -> Factory:
        """Return a function that gives the object, bound to the benchmark if it can be."""
        bind = getattr(self.policy, "for_spaces", None)
        return bind if bind is not None else lambda *_: self.policy


@dataclass(frozen=True, slots=True)
class Provided(_Common):
    """A policy that an installed provider knows by its scheme."""

    acts_in: ClassVar[Literal["process"]] = "process"
    scheme: str
    rest: str
    answer: ProvidedPolicy | None = None
    """What the provider said; None until it is obtained."""
    ref: str = ""
    """What the user wrote, of a run that is resumed; empty: the scheme and the rest."""

    def obtain(self, wanted: Wanted) -> Self:
        """Ask the provider, which fetches what the policy needs."""
        answer = ask_provider(
            self.scheme, self.rest, replace(wanted, args=self.args, directory=self.directory)
        )
        args = self.args if answer.args is None else answer.args
        return replace(self, args=args, answer=answer)

    def identify(self) -> PolicyInfo:
        """Return what `run.json` records, with what the provider says."""
        answer, provider = self._answer(), find_provider(self.scheme)
        return self._info(
            kind="provided",
            ref=self.ref or f"{self.scheme}:{self.rest}",
            path=f"{self.scheme}:{answer.place}",
            provided=ProvidedInfo(
                scheme=self.scheme,
                package=provider.distribution,
                version=provider.version,
                files=dict(answer.files),
                details=dict(answer.details),
            ),
        )

    def interpreter(self, asked: AskedInterpreter) -> PolicyRuntime | None:
        """Choose the interpreter: the user's, with the provider's package, or this one."""
        return choose_interpreter(
            asked,
            subject=f"{self.scheme}:{self.rest}",
            requires=self._answer().requires,
            packages=(find_provider(self.scheme).distribution,),
        )

    def factory(self, benchmark: Benchmark, source: Source) -> PolicySource:
        """Return the place of the function that the provider names."""
        module, _, name = self._answer().factory.partition(":")
        return PolicySource(module, name, dict(self._answer().factory_args))

    def _answer(self) -> ProvidedPolicy:
        assert self.answer is not None, "obtain() comes first"
        return self.answer


PolicyKind = Builtin | OfBenchmark | OfFile | OfModule | InProgram | Provided


def no_process(option: str, where: str) -> UsageError:
    """Return the error that an option is for policies with a process of their own.

    Args:
        option: As the user writes it.
        where: Where this one acts, as the end of a sentence.
    """
    return UsageError(
        f"{option} is for a policy with a process of its own; this one {where}. Leave it out."
    )
