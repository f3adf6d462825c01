"""The messages between host and worker. The host asks, the worker answers, one at a time."""

from typing import Annotated, Any, Literal

import msgspec

from envhub.declarations import MAX_DESCRIPTION, Benchmark, Perturbation
from envhub.options import Argument, Delays
from envhub.records import Count
from envhub.types import Batch, FileSource, Outlier, PolicyFacts, PolicySource
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import CHUNK
from envhub.wire.spaces import SpaceSpec
from envhub.wire.values import check_parts, extension

MAX_TASKS = 100_000
"""Tasks of one benchmark."""

Text = Annotated[str, msgspec.Meta(max_length=20_000)]

Instruction = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_DESCRIPTION)]
"""The instruction of an episode, in the words of its env."""

PLAY = 1000
"""The most steps that a policy in the worker takes for one request."""

TaskSpaces = Annotated[
    tuple[tuple[tuple[str, ...], SpaceSpec, SpaceSpec], ...], msgspec.Meta(max_length=1000)
]
"""Groups of tasks that share an observation space and an action space."""


Perturbations = Annotated[tuple[Perturbation, ...], msgspec.Meta(max_length=1000)]

Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    id: int
    """Counts requests; an answer repeats the id of its request."""


class Load(_Message, frozen=True):
    """Load the benchmark's code. Answer: Loaded."""

    source: FileSource | str
    """A file, or the name of an installed plugin."""
    env_args: dict[str, Argument]
    plugins: tuple[str, ...] = ()
    """Further plugins whose hooks apply."""
    horizon: int | None = None
    """For LeRobot-style `make_env` files: replaces the horizons of their envs."""
    packages: bool = False
    """Whether to report which packages are installed."""
    spaces: bool = False
    """Whether to report which spaces the tasks declare."""
    declared: Benchmark | None = None
    """For LeRobot-style `make_env` files: what another worker has read from their envs."""
    fatal: tuple[str, ...] = ()
    """The tasks whose envs ended the processes of other workers. They are not made here."""
    perturb: dict[str, float | dict[str, list[str]]] = {}
    """The strengths of perturbations, by name."""


class LoadPerturbations(_Message, frozen=True):
    """Report what perturbations declare. Answer: PerturbationsLoaded."""

    names: tuple[str, ...]


class Open(_Message, frozen=True):
    """Close the open env, if any, and make the env of a task. Answer: Opened."""

    suite: str
    task: str
    needs: tuple[str, ...] | None = None
    """The parts of its observations that anybody reads, the others are left out; None = all."""


class Attach(_Message, frozen=True):
    """Map the shared memory whose descriptor comes with this message. Answer: Done."""

    rows: int
    row: int
    """The row of this worker."""


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
    first: bool = False
    """Whether to report the digest of the observation."""
    index: int = 0
    """Of the episode among those of its task."""


class Step(_Message, frozen=True):
    """Take steps with the actions in shared memory, up to the episode's end. Answer: Stepped."""

    count: int
    observe: tuple[str, ...] | None = None
    """The leaves that the last step fills; None = all. The steps before it fill none."""
    scored: bool = False
    """Whether to report successes instead of the info."""
    until_success: bool = False
    """Whether the first success ends the episode; only for scored steps."""
    inline: bool = False
    """Whether the action of the only step is in this message and not in shared memory."""
    action: Any = None
    final: bool = False
    """Whether the episode has no further steps than these."""


class Render(_Message, frozen=True):
    """Render a frame. Answer: Returned."""


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
    """Make a policy, in a worker or in a policy's own process. Answer: PolicyLoaded."""

    policy: PolicySource
    benchmark: Benchmark
    observation_space: SpaceSpec
    action_space: SpaceSpec
    batch: Batch = 1
    """The rows of its calls if it declares none."""


class EpisodeInfo(msgspec.Struct, frozen=True, array_like=True):
    """An episode, as its policy needs to know it."""

    number: int
    suite: str
    task: str
    description: str
    index: int
    seed: int
    fixed: bool = False
    """Whether the description is the user's, whatever the env or the policy says."""


