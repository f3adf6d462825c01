"""What the driver and its nodes tell each other: bytes of msgpack, checked where they arrive.

The driver sends a `Begin` to each node, and then one `Exchange` after another, which the node
answers with its state: `Preparing` until it is ready, `Refused` if it cannot play, else a `Report`.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from envhub.errors import RunDirectoryError
from envhub.records import Count, EpisodeRecord, Seconds
from envhub.results.arrays import Arrays, unpack_arrays
from envhub.run_info import LatencyInfo, MachineInfo, OutlierInfo
from envhub.types import PolicyFacts

GENERATION = 1
"""Of these messages: raised by a change that an older node would misread."""
MAX_FILES = 2**26
"""Bytes of the files that are sent to nodes: the benchmark's and the policy's own."""
_MAX_MESSAGE = 2**28

Text = Annotated[str, Meta(max_length=4000)]
Line = Annotated[str, Meta(max_length=300)]
Rows = Annotated[list[tuple[Count, Count]], Meta(max_length=100_000)]
"""The first and the last number of each row of episodes."""


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message."""


class File(Message, frozen=True, kw_only=True):
    """A file, by its path below a directory."""

    path: Line
    content: bytes


class Parcel(Message, frozen=True, kw_only=True):
    """The files of a benchmark or of a policy."""

    files: list[File]
    file: Line
    """Which of them is loaded."""
    package: Line = ""
    name: Line = ""


class Begin(Message, frozen=True, kw_only=True):
    """What a node needs to prepare the evaluation."""

    generation: int
    envhub: Line
    run: dict[str, Any]
    """The content of `run.json`."""
    benchmark: Parcel | None
    """None: an installed plugin."""
    policy: Parcel | None
    """None: it is no file."""
    workers: Annotated[int, Meta(ge=0, le=4096)] | None
    policy_processes: Annotated[int, Meta(ge=1, le=1024)]
    all_devices: bool
    """Whether the policy has a process per visible GPU."""
    max_errors: Annotated[int, Meta(ge=1)]
    worked: bool
    offline: bool


class Exchange(Message, frozen=True, kw_only=True):
    """Asks a node for what it has played, and gives it more."""

    leases: Rows
    stop: bool
    """Finish the episodes under way and start no others."""
    end: bool
    """There are no more leases: end once all of them are played."""
    wait: Seconds
    """How long to wait for something to tell."""


class Preparing(Message, frozen=True, kw_only=True, tag=True):
    """A node is not ready yet."""

    doing: Line


class Refused(Message, frozen=True, kw_only=True, tag=True):
    """A node cannot play."""

    reason: Text
    code: Annotated[int, Meta(ge=1, le=255)]
    """The exit code of a command that failed so."""


class Played(Message, frozen=True, kw_only=True):
    """An episode that has ended."""

    record: EpisodeRecord
    arrays: bytes | None
    """Its actions and steps, as its file has them."""


class Report(Message, frozen=True, kw_only=True, tag=True):
    """What a node has played since the last report, and what that has shown in all."""

    machine: MachineInfo
    workers: Annotated[int, Meta(ge=1, le=4096)]
    played: list[Played]
    slots: list[Line]
    """What its workers are doing."""
    steps: Count
    opened: Count
    ended: bool
    """Whether its engine has stopped."""
    facts: PolicyFacts | None = None
    about: dict[str, str] = {}
    remarks: list[Text] = []
    latency: LatencyInfo | None = None
    outliers: list[OutlierInfo] = []


State = Preparing | Refused | Report

_begin = msgspec.msgpack.Decoder(Begin)
_exchange = msgspec.msgpack.Decoder(Exchange)
_state: msgspec.msgpack.Decoder[State] = msgspec.msgpack.Decoder(State)


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def read_begin(content: bytes) -> Begin:
    """Return the message of these bytes; ValueError if they are something else."""
    return _begin.decode(content)


def read_exchange(content: bytes) -> Exchange:
    """Return the message of these bytes; ValueError if they are something else."""
    return _exchange.decode(content)


class BadMessage(Exception):
    """A node sent something else than it may."""


def read_state(content: object) -> State:
    """Return what a node says.

    Raises:
        BadMessage: It is something else.
    """
    if not isinstance(content, bytes) or len(content) > _MAX_MESSAGE:
        raise BadMessage("it sent no message")
    try:
        return _state.decode(content)
    except ValueError as exc:
        raise BadMessage(f"it sent no message: {str(exc)[:200]}") from exc


def read_arrays(played: Played) -> Arrays:
    """Return the actions and steps of an episode.

    Raises:
        BadMessage: They are none.
    """
    if played.arrays is None:
        return Arrays(None, None)
    place = Path(f"{played.record.number}.npy")
    try:
        return unpack_arrays(played.arrays, place)
    except RunDirectoryError as exc:
        raise BadMessage(f"it sent no arrays: {exc}") from exc
