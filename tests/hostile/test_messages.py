"""A process side that lies in every way: it ends its own episodes, and does nothing else."""

import gc
import os
import select
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from support.mutated_answers import damaged, noise, take, tampered
from support.paths import ASSETS

import envhub
from envhub.errors import WorkerDied, WorkerTimeout
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import WorkerPoller, close_workers
from envhub.options import Limits
from envhub.types import FileSource, WorkerSpec
from envhub.vector.env import LazyVectorEnv
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import Buffers, make_memory, needed_bytes
from envhub.wire.messages import (
    Done,
    Loaded,
    Opened,
    Returned,
    Stepped,
    WasReset,
    decode_reply,
    encode,
)
from envhub.wire.values import portable

pytestmark = pytest.mark.timeout(60)

DOUBLE = ASSETS / "fault_double"
ROOT = str(Path(envhub.__file__).parent.parent)
PATIENT = Limits(start=30, reset=20, step=20, close=10)
LIMITS = replace(PATIENT, reset=1.5, step=1.5)
"""For those that are too late; the others may take their time on a busy machine."""


# In real processes


def vector(at="", trick="", n_envs=1, limits=PATIENT):
    source = FileSource(str(DOUBLE), "env.py", "fault_double", "double")
    arguments = {"at": at, "trick": trick}
    return LazyVectorEnv(WorkerSpec(source, arguments, limits, 1000), "double", "play", n_envs)


@pytest.fixture(scope="module")
def bystander():
    """Another vector environment of the same host."""
    env = vector(n_envs=3)
    env.reset(seed=0)
    yield env
    env.close()


@pytest.fixture
def double(bystander):
    """Makes the hostile ones; the host and another env must outlive them."""
    made = []
    count = bystander.get_attr("count")[0]
    gc.collect()
    before = open_files()

    def make(at, trick, kind=WorkerTimeout, n_envs=1):
        limits = LIMITS if kind is WorkerTimeout else PATIENT
        made.append(vector(at, trick, n_envs, limits))
        return made[-1]

    yield make
    for env in made:
        env.close()
    observations, rewards, *_ = bystander.step(np.zeros(3, np.int64))
    assert observations["numbers"].tolist() == [[count + 1.0] * 4] * 3
    assert observations["flags"].tolist() == [[True, False, True, False]] * 3
    assert rewards.tolist() == [1.0] * 3
    gc.collect()
    assert open_files() == before


def open_files():
    return len(os.listdir("/proc/self/fd"))


ENDED = "its process was ended, because it "
ANYWHERE = [
    ("announces_4_gb", WorkerDied, ENDED + "announced 4294967295 bytes; a message has at most"),
    ("sends_noise", WorkerDied, ENDED + "sent an invalid answer"),
    ("answers_in_another_kind", WorkerDied, ENDED + "answered "),
    ("answers_an_old_request", WorkerDied, ENDED + "answered "),
    ("closes_its_channel", WorkerDied, ENDED + "closed its channel"),
]
ONCE = [
    ("open", "sends_nothing", WorkerDied, ENDED + "sent an invalid answer"),
    ("step", "sends_nothing", WorkerDied, ENDED + "answered a step that it never took"),
    (
        "reset",
        "answers_in_another_kind",
        WorkerDied,
        ENDED + "answered with Stepped instead of WasReset",
    ),
    ("step", "sends_half", WorkerTimeout, "no answer within 1.5 s"),
    ("step", "sends_half_and_dies", WorkerDied, "its process ended with exit code 3"),
    ("step", "dribbles", WorkerTimeout, "no answer within 1.5 s"),
    ("step", "answers_another_request", WorkerDied, ENDED + "answered "),
    ("step", "ends_writing", WorkerDied, ENDED + "closed its channel"),
    ("step", "tells_no_flag", WorkerDied, ENDED + "sent an invalid answer: Expected `bool`"),
    ("step", "tells_too_many_rewards", WorkerDied, ENDED + "took 2 steps instead of 1"),
    ("step", "tells_no_reward", WorkerDied, ENDED + "sent an invalid answer"),
    ("step", "tells_unasked_successes", WorkerDied, ENDED + "reported 1 successes for 1 steps"),
    ("step", "tells_other_texts", WorkerDied, ENDED + "sent the texts ['no'] instead of ['word']"),
    ("step", "tells_a_number_for_a_text", WorkerDied, ENDED + "sent an invalid answer"),
    ("step", "tells_a_lying_array", WorkerDied, ENDED + "sent an invalid answer"),
    ("step", "tells_a_deep_value", WorkerDied, ENDED + "sent an invalid answer"),
    ("step", "tells_many_values", WorkerDied, ENDED + "sent an answer of more than"),
    ("open", "tells_a_huge_space", WorkerDied, "because the space is too large"),
    ("open", "tells_a_space_of_lies", WorkerDied, "because the bounds have another shape"),
]
PLACES = {
    "open": "making the env of task 'play' in env 0: ",
    "reset": "reset of task 'play' in env 0: ",
    "step": "step of task 'play' in env 0: ",
}
CASES = [("step", *case) for case in ANYWHERE] + [("open", *ANYWHERE[0]), *ONCE]