class Play(_Message, frozen=True):
    """Let the policy in the worker play, from a reset or from the current step. Answer: Played."""

    episode: EpisodeInfo
    fresh: bool
    """Whether to reset the env first and start the episode."""
    count: int
    """The most steps to take."""
    until_success: bool
    options: Any = None
    """For the reset."""
    final: bool = False
    """Whether these are the last steps, so that nobody reads the last one's observation."""
    delays: Delays | None = None
    """How late the policy's actions are, for a fresh episode."""


class Probe(_Message, frozen=True):
    """Inspect a task for `envhub check`, with envs of its own. Answer: Probed."""

    probe: str
    """The name of the inspection."""
    suite: str = ""
    task: str = ""
    seed: int = 0
    steps: int = 1
    """Steps of an episode that are observed whole."""
    length: int = 1
    """The most steps of an episode."""
    cycles: int = 1
    """How often an env is made and closed."""


class MapSlot(_Message, frozen=True):
    """Map the memory of a worker's env; its descriptor comes with this message. Answer: Done."""

    slot: int
    policy: int
    """The number of the policy that acts for this slot."""
    observation_space: SpaceSpec | None = None
    """The space of converted observations; None: the space that the policy was made for."""


class BatchRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of a batch: an episode whose observation is in the memory of a slot."""

    slot: int
    number: int
    step: int
    texts: dict[str, str]
    committed: Any = None
    """With delays: the actions that are taken until the result of this call is there."""


class Act(_Message, frozen=True):
    """Let a policy act. Answer: Acted."""

    policy: int
    rows: tuple[BatchRow, ...]
    begin: tuple[EpisodeInfo, ...]
    """Episodes that start, for the first time or again."""
    finish: tuple[int, ...]
    """Episodes that have ended."""


class QuickStep(_Message, frozen=True):
    """Take one step with the action in shared memory. Answer: QuickStepped, or Stepped.

    On the wire it is an empty frame; its id is that of the request before plus one. After a scored
    Step it observes and reports as that one did; otherwise it observes all leaves.
    """

    scored: bool = False
    """Whether it follows a scored Step."""


_Encoded = (
    Load | LoadPerturbations | Open | Attach | Convert | Reset | Step | Render | Call | SetAttr
    | Close | LoadPolicy | Play | Probe | MapSlot | Act
)  # fmt: skip

Request = _Encoded | QuickStep


class Failed(_Message, frozen=True):
    """The code raised, or broke its contract."""

    kind: Text
    """The name of the exception's class."""
    message: Text
    traceback: Text
    contract: bool
    """Whether the message is EnvHub's own, which needs no traceback."""
    where: Literal["env", "policy"] = "env"
    place: Text = ""
    """File, line and function of the last frame of the user's own code, if there is one."""


class Loaded(_Message, frozen=True):
    """The benchmark that the source declares."""

    benchmark: Benchmark
    python: Text
    packages: Annotated[dict[str, Text], msgspec.Meta(max_length=1000)]
    """Versions of packages that can change what a simulator computes, if `Load` asked for them."""
    spaces: TaskSpaces = ()
    """The spaces of the tasks for which the benchmark declares them."""
    machine: Annotated[dict[str, Text], msgspec.Meta(max_length=10)] = {}
    """What the worker computes and draws with, if `Load` asked for packages."""
    broken: Annotated[dict[str, Failed], msgspec.Meta(max_length=MAX_TASKS)] = {}
    """The tasks of a file whose envs cannot be made; their other fields mean nothing."""
    without_horizon: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_TASKS)] = ()
    """The tasks of a file whose envs have no horizon; that of the task means nothing."""
    perturbations: Perturbations = ()
    """What those declare that `Load` named, in its order."""


class PerturbationsLoaded(_Message, frozen=True):
    """What the perturbations declare, in the order of the request."""

    perturbations: Perturbations


