"""Makes a policy, in a worker or in the policy's own process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from envhub.declarations import Benchmark
from envhub.errors import ContractError
from envhub.loader import load_object, load_source
from envhub.types import Batch, FileSource, PolicySource
from envhub.wire.messages import EpisodeInfo
from envhub.wire.policy_contract import Context, check_call, make_rng
from envhub.wire.spaces import AnySpace, Spaces, leaves, outline_of, unflatten
from envhub.worker.policy.caller import PolicyCaller

R = TypeVar("R")


def make_caller(
    source: PolicySource | Callable[..., object],
    benchmark: Benchmark,
    spaces: Spaces,
    batch: Batch = 1,
) -> PolicyCaller:
    """Make a policy.

    Args:
        source: The place of its factory, or the factory of a program.
        benchmark: The benchmark that it acts in.
        spaces: The spaces of raw observations and of actions.
        batch: The rows of its calls if it declares none.
    """
    factory: Any = _find_factory(source) if isinstance(source, PolicySource) else source
    if not callable(factory):
        assert isinstance(source, PolicySource)
        type_name = type(factory).__name__
        raise ContractError(
            f"{source.name!r} is a {type_name}, not a function that makes a policy."
        )
    args = source.args if isinstance(source, PolicySource) else {}
    _check_factory(factory, args)
    made = factory(benchmark, *spaces, **args)
    return PolicyCaller(made, [leaf.path for leaf in leaves(spaces[0])], spaces[1], batch)


class ObservationView:
    """The part of observations that a policy sees: all leaves, or those that it needs."""

    def __init__(self, space: AnySpace, needs: Collection[str] | None) -> None:
        every = [leaf.path for leaf in leaves(space)]
        self.paths = tuple(path for path in every if needs is None or path in needs)
        named = {path: path for path in self.paths}
        # The keys of leaves that the policy does not see are left out.
        self._outline = outline_of(space) if len(named) == len(every) else _nested(named)
        self._flat = self._outline == named

    def of(self, values: dict[str, Any]) -> Any:
        """Build an observation from the values of its leaves."""
        return values if self._flat else unflatten(self._outline, values)

    def batch(self, rows: Sequence[R], value: Callable[[R, str], Any]) -> Any:
        """Build a batch of observations; texts are lists.

        Args:
            rows: The envs.
            value: Returns the value of an env at a leaf.
        """
        return self.of({path: _stack([value(row, path) for row in rows]) for path in self.paths})


def context_of(
    info: EpisodeInfo, own: Mapping[str, str], instruction: str | None = None
) -> Context:
    """Make the context of an episode that begins.

    Args:
        info: The episode, as the host knows it.
        own: The instructions that the policy brings along, by task; the user's come first.
        instruction: The instruction that the env gave since then; None: the host knows it.
    """
    description = instruction or info.description
    if not info.fixed:
        description = own.get(info.task, description)
    rng = make_rng(info.seed, info.task)
    return Context(info.suite, info.task, description, info.index, info.seed, rng=rng)


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


def _check_factory(factory: Any, args: Mapping[str, object]) -> None:
    name = getattr(factory, "__name__", type(factory).__name__)
    words = ", ".join(("benchmark, observation_space, action_space", *(f"{n}=..." for n in args)))
    check_call(name, factory, f"{name}({words})", 3, tuple(args))


def _find_factory(policy: PolicySource) -> object:
    module = policy.module
    if not isinstance(module, FileSource):
        return load_object(f"{module}:{policy.name}", None, confined=policy.confined)
    declaring = load_source(module)
    if not hasattr(declaring, policy.name):
        signature = f"{policy.name}(benchmark, observation_space, action_space)"
        raise ContractError(f"{module.file} has no function {signature} that makes a policy.")
    return load_object(f":{policy.name}", declaring, confined=policy.confined)
