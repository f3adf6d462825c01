"""A process side that speaks the protocol wrongly: an env that takes over its worker's channel."""

import errno
import fcntl
import math
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium import spaces

import envhub
from envhub.wire.memory import STEP_RESULT
from envhub.wire.messages import Done, Making, Opened, QuickStep, Stepped, WasReset, encode
from envhub.wire.spaces import BoxSpec, encode_space
from envhub.wire.values import portable
from envhub.worker import session

WORD = "word"


@envhub.hookimpl
def envhub_benchmarks():
    if Path(__file__).with_name("at_load").exists():
        TRICKS[Path(__file__).with_name("at_load").read_text()]()
    task = envhub.Task("play", "play by the rules", horizon=100)
    yield envhub.Benchmark(name="double", make=":Double", suites={"double": (task,)})


class Double(gym.Env):
    observation_space = spaces.Dict(
        {
            "flags": spaces.Box(0, 1, (4,), np.bool_),
            "numbers": spaces.Box(-np.inf, np.inf, (4,), np.float64),
            "word": spaces.Text(20),
        }
    )
    action_space = spaces.Discrete(2)

    def __init__(self, task, at="", trick=""):
        self.at, self.trick = at, trick
        self.count = 0
        self.value = None
        self.turn("open")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.look(), {"told": self.turn("reset")}

    def step(self, action):
        told = self.turn("step" if self.count == 0 else "second step")
        self.count += 1
        return self.look(), 1.0, False, False, {"told": told}

    def turn(self, place):
        return TRICKS[self.trick]() if place == self.at else None

    def look(self):
        flags = np.array([True, False, True, False])
        return {"flags": flags, "numbers": np.full(4, float(self.count)), "word": WORD}


def channel():
    """The worker's end, as anybody in the process can find it."""
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:  # the one that lists them
            continue
        if target.startswith("socket:"):
            return socket.socket(fileno=os.dup(int(link.name)))
    raise LookupError("no socket")