class Making(_Message, frozen=True):
    """Comes before the answer to Load: the env of a file's task is made next.

    If that ends the process, the host knows which task it was.
    """

    task: Text


class Opened(_Message, frozen=True):
    """The env's spaces, render mode and metadata."""

    observation_space: SpaceSpec
    action_space: SpaceSpec
    render_mode: Text | None
    metadata: dict[str, Any]


class Done(_Message, frozen=True):
    """The request was done; there is nothing to return."""


class Converted(_Message, frozen=True):
    """What the converted observations are like."""

    observation_space: SpaceSpec


class First(msgspec.Struct, frozen=True, array_like=True):
    """The first observation of an episode, by its digest."""

    digest: Digest
    whole: bool
    """Whether the env filled every leaf, and not only those that it was asked for."""


class WasReset(_Message, frozen=True):
    """The env was reset; the observation is in shared memory."""

    info: dict[str, Any]
    texts: dict[str, str]
    description: Instruction | None = None
    """The instruction of the episode, if it is not the task's."""
    first: First | None = None
    """If `Reset` asked for it and a leaf was filled."""


class Stepped(_Message, frozen=True):
    """Steps were taken; the observation of the last one is in shared memory."""

    rewards: Annotated[list[float], msgspec.Meta(min_length=1, max_length=CHUNK)]
    terminated: bool
    truncated: bool
    successes: Annotated[list[bool | None], msgspec.Meta(max_length=CHUNK)]
    """One per step if the steps were scored, else empty."""
    info: dict[str, Any]
    """The info of the last step; empty if the steps were scored."""
    texts: dict[str, str]
    state: Digest | None = None
    """Of the env's state, if the steps were scored, the last one ended the episode and the env can
    say it."""


class Returned(_Message, frozen=True):
    """The value that was asked for."""

    value: Any


class PolicyLoaded(_Message, frozen=True):
    """What a policy declares about itself."""

    facts: PolicyFacts
    policy: int
    """The number of the policy in this process."""


class Played(_Message, frozen=True):
    """The steps that the policy in the worker took."""

    rewards: Annotated[list[float], msgspec.Meta(min_length=1, max_length=PLAY)]
    successes: Annotated[list[bool | None], msgspec.Meta(min_length=1, max_length=PLAY)]
    actions: Any
    terminated: bool
    truncated: bool
    description: Instruction | None = None
    """The instruction of the episode, if the env was reset and it is not the task's."""
    first: First | None = None
    """If the env was reset and a leaf was filled."""
    calls: Count = 0
    """With delays: the calls of the episode so far whose results were taken."""
    held: Count = 0
    """With delays: the steps of the episode so far in which the robot was held still."""
    state: Digest | None = None
    """Of the env's state, if the last step ended the episode and the env can say it."""


TraceStep = dict[str, Annotated[str, msgspec.Meta(max_length=64)]]
"""Hashes of one step: of each leaf of its observation, and of its result."""


class Probed(_Message, frozen=True):
    """What an inspection found, by the names of the checks."""

    passed: Annotated[tuple[Text, ...], msgspec.Meta(max_length=1000)]
    failed: Annotated[dict[str, Text], msgspec.Meta(max_length=1000)]
    """What was seen."""
    skipped: Annotated[dict[str, Text], msgspec.Meta(max_length=1000)]
    """Why there was nothing to check."""
    figures: Annotated[dict[str, float], msgspec.Meta(max_length=100)]
    trace: Annotated[list[TraceStep], msgspec.Meta(max_length=10_000)]


class Acted(_Message, frozen=True):
    """Actions: an array `(rows, chunk, *action)`, or a list of arrays `(chunk, *action)`."""

    actions: Any
    outliers: Annotated[tuple[Outlier, ...], msgspec.Meta(max_length=100_000)] = ()
    """Numbers that the policy read, and never saw the like of."""
    remarks: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] = ()
    """Sentences for the user, since it saw the first observations."""
    seconds: float = 0.0
    """How long the policy's calls took, without the message."""
    about: Annotated[dict[Text, Text], msgspec.Meta(max_length=100)] = {}
    """What a run is to record of the policy, as far as it has changed."""