@pytest.mark.parametrize(("at", "trick", "kind", "reason"), CASES)
def test_a_wrong_answer_ends_its_env(at, trick, kind, reason, double):
    env = double(at, trick, kind)
    with pytest.raises(kind) as caught:
        play(env, at)
    assert str(caught.value).startswith(PLACES[at])
    assert reason in str(caught.value)


def play(env, at):
    env.reset(seed=0)
    if at == "step":
        env.step(np.zeros(env.num_envs, np.int64))


@pytest.mark.parametrize(
    ("trick", "kind", "reason"),
    [
        ("answers_twice", WorkerDied, ENDED + "answered "),
        ("floods_answers", WorkerDied, ENDED + "answered "),
        ("answers_later_again", WorkerDied, ENDED + "answered "),
        ("sends_a_good_answer_in_bytes", WorkerTimeout, "no answer within 1.5 s"),
        ("sends_descriptors", WorkerTimeout, "no answer within 1.5 s"),
        ("ends_reading", WorkerTimeout, "no answer within 1.5 s"),
        ("answers_and_dies", WorkerDied, "its process ended with exit code 3"),
    ],
)
def test_after_a_good_answer_the_next_is_wrong_or_missing(trick, kind, reason, double):
    env = double("reset", trick, kind)
    env.reset(seed=0)
    if trick == "answers_later_again":
        poll_until_readable(env)
    with pytest.raises(kind) as caught:
        env.step(np.zeros(1, np.int64))
    assert reason in str(caught.value)


def poll_until_readable(env):
    select.select([env._pool.remotes[0].worker.channel.fileno()], [], [])


def test_what_does_not_read_does_not_block_the_host(double):
    env = double("reset", "answers_and_sleeps")
    env.reset(seed=0)
    with pytest.raises(WorkerTimeout, match="setting 'value' of task 'play' in env 0: no answer"):
        env.set_attr("value", [np.zeros(50 * 2**20, np.uint8)])


def test_an_answer_to_what_was_not_sent_yet_is_refused(double):
    env = double("reset", "answers_without_reading")
    env.reset(seed=0)
    with pytest.raises(WorkerDied, match="because it answered before it was asked"):
        env.set_attr("value", [np.zeros(50 * 2**20, np.uint8)])


def test_a_large_value_reaches_an_env_that_reads(double):
    env = double("", "")
    value = np.arange(2**21)
    env.set_attr("value", [value])
    assert np.array_equal(env.get_attr("value")[0], value)


def test_the_memory_cannot_be_taken_away(double):
    env = double("step", "resizes_the_memory", n_envs=2)
    env.reset(seed=0)
    observations, _, _, _, infos = env.step(np.zeros(2, np.int64))
    told = {key: value.tolist() for key, value in infos["told"].items() if key[0] != "_"}
    assert told.pop("size") == [0, 0]
    assert told == {way: ["PermissionError"] * 2 for way in told}
    assert len(told) == 6
    assert observations["numbers"].tolist() == [[1.0] * 4] * 2


@pytest.mark.parametrize("copy", [True, False])
def test_scribbles_in_the_memory_are_values_of_their_type(copy, double):
    env = double("reset", "scribbles")
    env.copy = copy
    observations, _ = env.reset(seed=0)
    for _ in range(50):
        observations, *_ = env.step(np.zeros(1, np.int64))
    assert observations["numbers"].dtype == np.float64
    assert observations["word"] == ("word",)
    if copy:
        assert set(observations["flags"].view(np.uint8).tolist()[0]) <= {0, 1}


