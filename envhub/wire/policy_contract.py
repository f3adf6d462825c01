"""The contract of policies: the methods that EnvHub calls, and the context of an episode."""

import hashlib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature, signature
from typing import Any, Protocol, get_args

import numpy as np

from envhub.conventions import check_conventions
from envhub.errors import ContractError
from envhub.types import Batch, PolicyFacts, PolicyFormat
from envhub.wire.values import Array

Chunks = Array | list[Array]
"""One chunk of actions per row; a list if their lengths differ."""

PADDING = -1
"""The index of an episode that does not exist, in rows that only fill a batch."""


@dataclass(slots=True)
class Context:
    """One episode, as its policy sees it."""

    suite: str
    task: str
    description: str
    """The task, in words."""
    index: int
    """The index among the task's episodes; -1 in rows that only fill a batch."""
    seed: int
    step: int = 0
    """The number of actions taken so far."""
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    """The policy's randomness for this episode; derived from the seed and the task's name."""
    memory: dict[str, Any] = field(default_factory=dict)
    """The policy's own state for this episode."""
    delay: int = 0
    """With `--latency`: how many steps late the result of this call is."""
    committed: Array | None = None
    """With `--latency`: the actions that are taken until then, one per step."""


class Policy(Protocol):
    """An object that acts. Only `act` is required.

    A policy may also have `placement` ("process" by default), `needs` (None: all of the
    observation), `format` ("raw"), `batch` (1), `conventions` ({}), `instructions` ({}),
    `reproducible` (True), `about` ({}), `take_about()`, `start(episode)`, `finish(episode)` and
    `close()`: docs/policies.md describes them.
    """

    def act(self, obs: Any, episodes: Sequence[Context], /) -> Any:
        """Return one action per row, a chunk of actions per row, or a list of chunks."""
        ...


def make_rng(seed: int, task: str) -> np.random.Generator:
    """Make the generator of an episode: the same in every run and on every machine."""
    digest = hashlib.sha256(task.encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])


def check_call(name: str, function: Any, call: str, count: int, named: Sequence[str] = ()) -> None:
    """Check that a function of a policy can be called as it will be.

    Args:
        name: What errors call it.
        function: The function; one that does not say what it takes is not checked.
        call: How it is called, for errors.
        count: The number of its positional arguments.
        named: The names of the others.

    Raises:
        ContractError: It cannot.
    """
    try:
        takes = signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*range(count), **dict.fromkeys(named))
    except TypeError as exc:
        plain = [each.replace(annotation=Parameter.empty) for each in takes.parameters.values()]
        takes = Signature(plain)
        raise ContractError(f"{name} is called as {call}, but takes {takes}: {exc}.") from None


def facts_of(policy: Any, leaves: Sequence[str], batch: Batch = 1) -> PolicyFacts:
    """Return what a policy declares, checked against the leaves of the observation.

    Args:
        policy: The object that a factory returned.
        leaves: The leaf paths of the raw observation.
        batch: The rows of its calls if it declares none.

    Raises:
        ContractError: It is not a policy, or a declaration is invalid.
    """
    name = type(policy).__name__
    if not callable(getattr(policy, "act", None)):
        raise ContractError(f"{name} is not a policy: it has no method act(obs, episodes).")
    check_call(f"{name}.act", policy.act, "act(obs, episodes)", 2)
    placement: Any = getattr(policy, "placement", "process")
    if placement not in ("process", "worker"):
        raise ContractError(f"{name}.placement must be 'process' or 'worker', found {placement!r}.")
    format_: Any = getattr(policy, "format", "raw")
    if format_ not in get_args(PolicyFormat):
        raise ContractError(f"{name}.format must be 'raw' or 'lerobot', found {format_!r}.")
    declared: Any = getattr(policy, "batch", None)
    whole = type(declared) is int and 1 <= declared <= 65536
    if declared is not None and declared != "any" and not whole:
        raise ContractError(f"{name}.batch must be a positive whole number or 'any': {declared!r}.")
    needs = _needed(name, getattr(policy, "needs", None), leaves)
    about = {str(k): str(v) for k, v in dict(getattr(policy, "about", {})).items()}
    remarks = tuple(map(str, getattr(policy, "remarks", ())))
    conventions = check_conventions(name, getattr(policy, "conventions", {}))
    return PolicyFacts(
        placement,
        needs,
        format_,
        batch if declared is None else declared,
        about,
        remarks,
        conventions,
        declares_batch=declared is not None,
        instructions=_instructions(name, getattr(policy, "instructions", {})),
        reproducible=getattr(policy, "reproducible", True) is True,
    )


def _instructions(name: str, declared: Any) -> dict[str, str]:
    """Return the texts by task that a policy is told instead of the benchmark's."""
    good = isinstance(declared, Mapping) and all(
        isinstance(text, str) and text.strip() for text in (*declared, *declared.values())
    )
    if not good:
        raise ContractError(
            f"{name}.instructions must be a mapping of tasks to texts, found "
            f"{reprlib.repr(declared)}."
        )
    return dict(declared)


def _needed(name: str, needs: Any, leaves: Sequence[str]) -> tuple[str, ...] | None:
    """Return the needed leaves; a path to several leaves means all of them."""
    if needs is None:
        return None
    is_list = isinstance(needs, Iterable) and not isinstance(needs, str)
    paths = tuple(needs) if is_list else (needs,)
    if not is_list or not all(isinstance(path, str) for path in paths):
        raise ContractError(f"{name}.needs must be a set of leaf paths, found {needs!r}.")
    needed: set[str] = set()
    for path in paths:
        hits = {leaf for leaf in leaves if leaf == path or leaf.startswith(f"{path}/")}
        if not hits:
            known = ", ".join(leaf or "(the observation itself)" for leaf in leaves)
            raise ContractError(f"{name}.needs has {path!r}, but the observation has: {known}.")
        needed |= hits
    return tuple(leaf for leaf in leaves if leaf in needed)
