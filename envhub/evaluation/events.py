"""What a policy runner is, and the events that it hands to the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envhub.errors import WorkerError
from envhub.evaluation.pacing import MessageSize, Pacing
from envhub.evaluation.slot import Slot
from envhub.types import Outlier, PolicyFacts
from envhub.wire.policy_contract import Chunks


@dataclass(frozen=True, slots=True)
class PolicyReady:
    """A policy is made, so that its declarations are known."""

    slots: tuple[Slot, ...]
    """The slots that waited for the policy."""


@dataclass(frozen=True, slots=True)
class ActionsReady:
    """Actions for slots, one chunk per slot."""

    slots: tuple[Slot, ...]
    actions: Chunks
    seconds: float
    """How long the policy took."""
    calls: int
    """The calls of the policy that this took."""
    acting: float
    """How long these calls took, without the message."""
    outliers: tuple[Outlier, ...] = ()
    """Numbers that the policy read, far outside its statistics."""
    remarks: tuple[str, ...] = ()
    """New sentences for the user."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What a run is to record of the policy, as far as it has changed."""


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """The policy failed to act for the slots; without slots, it could not be made."""

    slots: tuple[Slot, ...]
    error: WorkerError
    lost: bool
    """Whether its process has ended, so that its state for all episodes is lost."""


Event = PolicyReady | ActionsReady | PolicyFailure


class PolicyRunner:
    """Calls a policy, wherever it runs; by default one that is asked for each chunk of actions."""

    seconds = 0.0
    """The average duration of a message and its calls; 0 where nothing else happens meanwhile, so
    that waiting for more slots saves nothing."""
    _known: Sequence[tuple[Any, ...]] = ()
    """What is known of the policy, after the spaces that it was made for."""

    def __init__(self) -> None:
        self.waiting: list[Slot] = []
        """Slots that wait for actions."""
        self.awaiting_policy: list[Slot] = []
        """Slots that wait for the policy for their spaces to be made."""
        self.pacing = Pacing()
        """The steps of its slots, which say when to call the policy."""
        self._size = MessageSize()

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """Return what the policy for the slot's spaces declares, if that is known."""
        raise NotImplementedError

    def make_policy(self, slot: Slot) -> None:
        """Make the policy for the slot's spaces; `PolicyReady` follows."""
        self.awaiting_policy.append(slot)

    def begin(self, slot: Slot) -> None:
        """Begin the slot's episode: reset the env; then the slot waits for actions."""
        slot.reset()

    def resume(self, slot: Slot) -> None:
        """Continue an episode that has not ended: only a policy in the worker does so by itself."""
        raise AssertionError(slot)

    def pump(self) -> None:
        """Start the next work, if the runner is free."""

    def event(self) -> Event | None:
        """Return the result of that work, if there is one."""
        return None

    def finished(self, number: int) -> None:
        """Note that an episode has ended."""

    def close(self) -> None:
        """Close the policy."""

    def _most(self, slot: Slot) -> int | None:
        return self._size.most(self.facts(slot))

    def _index(self, slot: Slot) -> int | None:
        known = enumerate(self._known)
        return next((index for index, (spaces, *_) in known if spaces == slot.spaces), None)
