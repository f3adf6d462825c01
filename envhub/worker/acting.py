"""Making a policy and calling it, in a worker or in a process of the policy's own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from envhub.errors import ContractError
from envhub.policies.contract import Context, make_rng
from envhub.policies.runner import Runner
from envhub.types import Benchmark, FileSource, PolicySource
from envhub.worker.loader import load_file, load_object
from envhub.worker.protocol import Told
from envhub.worker.spaces import AnySpace, Spaces, leaves, outline_of, unflatten
from envhub.worker.writing import readers

R = TypeVar("R")


def make_runner(
    policy: PolicySource,
    benchmark: Benchmark,
    spaces: Spaces,
    source: FileSource | None = None,
) -> Runner:
    """Make a policy.

    Args:
        policy: Where its factory is.
        benchmark: What it is to act in.
        spaces: Of observations and actions.
        source: The benchmark's file, if it is one.
    """
    factory: Any = _find_factory(policy)
    if not callable(factory):
        kind = type(factory).__name__
        raise ContractError(f"{policy.name!r} is a {kind}, no function that makes a policy.")
    made = factory(benchmark, *spaces, **policy.args)
    return wrap(made, benchmark, spaces, source)


def wrap(
    made: Any,
    benchmark: Benchmark,
    spaces: Spaces,
    source: FileSource | None,
) -> Runner:
    """Take a policy that is made already."""
    convert = None
    if getattr(made, "format", "raw") == "lerobot" and benchmark.lerobot is not None:
        convert = _converter(benchmark.lerobot, source)
    return Runner(made, [leaf.path for leaf in leaves(spaces[0])], spaces[1], convert)


class Sight:
    """What a policy sees of observations: all of their leaves, or those that it needs."""

    def __init__(self, space: AnySpace, needs: Collection[str] | None) -> None:
        every = [leaf.path for leaf in leaves(space)]
        self.paths = tuple(path for path in every if needs is None or path in needs)
        named = {path: path for path in self.paths}
        # The keys of leaves that it does not see are left out.
        self._outline = outline_of(space) if len(named) == len(every) else _nested(named)
        self._flat = self._outline == named

    def of(self, values: dict[str, Any]) -> Any:
        """An observation from the values at its leaves."""
        return values if self._flat else unflatten(self._outline, values)

    def batch(self, rows: Sequence[R], value: Callable[[R, str], Any]) -> Any:
        """A batch of observations; texts are lists.

        Args:
            rows: The envs.
            value: What one of them has at a leaf.
        """
        return self.of({path: _stack([value(row, path) for row in rows]) for path in self.paths})


class Player:
    """A policy beside its env: it acts for one episode at a time."""

    def __init__(self, runner: Runner, space: AnySpace) -> None:
        self.facts = runner.facts
        self._runner = runner
        self._sight = Sight(space, self.facts.needs)
        found = {reader.leaf.path: reader for reader in readers(space)}
        self._readers = [(path, found[path]) for path in self._sight.paths]
        self._seen: dict[str, Any] = {}
        self._context: Context | None = None
        self._chunk: list[Any] = []

    @property
    def hungry(self) -> bool:
        """Whether the next action needs an observation."""
        return not self._chunk

    def start(self, context: Context) -> None:
        """Begin an episode, and end the one before."""
        if self._context is not None:
            self._runner.finish(self._context)
        self._context, self._chunk = context, []
        self._runner.start(context)

    def look(self, observation: Any) -> None:
        """Take in what the policy reads of an observation, as another process would see it."""
        self._seen = {path: reader.row(observation) for path, reader in self._readers}

    def act(self) -> Any:
        """The next action."""
        assert self._context is not None
        if not self._chunk:
            observation = self._sight.of(self._seen)
            self._chunk = [*self._runner.act(observation, [self._context])[0]]
            self._chunk.reverse()
        self._context.step += 1
        return self._chunk.pop()

    def close(self) -> None:
        """End the episode under way, and the policy."""
        if self._context is not None:
            self._runner.finish(self._context)
        self._runner.close()


def context_of(told: Told) -> Context:
    """A new context of an episode."""
    rng = make_rng(told.seed, told.task)
    return Context(told.suite, told.task, told.description, told.index, told.seed, rng=rng)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {}
    for path, value in values.items():
        *parents, last = path.split("/")
        inner = part
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return part


def _stack(values: list[Any]) -> Any:
    return values if isinstance(values[0], str) else np.array(values)


def _find_factory(policy: PolicySource) -> object:
    module = policy.module
    if not isinstance(module, FileSource):
        return load_object(f"{module}:{policy.name}", None)
    declaring = _load(module)
    if not hasattr(declaring, policy.name):
        due = f"def {policy.name}(benchmark, observation_space, action_space)"
        raise ContractError(f"{module.file} has no function that makes a policy: {due}.")
    return load_object(f":{policy.name}", declaring)


def _load(source: FileSource) -> ModuleType:
    return load_file(Path(source.directory), source.file, source.package)


def _converter(target: str, source: FileSource | None) -> Any:
    """The benchmark's own conversion to LeRobot's format."""
    if not target.startswith(":"):
        return load_object(target, None)
    if source is None:
        raise ContractError(
            "The benchmark's own conversion to LeRobot's format is kept in its sandbox, where this "
            "policy is not: set format = 'raw'."
        )
    return load_object(target, _load(source))
