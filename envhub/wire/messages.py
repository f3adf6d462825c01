"""The messages between host and worker. The host asks, the worker answers, one at a time."""

from typing import Annotated, Any, Literal

import msgspec

from envhub.types import Benchmark, FileSource, PolicyFacts, PolicySource, Value
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import CHUNK
from envhub.wire.spaces import SpaceSpec
from envhub.wire.values import check_parts, extension

Text = Annotated[str, msgspec.Meta(max_length=20_000)]

PLAY = 1000
"""Steps that a policy beside the env takes at most before the host hears of them."""


TaskSpaces = Annotated[
    tuple[tuple[tuple[str, ...], SpaceSpec, SpaceSpec], ...], msgspec.Meta(max_length=1000)
]
"""Groups of tasks with one observation and one action space."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    id: int
    """Counts requests; an answer repeats its request's."""


class Load(_Message, frozen=True):
    """Load the benchmark's code. Answer: Loaded."""

    source: FileSource | str
    """A file, or the name of an installed plugin."""
    env_args: dict[str, Value]
    plugins: tuple[str, ...] = ()
    """Further plugins whose hooks apply."""
    horizon: int | None = None
    """For files of the published contract whose envs have none of their own."""
    packages: bool = False
    """Whether to say which packages are installed."""
    spaces: bool = False
    """Whether to say which spaces tasks declare."""


class Open(_Message, frozen=True):
    """Make a task's env, ending the one before. Answer: Opened."""

    suite: str
    task: str


class Attach(_Message, frozen=True):
    """Map the memory whose descriptor comes along. Answer: Done."""

    rows: int
    row: int
    """This worker's."""


class Convert(_Message, frozen=True):
    """Convert observations to LeRobot's names from now on. Answer: Converted."""

    needs: tuple[str, ...] | None = None
    """The leaves of the raw observation that the policy reads; None = all."""


class Reset(_Message, frozen=True):
    """Reset the env. Answer: WasReset."""

    seed: int | None
    options: Any = None
    observe: tuple[str, ...] | None = None
    """The leaves to fill; None = all."""


class Step(_Message, frozen=True):
    """Take the steps whose actions are in shared memory, or up to the end. Answer: Stepped."""

    count: int
    observe: tuple[str, ...] | None = None
    """The leaves to fill by the last step; None = all. Steps before it fill none."""
    scored: bool = False
    """Whether successes are wanted, and no info."""
    until_success: bool = False
    """Whether the first success ends the episode; only for scored steps."""
    inline: bool = False
    """The one action is here and not in shared memory."""
    action: Any = None


class Render(_Message, frozen=True):
    """Render. Answer: Returned."""


class Call(_Message, frozen=True):
    """Call a method of the env, or read an attribute. Answer: Returned."""

    name: str
    args: Any
    kwargs: Any


class SetAttr(_Message, frozen=True):
    """Set an attribute of the env. Answer: Done."""

    name: str
    value: Any


class Close(_Message, frozen=True):
    """Close the env. Answer: Done."""


class LoadPolicy(_Message, frozen=True):
    """Make a policy, here or in a process of its own. Answer: PolicyLoaded."""

    policy: PolicySource
    benchmark: Benchmark
    observation_space: SpaceSpec
    action_space: SpaceSpec


class EpisodeInfo(msgspec.Struct, frozen=True, array_like=True):
    """An episode, for its policy."""

    number: int
    suite: str
    task: str
    description: str
    index: int
    seed: int


class Play(_Message, frozen=True):
    """Let the policy beside the env play, from a reset or on from where it is. Answer: Played."""

    episode: EpisodeInfo
    fresh: bool
    """Whether the env is reset first, and the policy starts the episode."""
    count: int
    """Steps to take at most."""
    until_success: bool
    options: Any = None
    """For the reset."""
    final: bool = False
    """Whether these are all the steps there are, so that nobody reads what the last one shows."""


class MapSlot(_Message, frozen=True):
    """Map the memory of another worker's env, whose descriptor comes along. Answer: Done."""

    slot: int
    policy: int
    """Which of the policies here acts for it."""
    observation_space: SpaceSpec | None = None
    """Of converted observations; None: as the policy was made for."""


class BatchRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of a batch: an episode whose observation lies in a slot's memory."""

    slot: int
    number: int
    step: int
    texts: dict[str, str]


class Act(_Message, frozen=True):
    """Let a policy act. Answer: Acted."""

    policy: int
    rows: tuple[BatchRow, ...]
    begin: tuple[EpisodeInfo, ...]
    """Episodes that it hears of for the first time, or anew."""
    finish: tuple[int, ...]
    """Episodes that have ended."""


class QuickStep(_Message, frozen=True):
    """Take one step with the action in shared memory. Answer: QuickStepped, or Stepped.

    On the wire it is an empty frame; its id follows that of the request before. After a scored Step
    it is one more of the same kind, otherwise all is observed.
    """

    scored: bool = False
    """Whether it follows a scored Step."""


_Encoded = (
    Load | Open | Attach | Convert | Reset | Step | Render | Call | SetAttr | Close | LoadPolicy
    | Play | MapSlot | Act
)  # fmt: skip

Request = _Encoded | QuickStep


class Loaded(_Message, frozen=True):
    """What the source declares."""

    benchmark: Benchmark
    python: Text
    packages: Annotated[dict[str, Text], msgspec.Meta(max_length=1000)]
    """The versions of those that can change what a simulator computes, if they were asked for."""
    spaces: TaskSpaces = ()
    """Tasks with their observation and action space, where the benchmark declares them."""