def test_a_bool_of_another_byte_is_true():
    """In a message it is so too: numpy's own bool arrays would be neither True nor False."""
    space = spaces.Dict(
        {"flags": spaces.Box(0, 1, (3,), np.bool_), "one": spaces.Box(0, 1, (), np.bool_)}
    )
    action = spaces.Discrete(2)
    memory = make_memory(needed_bytes(1, space, action))
    buffers = Buffers(memory, 1, space, action)
    os.close(memory)
    for view in buffers.observations.values():
        view.view(np.uint8)[...] = 7
    for path in buffers.observations:
        value = buffers.value(path)
        assert value.dtype == np.bool_
        assert set(np.atleast_1d(value).view(np.uint8).tolist()) == {1}
    header = msgspec.msgpack.encode(("|b1", (2,), b"\x07\x00"))
    payload = msgspec.msgpack.encode(["Returned", 7, msgspec.msgpack.Ext(1, header)])
    assert decode_reply(payload).value.view(np.uint8).tolist() == [1, 0]


def test_a_pulse_that_goes_on_does_not_put_off_the_limit(double):
    """A worker that takes many steps tells of each; it cannot have taken more than were asked."""
    remote = remote_double(at="step", trick="keeps_its_pulse")
    try:
        buffers = share_memory(remote)
        remote.watch(buffers.pulse)
        remote.step(1)
        assert isinstance(remote.worker.wait(), WorkerTimeout)
    finally:
        close_workers([remote.worker], limit=10)


def remote_double(**arguments):
    """A worker that will do as it is told."""
    source = FileSource(str(DOUBLE), "env.py", "fault_double", "double")
    return RemoteEnv("slot 0", WorkerSpec(source, arguments, LIMITS))


def share_memory(remote):
    """Lead an env to where it can be stepped."""
    remote.load()
    assert isinstance(remote.worker.wait(), Loaded)
    remote.open("double", "play")
    observation, action = remote.spaces(remote.worker.wait())
    memory = make_memory(needed_bytes(1, observation, action))
    remote.attach(memory, 1, 0)
    assert remote.worker.wait() == Done(3)
    buffers = Buffers(memory, 1, observation, action)
    os.close(memory)
    remote.reset(0)
    assert isinstance(remote.worker.wait(), WasReset)
    return buffers


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        ("sends_nothing", "answered a step that it never took"),
        ("tells_no_such_success", "answered a step that it never took"),
        ("answers_an_old_request", "answered request "),
        ("tells_unasked_successes", "sent the texts "),
    ],
)
def test_one_more_step_of_an_evaluation_is_checked_too(trick, reason, tmp_path):
    """The first is asked for in a message, the second in an empty frame."""
    arguments = {"at": "second step", "trick": trick}
    with pytest.warns(RuntimeWarning, match=f"^1 of 1 episodes .*{ENDED}{reason}"):
        run = envhub.evaluate(
            str(DOUBLE), Numbers(), episodes=1, retries=0, workers=1, env_args=arguments,
            out=tmp_path / "run",
        )  # fmt: skip
    (record,) = run.records()
    assert (record.status, record.steps) == ("worker_died", 1)
    assert ENDED + reason in record.error.message


class Numbers:
    """Reads no text, which would have to be told in a message."""

    needs = frozenset({"numbers"})

    def act(self, obs, episodes):
        return np.zeros(len(episodes), np.int64)


def test_a_worker_that_broke_the_rules_unasked_is_named_when_it_is_asked():
    """The host watches idle workers too, and remembers what it saw."""
    remote = remote_double(at="open", trick="answers_later_again")
    board = WorkerPoller()
    try:
        remote.load()
        assert isinstance(remote.worker.wait(), Loaded)
        remote.open("double", "play")
        assert isinstance(remote.worker.wait(), Opened)
        board.add(remote.worker)
        while not remote.worker.ended:
            board.wait()
        remote.reset(0)
        error = remote.worker.wait()
        assert isinstance(error, WorkerDied)
        assert str(error) == (
            "reset of task 'play' in slot 0: its process was ended, because it answered without "
            "being asked."
        )
    finally:
        board.dispose()
        close_workers([remote.worker], limit=10)


