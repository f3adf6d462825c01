"""Answers of workers that somebody has changed, and what the host does with each.

    python -m support.mutated_answers tampered|damaged|noise COUNT

takes as many in one process that may not have more than 500 MB, nor take 10 seconds for one.
"""

import math
import resource
import signal
import sys
import warnings

import msgspec
import numpy as np
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envhub.declarations import Benchmark, Task
from envhub.results.pictures import frame_problem, png
from envhub.types import Outlier, PolicyFacts
from envhub.wire.frames import BrokenChannel
from envhub.wire.messages import (
    Act,
    Acted,
    Attach,
    Call,
    Convert,
    Converted,
    Done,
    EpisodeInfo,
    Failed,
    First,
    Load,
    Loaded,
    LoadPolicy,
    Making,
    Open,
    Opened,
    Play,
    Played,
    PolicyLoaded,
    Probe,
    Probed,
    Render,
    Reply,
    Reset,
    Returned,
    Step,
    Stepped,
    WasReset,
    check,
    decode_reply,
    encode,
)
from envhub.wire.spaces import decode_space, encode_space, leaves
from envhub.wire.values import portable

TASK = Task("reach", "reach the goal", 100, args={"scene": "a", "n": 1})
SPACE = spaces.Dict(
    {
        "pixels": spaces.Box(0, 255, (8, 8, 3), np.uint8),
        "state": spaces.Tuple(
            (
                spaces.Box(np.array([-1.0, -2.0]), np.array([1.0, np.inf]), dtype=np.float64),
                spaces.Discrete(5, start=-2),
                spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
                spaces.MultiBinary([2, 2]),
            )
        ),
        "text": spaces.Text(12),
    }
)
INFO = {
    "is_success": True,
    "distance": 0.25,
    "names": ["a", "b"],
    "frame": np.zeros((4, 4), np.uint8),
    "score": np.float32(0.5),
    "pair": (1, (2.0, None)),
    "nested": {"deep": {"deeper": b"bytes"}},
    "large": 2**100,
}
REPLIES = [
    Loaded(
        7,
        Benchmark("bench", ":make", {"suite": (TASK,)}, policies={"expert": "a:b"}),
        python="3.11.7",
        packages={"numpy": "2.0"},
    ),
    Opened(7, encode_space(SPACE), encode_space(spaces.Discrete(3)), "rgb_array", {"hz": 5}),
    Opened(7, encode_space(SPACE["pixels"]), encode_space(SPACE["state"]), None, {}),
    Done(7),
    WasReset(7, portable(INFO), {"text": "hello"}, "reach", First(bytes(32), whole=True)),
    Stepped(7, [1.0], False, True, [], portable(INFO), {"text": "hello"}),
    Stepped(7, [1.0, 0.5], True, False, [None, True], {}, {}),
    Making(7, "reach"),
    Converted(7, encode_space(SPACE)),
    PolicyLoaded(7, PolicyFacts("process", ("state",), "raw", 4, {"device": "cpu"}), 0),
    Played(7, [1.0], [True], portable(np.zeros((1, 2), np.float32)), True, False),
    Acted(
        7,
        portable(np.zeros((2, 1, 3), np.float32)),
        (Outlier("reach", "state", 0, 9.0, {"mean": 0.0, "std": 1.0}),),
        ("It saw another camera.",),
        0.5,
    ),
    Returned(7, portable(np.zeros((8, 6, 3), np.uint8))),
    Returned(7, portable([INFO, (1, 2), np.arange(6).reshape(2, 3)])),
    Failed(7, "RuntimeError", "it broke", "Traceback ...", contract=False),
    Probed(7, ("loads",), {"horizon": "none"}, {"renders": "none"}, {"step_ms": 1.0}, [{"a": "0"}]),
]
REQUESTS = [
    Load(7, "plugin", {}),
    Open(7, "suite", "task"),
    Attach(7, 2, 0),
    Reset(7, 0),
    Step(7, 1),
    Step(7, 4, scored=True, until_success=True),
    Render(7),
    Call(7, "name", [], {}),
    Probe(7, "episode", "suite", "task"),
    Convert(7),
    LoadPolicy(7, None, None, None, None),  # type: ignore[arg-type]
    Play(7, EpisodeInfo(0, "suite", "task", "reach", 0, 0), True, 4, True),
    Act(7, 0, (), (), ()),
]
ODDITIES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([-1, 0, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 10**18, math.nan, math.inf]),
    st.integers(-(2**63), 2**64 - 1),
    st.text(max_size=5),
    st.sampled_from(["x" * 20_001, "<f8", "|b1", "|O", "|V8", "<U4", "../x", "box", "Done", "a/b"]),
    st.binary(max_size=20),
    st.lists(st.integers(-1, 2**40), max_size=5),
    st.just([]),
    st.just({}),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
    st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=20)),
)