class QuickStepped(_Message, frozen=True):
    """A step was taken and its result is in shared memory; there is no text and no info.

    On the wire it is an empty frame. The result in shared memory repeats the request's number.
    """


_EncodedReply = (
    Loaded
    | PerturbationsLoaded
    | Making
    | Opened
    | Done
    | Converted
    | WasReset
    | Stepped
    | Returned
    | Failed
    | PolicyLoaded
    | Played
    | Probed
    | Acted
)

Reply = _EncodedReply | QuickStepped

_EXPECTED: dict[type[Request], tuple[type[Reply], ...]] = {
    Load: (Loaded, Making, Failed),
    LoadPerturbations: (PerturbationsLoaded, Failed),
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
    Probe: (Probed, Failed),
    MapSlot: (Done, Failed),
    Act: (Acted, Failed),
    QuickStep: (Stepped, Failed),
}

_ONE_STEP = Step(0, 1, None)
"""What a quick step asks for."""

_SMALL = 2**20
"""Bytes; a shorter answer cannot exhaust the memory, however many parts it has."""

_encoder = msgspec.msgpack.Encoder()

_requests: msgspec.msgpack.Decoder[_Encoded] = msgspec.msgpack.Decoder(_Encoded, ext_hook=extension)

_replies: msgspec.msgpack.Decoder[_EncodedReply] = msgspec.msgpack.Decoder(
    _EncodedReply, ext_hook=extension
)


def encode(message: Request | Reply) -> bytes:
    """Encode a message, whose values must be portable, as the payload of a frame.

    Not for `QuickStep` and `QuickStepped`, which are empty frames.
    """
    return _encoder.encode(message)


def decode_request(payload: bytes) -> _Encoded:
    """Decode a frame from the host that is not empty."""
    return _requests.decode(payload)


def decode_reply(payload: bytes, request: Request | None = None) -> Reply:
    """Decode a frame from a worker, which is not trusted.

    Args:
        payload: The payload of the frame.
        request: The request that the worker was asked.

    Raises:
        BrokenChannel: It is not a valid answer.
    """
    if not payload and type(request) is QuickStep:
        return QuickStepped(request.id)
    if len(payload) > _SMALL:
        check_parts(payload)
    try:
        return _replies.decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as exc:
        raise BrokenChannel(f"it sent an invalid answer: {exc}") from exc


def check(request: Request, reply: Reply) -> None:
    """Check that a reply can be the answer to a request.

    Raises:
        BrokenChannel: It cannot.
    """
    if reply.id != request.id:
        raise BrokenChannel(f"it answered request {reply.id} instead of request {request.id}")
    expected = _EXPECTED[type(request)]
    if not isinstance(reply, expected):
        answered = type(reply).__name__
        raise BrokenChannel(f"it answered with {answered} instead of {expected[0].__name__}")
    if isinstance(request, Step) and isinstance(reply, Stepped):
        _check_steps(request, reply, scored=request.scored)
    elif isinstance(request, Play) and isinstance(reply, Played):
        _check_steps(request, reply, scored=True)
    elif isinstance(request, QuickStep) and isinstance(reply, Stepped):
        _check_steps(_ONE_STEP, reply, scored=request.scored)


def _check_steps(request: Step | Play, reply: Stepped | Played, *, scored: bool) -> None:
    taken = len(reply.rewards)
    if len(reply.successes) != (taken if scored else 0):
        raise BrokenChannel(f"it reported {len(reply.successes)} successes for {taken} steps")
    succeeded = request.until_success and reply.successes[-1] is True
    episode_ended = reply.terminated or reply.truncated or succeeded
    if taken > request.count or (taken < request.count and not episode_ended):
        raise BrokenChannel(f"it took {taken} steps instead of {request.count}")