@pytest.mark.parametrize(
    "trick",
    ["announces_4_gb", "answers_in_another_kind", "ends_writing", "makes_envs_for_ever"],
)
def test_describing_survives_it_too(trick, tmp_path):
    shutil.copytree(DOUBLE, tmp_path / "double")
    (tmp_path / "double" / "at_load").write_text(trick)
    with pytest.raises(WorkerDied, match="its process was ended, because it "):
        envhub.make_env(str(tmp_path / "double"))


def test_envs_that_are_made_for_ever_have_an_end(tmp_path):
    """Every announcement renews the limit of one env, and not that of all."""
    shutil.copytree(DOUBLE, tmp_path / "double")
    (tmp_path / "double" / "at_load").write_text("makes_other_envs_for_ever")
    with pytest.raises(WorkerTimeout):
        envhub.make_env(str(tmp_path / "double"), limits=envhub.Limits(start=0.4))


def test_an_answer_that_a_dead_worker_left_behind_counts():
    """The host may learn of the death first."""
    remote = remote_double(at="step", trick="answers_and_dies")
    try:
        share_memory(remote)
        remote.step(1)
        os.waitid(os.P_PID, remote.worker.child.pid, os.WEXITED | os.WNOWAIT)
        remote.worker.died()
        assert isinstance(remote.worker.wait(), Stepped)
        remote.step(1)
        assert "its process ended with exit code 3" in str(remote.worker.wait())
    finally:
        close_workers([remote.worker], limit=10)


def test_a_host_that_dies_of_broken_pipes_does_not():
    """Many programs give SIGPIPE its default action back."""
    script = f"""
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
import envhub
from envhub.options import Limits
arguments = {{"at": "reset", "trick": "ends_reading"}}
envs = envhub.make_env({str(DOUBLE)!r}, env_args=arguments, limits=Limits(step=1))
env = envs["double"]["play"]
env.reset(seed=0)
try:
    env.step([0])
except envhub.errors.WorkerTimeout:
    print("lived")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("lived\n", "", 0)


# Against the decoder alone

THOROUGH = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@pytest.mark.filterwarnings("ignore:.*Box.*:UserWarning")
@pytest.mark.parametrize("how", [tampered, damaged, noise])
def test_no_answer_does_anything_but_fit_or_be_refused(how):
    """`make soak` takes ten thousand."""

    @THOROUGH
    @given(how())
    def run(payload):
        take(payload)

    run()


RETURNED = b"\x93\xa8Returned\x07"
MAPS = b"\xdd\x03\x00\x00\x00" + b"\x80" * (3 * 2**24)


def nested_tuples():
    value = b"\x90"
    for _ in range(2000):
        value = msgspec.msgpack.encode([msgspec.msgpack.Ext(3, value)])
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(3, value))


LIES = {
    "a list of 4 billion": b"\xdd\xff\xff\xff\xff",
    "a map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "4 GB of bytes": b"\xc6\xff\xff\xff\xff",
    "4 GB of text": b"\xdb\xff\xff\xff\xff",
    "an extension of 4 GB": b"\xc9\xff\xff\xff\xff\x01",
    "lists in lists": b"\x91" * 500_000 + b"\xc0",
    "long lists in long lists": b"\xdd\xff\xff\xff\xff" * 200_000,
    "tuples in tuples": nested_tuples(),
    "many empty maps": MAPS,
    "many empty maps in a tuple": b"\xc9" + len(MAPS).to_bytes(4, "big") + b"\x03" + MAPS,
    "a shape of many numbers": msgspec.msgpack.encode(
        msgspec.msgpack.Ext(1, b"\x93\xa3<f8\xdd\x01\x00\x00\x00" + b"\xe0" * 2**24 + b"\xc4\x00")
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_takes_no_more_memory_than_it_brought(lie):
    payload = RETURNED + LIES[lie]
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = resident("VmHWM")
    with pytest.raises(BrokenChannel):
        decode_reply(payload)
    assert resident("VmHWM") - before < 2**24 + len(payload)


def resident(which):
    """A figure of this process's memory, in bytes."""
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(which)]
    return int(line.split()[1]) * 1024


def test_a_large_answer_of_few_parts_is_taken():
    frame = np.zeros((2160, 3840, 3), np.uint8)
    assert np.array_equal(decode_reply(encode(Returned(7, portable(frame)))).value, frame)
