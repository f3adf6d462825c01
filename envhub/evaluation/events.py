"""What comes of a policy, as the engine is told."""

from dataclasses import dataclass

from envhub.errors import WorkerError
from envhub.evaluation.slot import Slot
from envhub.wire.values import Array


@dataclass(frozen=True, slots=True)
class PolicyReady:
    """What a policy declares is known now."""

    slots: tuple[Slot, ...]
    """Those that waited for it."""


@dataclass(frozen=True, slots=True)
class ActionsReady:
    """Actions for slots, a chunk for each."""

    slots: tuple[Slot, ...]
    actions: Array


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """The policy failed; without slots, while it was made."""

    slots: tuple[Slot, ...]
    error: WorkerError
    lost: bool
    """Whether its process is gone, and with it the state of all episodes."""


Event = PolicyReady | ActionsReady | PolicyFailure
