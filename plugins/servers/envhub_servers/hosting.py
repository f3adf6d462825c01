"""The policy that is served: made in a process of its own, for the spaces of a benchmark.

Runs in the host, as an evaluation does. The code of the policy, and that of the benchmark, which
says what is observed, run in workers.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError, EnvHubError, UsageError
from envhub.evaluation.plan import select
from envhub.host.loading import LoadedWorker, start_loaded_worker
from envhub.host.remote import RemotePolicy
from envhub.host.waiting import close_workers
from envhub.options import SILENT, Argument, Limits, Reporter, SourceOptions
from envhub.policies.find import find_policy, read_policy
from envhub.policies.interpreter import AskedInterpreter
from envhub.policies.kinds import OfBenchmark, PolicyKind
from envhub.policies.provider import Wanted
from envhub.run_info import PolicyInfo, canonical
from envhub.sources.find import find_source
from envhub.types import HERE, PolicyFacts, PolicySource, PolicySpec, WorkerSpec
from envhub.wire.memory import Buffers, make_memory, needed_bytes, shared_action
from envhub.wire.messages import Acted, BatchRow, Converted, EpisodeInfo, Opened, PolicyLoaded
from envhub.wire.spaces import AnySpace, Leaf, Spaces, leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """What is to be served."""

    policy: str
    ref: str
    """The benchmark whose observations and actions are served."""
    args: Mapping[str, Argument] = field(default_factory=dict)
    env_args: Mapping[str, Argument] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    python: str | None = None
    device: str | None = None
    limits: Limits = field(default_factory=Limits)
    options: SourceOptions = field(default_factory=SourceOptions)
    reporter: Reporter = SILENT


class Slot:
    """The memory of one connection, which the policy's process maps."""

    def __init__(self, index: int, shown: AnySpace, action: AnySpace) -> None:
        self.index = index
        self.memory = make_memory(needed_bytes(1, shown, action))
        self.observations = Buffers(self.memory, 1, shown, action).observations
        self.generation = -1
        """Of the process that maps it."""

    def close(self) -> None:
        """Give the memory back; what is mapped lives on in the process."""
        self.observations = {}
        os.close(self.memory)


class HostedPolicy:
    """A policy in a process of its own, which is replaced if it ends."""

    def __init__(
        self,
        source: PolicySource,
        benchmark: Benchmark,
        spaces: Spaces,
        spec: PolicySpec,
        info: PolicyInfo,
        convert: Callable[[], AnySpace],
    ) -> None:
        """Make the policy.

        Args:
            source: Its factory.
            benchmark: What it acts in.
            spaces: Of one env.
            spec: How its process is started.
            info: What a run would record of it.
            convert: Returns the space of observations in LeRobot's format, if it reads these.
        """
        self.benchmark = benchmark
        self.info = info
        self.action = spaces[1]
        self.generation = 0
        self._source = source
        self._spaces = spaces
        self._spec = spec
        self._index = 0
        self._remote, self.facts = self._start()
        named = self.facts.format != "raw" and benchmark.lerobot is not None
        self.converted: AnySpace | None = convert() if named else None
        shown = spaces[0] if self.converted is None else self.converted
        self._shown = shown
        needs = None if self.converted is not None else self.facts.needs
        self.leaves: tuple[Leaf, ...] = tuple(
            leaf for leaf in leaves(shown) if needs is None or leaf.path in needs
        )
        """What a request must hold."""

    @property
    def digest(self) -> str:
        """A hash of what the policy is, wherever its files lie."""
        told = msgspec.to_builtins(self.info)
        for place in ("ref", "path", "directory"):
            told.pop(place)
        return f"sha256:{hashlib.sha256(canonical(told).encode()).hexdigest()}"

    def make_slot(self, index: int) -> Slot:
        """Make the memory of a connection."""
        return Slot(index, self._shown, self.action)

    def act(
        self,
        rows: tuple[tuple[Slot, BatchRow], ...],
        begin: tuple[EpisodeInfo, ...],
        finish: tuple[int, ...],
    ) -> Acted:
        """Let the policy act for some connections.

        Raises:
            EnvHubError: It failed; if its process has ended, another one is there.
        """
        for slot, _ in rows:
            if slot.generation != self.generation:
                self._remote.map_slot(slot.index, self._index, slot.memory, self.converted)
                self._wait()
                slot.generation = self.generation
        self._remote.act(self._index, tuple(row for _, row in rows), begin, finish)
        answer = self._wait()
        if not isinstance(answer, Acted) or len(answer.actions) != len(rows):
            self._restart()
            raise ContractError("The policy's process sent something else than actions.")
        return answer

    def close(self) -> None:
        """End the process."""
        close_workers([self._remote.worker], limit=self._spec.limits.close)

    def _start(self) -> tuple[RemotePolicy, PolicyFacts]:
        remote = RemotePolicy(self._spec, name="its own process")
        remote.load(self._source, self.benchmark, self._spaces, 1)
        loaded = remote.worker.wait()
        if isinstance(loaded, EnvHubError):
            close_workers([remote.worker], limit=self._spec.limits.close)
            raise loaded
        assert isinstance(loaded, PolicyLoaded)
        self._index = loaded.policy
        return remote, loaded.facts

    def _restart(self) -> None:
        """Replace the process; episodes under way are lost with it."""
        self.close()
        self.generation += 1
        self._remote, facts = self._start()
        if facts != self.facts:
            raise ContractError("The policy declares something else than before.")

    def _wait(self) -> Any:
        outcome = self._remote.worker.wait()
        if isinstance(outcome, EnvHubError):
            if self._remote.worker.ended:
                self._restart()
            raise outcome
        return outcome


