"""The events that a policy runner hands to the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from envhub.errors import WorkerError
from envhub.evaluation.slot import Slot
from envhub.types import Outlier
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