class Opened(_Message, frozen=True):
    """What the env is like."""

    observation_space: SpaceSpec
    action_space: SpaceSpec
    render_mode: Text | None
    metadata: dict[str, Any]
    selective: bool
    """Whether the env draws only what is observed."""


class Done(_Message, frozen=True):
    """Nothing to tell."""


class Converted(_Message, frozen=True):
    """What the converted observations are like."""

    observation_space: SpaceSpec


class WasReset(_Message, frozen=True):
    """The env was reset; the observation is in shared memory."""

    info: dict[str, Any]
    texts: dict[str, str]


class Stepped(_Message, frozen=True):
    """Steps were taken; the observation of the last is in shared memory."""

    rewards: Annotated[list[float], msgspec.Meta(min_length=1, max_length=CHUNK)]
    terminated: bool
    truncated: bool
    successes: Annotated[list[bool | None], msgspec.Meta(max_length=CHUNK)]
    """One a step if they were wanted, else none."""
    info: dict[str, Any]
    """Of the last step if it was wanted, else empty."""
    texts: dict[str, str]


class Returned(_Message, frozen=True):
    """A value."""

    value: Any


class Failed(_Message, frozen=True):
    """The code raised, or broke its contract."""

    kind: Text
    """The name of the exception's class."""
    message: Text
    traceback: Text
    contract: bool
    """Whether the message is EnvHub's own and says all."""
    where: Literal["env", "policy"] = "env"


class PolicyLoaded(_Message, frozen=True):
    """What a policy declares of itself."""

    facts: PolicyFacts
    policy: int
    """Its number among the policies here."""


class Played(_Message, frozen=True):
    """Steps that the policy beside the env took."""

    rewards: Annotated[list[float], msgspec.Meta(min_length=1, max_length=PLAY)]
    successes: Annotated[list[bool | None], msgspec.Meta(min_length=1, max_length=PLAY)]
    actions: Any
    terminated: bool
    truncated: bool


class Acted(_Message, frozen=True):
    """Actions: an array `(rows, chunk, *action)`."""

    actions: Any


class QuickStepped(_Message, frozen=True):
    """A step was taken, and what came of it is in shared memory: no text, and no info to tell.

    On the wire it is an empty frame. The number of the tick stands in shared memory too.
    """


_EncodedReply = (
    Loaded
    | Opened
    | Done
    | Converted
    | WasReset
    | Stepped
    | Returned
    | Failed
    | PolicyLoaded
    | Played
    | Acted
)

Reply = _EncodedReply | QuickStepped

_EXPECTED: dict[type[Request], tuple[type[Reply], ...]] = {
    Load: (Loaded, Failed),
    Open: (Opened, Failed),
    Attach: (Done, Failed),
    Convert: (Converted, Failed),
    Reset: (WasReset, Failed),
    Step: (Stepped, Failed),
    Render: (Returned, Failed),
    Call: (Returned, Failed),
    SetAttr: (Done, Failed),
    Close: (Done, Failed),
    LoadPolicy: (PolicyLoaded, Failed),
    Play: (Played, Failed),
    MapSlot: (Done, Failed),
    Act: (Acted, Failed),
    QuickStep: (Stepped, Failed),
}

_ONE = Step(0, 1, None)

_SMALL = 2**20
"""Bytes of an answer that cannot harm, however many parts it has."""

_encoder = msgspec.msgpack.Encoder()

_requests: msgspec.msgpack.Decoder[_Encoded] = msgspec.msgpack.Decoder(_Encoded, ext_hook=extension)

_replies: msgspec.msgpack.Decoder[_EncodedReply] = msgspec.msgpack.Decoder(
    _EncodedReply, ext_hook=extension
)


def encode(message: Request | Reply) -> bytes:
    """A message as the payload of a frame; its values must be portable. Ticks have no payload."""
    return _encoder.encode(message)


def decode_request(payload: bytes) -> _Encoded:
    """A frame from the host that is no tick."""
    return _requests.decode(payload)


def decode_reply(payload: bytes, request: Request | None = None) -> Reply:
    """A frame from a worker, which may be anything.

    Args:
        payload: The frame.
        request: What it was asked.

    Raises:
        BrokenChannel: It is no answer.
    """
    if not payload and type(request) is QuickStep:
        return QuickStepped(request.id)
    if len(payload) > _SMALL:
        check_parts(payload)
    try:
        return _replies.decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as exc:
        raise BrokenChannel(f"it sent no valid answer: {exc}") from exc


def check(request: Request, reply: Reply) -> None:
    """Whether a reply can be the answer to a request.

    Raises:
        BrokenChannel: It cannot.
    """
    if reply.id != request.id:
        raise BrokenChannel(f"it answered request {reply.id} when {request.id} was asked")
    expected = _EXPECTED[type(request)]
    if not isinstance(reply, expected):
        kind = type(reply).__name__
        raise BrokenChannel(f"it answered {kind} where {expected[0].__name__} was due")
    if isinstance(request, Step) and isinstance(reply, Stepped):
        _check_steps(request, reply, scored=request.scored)
    elif isinstance(request, Play) and isinstance(reply, Played):
        _check_steps(request, reply, scored=True)
    elif isinstance(request, QuickStep) and isinstance(reply, Stepped):
        _check_steps(_ONE, reply, scored=request.scored)


def _check_steps(request: Step | Play, reply: Stepped | Played, *, scored: bool) -> None:
    taken = len(reply.rewards)
    if len(reply.successes) != (taken if scored else 0):
        raise BrokenChannel(f"it told {len(reply.successes)} successes for {taken} steps")
    won = request.until_success and reply.successes[-1] is True
    early = reply.terminated or reply.truncated or won
    if taken > request.count or (taken < request.count and not early):
        raise BrokenChannel(f"it took {taken} steps when {request.count} were asked")