def host_policy(request: ServeRequest) -> HostedPolicy:
    """Obtain a policy and make it for the spaces of a benchmark.

    Raises:
        EnvHubError: The policy or the benchmark does not exist, or cannot be made.
    """
    source = find_source(request.ref, request.options, message=request.reporter.message)
    told = request.reporter
    wanted = Wanted(private=request.options.private, message=told.message, progress=told.progress)
    asked = read_policy(request.policy, request.args).obtain(wanted)
    spec = WorkerSpec(source, request.env_args, request.limits, env_vars=request.options.env_vars)
    worker = start_loaded_worker(
        spec,
        request.options.runtime,
        locked=request.options.locked,
        name="worker 0",
        spaces=True,
        reporter=told,
    )
    try:
        benchmark = worker.loaded.benchmark
        policy = find_policy(asked, benchmark)
        if isinstance(policy, OfBenchmark):
            raise UsageError(
                f"{request.policy!r} is a policy of {benchmark.name}, which acts beside its envs: "
                "serve one that acts on observations."
            )
        suite, task = _choose_task(benchmark, request.tasks)
        env = _Env(worker, suite, task)
        runtime = policy.interpreter(AskedInterpreter(request.python, False, told.progress))
        factory = policy.factory(benchmark, source)
        assert isinstance(factory, PolicySource)
        return HostedPolicy(
            factory,
            benchmark,
            env.spaces(),
            PolicySpec(
                request.limits,
                runtime.interpreter if runtime else HERE,
                str(policy.directory),
                request.device,
            ),
            _identify(policy),
            env.convert,
        )
    finally:
        close_workers([worker.remote.worker], limit=request.limits.close)


class _Env:
    """An env of the benchmark, which is made only to ask what it observes."""

    def __init__(self, worker: LoadedWorker, suite: str, task: str) -> None:
        self._worker = worker
        self._suite, self._task = suite, task
        self._opened: Spaces | None = None

    def spaces(self) -> Spaces:
        """Return the spaces of the task."""
        if self._opened is None:
            remote = self._worker.remote
            remote.open(self._suite, self._task)
            self._opened = remote.spaces(remote.answer(Opened))
            if shared_action(self._opened[1]) is None:
                raise ContractError(
                    f"The action space {self._opened[1]} is not a single array; policies act in "
                    "Box, Discrete, MultiDiscrete and MultiBinary spaces."
                )
        return self._opened

    def convert(self) -> AnySpace:
        """Return the space of what the benchmark itself makes of observations for LeRobot."""
        self.spaces()
        remote = self._worker.remote
        remote.convert(None)
        return remote.converted_space(remote.answer(Converted))


def _identify(policy: PolicyKind) -> PolicyInfo:
    return policy.identify()


def _choose_task(benchmark: Benchmark, names: tuple[str, ...]) -> tuple[str, str]:
    chosen: list[tuple[str, Task]] = [
        (suite, task) for suite, tasks in select(benchmark, (), names).items() for task in tasks
    ]
    suite, task = chosen[0]
    return suite, task.name