@st.composite
def tampered(draw):
    """A good answer, of which one or some parts are replaced, doubled or left out."""
    tree = msgspec.msgpack.decode(encode(draw(st.sampled_from(REPLIES))))
    for _ in range(draw(st.integers(1, 3))):
        tree = tamper(draw, tree)
    return msgspec.msgpack.encode(tree)


def tamper(draw, tree):
    """Replace a part somewhere in the tree."""
    if isinstance(tree, msgspec.msgpack.Ext) and tree.code in (1, 2, 3) and draw(st.booleans()):
        try:
            inner = msgspec.msgpack.decode(tree.data)
        except msgspec.MsgspecError:
            return draw(ODDITIES)
        return msgspec.msgpack.Ext(tree.code, msgspec.msgpack.encode(tamper(draw, inner)))
    if isinstance(tree, list) and tree and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(tree) - 1))
        match draw(st.integers(0, 9)):
            case 0:
                return tree[:index]
            case 1:
                return [*tree[: index + 1], *tree[index:]]
            case _:
                return [*tree[:index], tamper(draw, tree[index]), *tree[index + 1 :]]
    if isinstance(tree, dict) and tree and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(tree, key=repr)))
        match draw(st.integers(0, 9)):
            case 0:
                return {k: v for k, v in tree.items() if k != key}
            case 1:
                return {**tree, draw(st.text(max_size=5)): tree[key]}
            case _:
                return {**tree, key: tamper(draw, tree[key])}
    return draw(ODDITIES)


@st.composite
def damaged(draw):
    """The bytes of a good answer with some flipped, cut, doubled or put in."""
    data = bytearray(encode(draw(st.sampled_from(REPLIES))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0:
                del data[at:]
            case 1 if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 2:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case _:
                data[at:at] = data[: draw(st.integers(0, 20))]
    return bytes(data)


def noise():
    return st.binary(max_size=200)


def take(payload):
    """What the host does with an answer: a reply that fits the request, or none."""
    try:
        reply = decode_reply(payload)
    except BrokenChannel:
        return
    assert isinstance(reply, Reply)
    for request in REQUESTS:
        try:
            check(request, reply)
        except BrokenChannel:
            continue
        assert reply.id == 7
        if isinstance(reply, Opened):
            take_space(reply.observation_space)
            take_space(reply.action_space)
        if isinstance(reply, Converted):
            take_space(reply.observation_space)
        if isinstance(reply, Returned) and frame_problem(reply.value, "rgb_array") is None:
            assert png(reply.value)
        if isinstance(reply, Stepped | Played):
            assert 1 <= len(reply.rewards) <= request.count
            assert {type(reply.terminated), type(reply.truncated)} == {bool}


def take_space(spec):
    try:
        space = decode_space(spec)
    except ValueError:
        return
    found = leaves(space)
    assert len({leaf.path for leaf in found}) == len(found)
    assert sum(leaf.nbytes for leaf in found) <= 2**30


KINDS = {"tampered": tampered, "damaged": damaged, "noise": noise}

MEMORY = 500 * 2**20
SECONDS = 10


def main(kind: str, count: str) -> None:
    """Take them; a traceback, an alarm or too much memory ends the process."""
    warnings.simplefilter("ignore", UserWarning)  # Gymnasium's about odd boxes

    @settings(
        max_examples=int(count), deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @given(KINDS[kind]())
    def run(payload):
        nonlocal taken
        signal.alarm(SECONDS)
        take(payload)
        signal.alarm(0)
        taken += 1

    taken = 0
    run()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert most < MEMORY, most
    print(taken, most)


if __name__ == "__main__":
    main(*sys.argv[1:])