def request():
    """What the host has asked."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "quick_step":
            return QuickStep(frame.f_locals["number"])
        if hasattr(frame.f_locals.get("request"), "id"):
            return frame.f_locals["request"]
        frame = frame.f_back
    raise LookupError("no request")


def framed(payload):
    return struct.pack("<I", len(payload)) + payload


def answer(kind=None, number=None):
    """A frame with a good answer, or with one of another kind or number."""
    asked = request()
    number = asked.id if number is None else number
    match kind or type(asked).__name__:
        case "Reset":
            return framed(encode(WasReset(number, {}, {"word": WORD})))
        case "Step" | "QuickStep":
            return framed(encode(Stepped(number, [1.0], False, False, [], {}, {"word": WORD})))
        case _:
            return framed(encode(Done(number)))


def send(data):
    channel().sendall(data)


def sleep():
    while True:
        time.sleep(1)


def send_and_sleep(data):
    send(data)
    sleep()


def announces_4_gb():
    send_and_sleep(b"\xff" * 1000)


def sends_noise():
    send_and_sleep(framed(bytes(range(256)) * 8))


def sends_nothing():
    send_and_sleep(framed(b""))


def tells_no_such_success():
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("self"), "_step_result"):
        frame = frame.f_back
    worker, number = frame.f_locals["self"], request().id
    STEP_RESULT.pack_into(worker._step_result, 0, number, 1.0, False, False, 7)
    send_and_sleep(framed(b""))


def sends_half():
    send_and_sleep(answer()[:-1])


def sends_half_and_dies():
    send(answer()[:-1])
    os._exit(3)


def dribbles():
    """A long frame, a byte at a time."""
    send(struct.pack("<I", 60 * 2**20))
    while True:
        send(b"\0")


def sends_a_good_answer_in_bytes():
    for byte in answer():
        send(bytes([byte]))
    sleep()


def answers_another_request():
    send_and_sleep(answer(number=request().id + 1))


def answers_an_old_request():
    send_and_sleep(answer(number=request().id - 1))


def answers_in_another_kind():
    other = {"Reset": "Step", "QuickStep": "Reset"}.get(type(request()).__name__, "Step")
    send_and_sleep(answer(other))


def makes_envs_for_ever():
    frames = framed(encode(Making(1, "play"))) * 1000
    while True:
        send(frames)


def makes_other_envs_for_ever():
    """Each in time, none twice: together they take longer than all of a file may."""
    count = 0
    while True:
        send(framed(encode(Making(1, f"task-{count}"))))
        count += 1
        time.sleep(0.05)


def answers_twice():
    send_and_sleep(answer() * 2)


def answers_later_again():
    """A good answer, as it is due; another when nobody asks."""
    again = answer()

    def later():
        time.sleep(0.1)
        send(again)

    threading.Thread(target=later).start()


def floods_answers():
    data = answer() * 1000
    while True:
        send(data)


def answers_without_reading():
    """Soon also what it has not been asked yet, let alone read."""
    following = framed(encode(Done(request().id + 1)))
    send(answer())
    time.sleep(1)
    send_and_sleep(following)


def answers_and_sleeps():
    send_and_sleep(answer())


def answers_and_dies():
    send(answer())
    os._exit(3)


def closes_its_channel():
    for link in list(Path("/proc/self/fd").iterdir()):
        try:
            if os.readlink(link).startswith("socket:"):
                os.close(int(link.name))
        except OSError:
            continue
    sleep()


def ends_writing():
    channel().shutdown(socket.SHUT_WR)
    sleep()


def ends_reading():
    channel().shutdown(socket.SHUT_RD)
    send_and_sleep(answer())


def sends_descriptors():
    """With the answer, and on and on after it."""
    null = os.open(os.devnull, os.O_RDONLY)
    here = channel()
    for byte in answer():
        while True:
            try:
                socket.send_fds(here, [bytes([byte])], [null] * 100)
                break
            except OSError as exc:  # an ordinary user's descriptors on the way are limited
                if exc.errno != errno.ETOOMANYREFS:
                    raise
                time.sleep(0.001)
    sleep()


def steps(*, rewards=(1.0,), terminated=False, successes=(), info=None, word=WORD):
    parts = ["Stepped", request().id, list(rewards), terminated, False, list(successes)]
    return framed(msgspec.msgpack.encode([*parts, info or {}, {"word": word}]))


def tells_no_flag():
    send_and_sleep(steps(terminated=math.nan))


def tells_too_many_rewards():
    send_and_sleep(steps(rewards=[1.0, 1.0]))


def tells_no_reward():
    send_and_sleep(steps(rewards=[]))


def tells_unasked_successes():
    send_and_sleep(steps(successes=[True]))


def tells_other_texts():
    send_and_sleep(framed(encode(Stepped(request().id, [1.0], False, False, [], {}, {"no": ""}))))


def tells_a_number_for_a_text():
    send_and_sleep(steps(word=5))


def tells_a_lying_array():
    header = msgspec.msgpack.encode(("<f8", (2**40, 2**20), b"12345678"))
    send_and_sleep(steps(info={"array": msgspec.msgpack.Ext(1, header)}))


def tells_a_deep_value():
    value = framed(b"\x93\xa8Returned" + bytes([request().id]) + b"\x91" * 2**19 + b"\xc0")
    send_and_sleep(value)


def tells_many_values():
    value = b"\x93\xa8Returned" + bytes([request().id]) + b"\xdd\x03\x00\x00\x00"
    send_and_sleep(framed(value + b"\x80" * (3 * 2**24)))


def tells_a_huge_space():
    zero = portable(np.float64(0))
    box = BoxSpec("<f8", (2**20, 2**20), zero, zero)
    send_and_sleep(opened(box))


def tells_a_space_of_lies():
    box = BoxSpec("<f8", (2,), portable(np.zeros(3)), portable(np.ones(3)))
    send_and_sleep(opened(box))


def opened(observation):
    action = encode_space(Double.action_space)
    return framed(encode(Opened(request().id, observation, action, None, {})))


class Keeping(session.Buffers):
    """The worker closes the descriptor of the shared memory; a copy is kept here."""

    kept = -1

    def __init__(self, fd, *rest):
        Keeping.kept = os.dup(fd)
        super().__init__(fd, *rest)


session.Buffers = Keeping


def resizes_the_memory():
    """All ways to take memory away from under the host; the tale of what they did."""
    fd = Keeping.kept
    size = os.fstat(fd).st_size
    tale = {}
    for name, way in {
        "shrink": lambda: os.ftruncate(fd, 0),
        "grow": lambda: os.ftruncate(fd, size + 2**20),
        "append": lambda: os.pwrite(fd, b"x", size),
        "reseal": lambda: fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        "reopen": lambda: os.ftruncate(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), 0),
        "truncate": lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_TRUNC)),
    }.items():
        try:
            way()
        except OSError as exc:
            tale[name] = type(exc).__name__
        else:
            tale[name] = "done"
    tale["size"] = os.fstat(fd).st_size - size
    return tale


def scribbles():
    """Every byte of the shared memory, over and over: flags of 255, numbers that are none."""
    fd = Keeping.kept
    size = os.fstat(fd).st_size

    def scribble():
        while True:
            os.pwrite(fd, b"\xff" * size, 0)

    threading.Thread(target=scribble, daemon=True).start()
    time.sleep(0.1)


def keeps_its_pulse():
    """Tells of steps that it never takes."""
    fd = Keeping.kept
    for beat in range(1, 2**62):
        os.pwrite(fd, struct.pack("<q", beat), 0)
        time.sleep(0.001)


TRICKS = {name: item for name, item in list(globals().items()) if callable(item)}
