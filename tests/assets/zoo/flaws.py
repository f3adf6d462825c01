"""Each class breaks one rule of the contract, whose check it is listed under."""

import contextlib
import mmap
import os
import socket
import subprocess
import threading
from pathlib import Path

import numpy as np
from gymnasium import spaces

from .point import GOAL, HORIZON, SIZE, Point

FLAWS: dict[str, type[Point]] = {}
PLAIN = {"render_modes": ["rgb_array"], "render_fps": 10}


def breaks(check: str):
    def note(kind: type[Point]) -> type[Point]:
        FLAWS[check] = kind
        return kind

    return note


def parts(**changed):
    return spaces.Dict({**Point.observation_space.spaces, **changed})


class Ending(Point):
    """Keeps the rules: it ends its episodes, and raises afterwards."""

    def step(self, action):
        if self.steps >= HORIZON:
            raise RuntimeError("reset first")
        return super().step(action)

    def outcome(self):
        return 0.0, False, self.steps >= HORIZON


class GLContext:
    """Looks like one of MuJoCo's."""

    __module__ = "mujoco.zoo"
    every: list["GLContext"] = []

    def __init__(self):
        self._context = object()
        self.every.append(self)


class FreedContext(Point):
    """Keeps the rules."""

    task_description = "push the point to the right"

    def reset(self, **options):
        self.gl = GLContext()
        return super().reset(**options)

    def close(self):
        for context in GLContext.every:
            context._context = None


@breaks("close-frees-gl")
class KeptContext(Point):
    every: list[GLContext] = []

    def reset(self, **options):
        self.every.append(GLContext())
        return super().reset(**options)


@breaks("env-made")
class NotMade(Point):
    def __init__(self):
        raise ValueError("no such scene")


@breaks("no-gl-before-reset")
class EarlyGL(Point):
    def __init__(self):
        super().__init__()
        file = Path.home() / "libEGL.so.0"
        file.write_bytes(b"not a library" * 1000)
        with file.open("rb") as opened:
            self.mapped = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)


@breaks("spaces-supported")
class Unsupported(Point):
    observation_space = spaces.Sequence(spaces.Discrete(3))

    def look(self):
        return (1, 2)


@breaks("spaces-declared")
class Undeclared(Point):
    observation_space = parts(agent_pos=spaces.Box(-3.0, 3.0, (2,), np.float32))


@breaks("action-bounded")
class Unbounded(Point):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def move(self, action):
        return super().move(np.clip(action, -1.0, 1.0))


@breaks("reset-works")
class ResetRaises(Point):
    def start(self):
        raise OSError("no scene")


@breaks("step-works")
class StepRaises(Point):
    def move(self, action):
        if self.steps == 3:
            raise OverflowError("the ground gave way")
        return super().move(action)


@breaks("observation-keys")
class ExtraKey(Point):
    def look(self):
        return {**super().look(), "extra": np.zeros(1)}


@breaks("observation-shape")
class WrongShape(Point):
    def look(self):
        return {**super().look(), "agent_pos": np.zeros(3, np.float32)}


@breaks("observation-dtype")
class WrongDtype(Point):
    def look(self):
        return {**super().look(), "agent_pos": np.array([self.place, GOAL])}


@breaks("observation-bounds")
class OutOfBounds(Point):
    def look(self):
        return {**super().look(), "agent_pos": np.array([self.place, 3.0], np.float32)}


@breaks("observation-finite")
class NotFinite(Point):
    def look(self):
        value = np.nan if self.steps == 2 else GOAL
        return {**super().look(), "agent_pos": np.array([self.place, value], np.float32)}


@breaks("reward-finite")
class NoReward(Point):
    def outcome(self):
        return float("nan"), False, False


@breaks("flags-boolean")
class NumberFlags(Point):
    def outcome(self):
        return 0.0, 0, 0


@breaks("action-unchanged")
class ChangesAction(Point):
    def move(self, action):
        action *= 0.1
        return float(action[0])


@breaks("info-plain")
class ObjectInInfo(Point):
    def info(self):
        return {**super().info(), "model": threading.Lock()}


@breaks("reset-repeats")
class OwnSeed(Point):
    def start(self):
        return float(np.random.default_rng().uniform(-0.3, -0.1))


@breaks("trajectory-repeats")
class Noisy(Point):
    def move(self, action):
        return super().move(action) + 0.001 * float(np.random.default_rng().normal())


@breaks("same-in-fresh-env")
class DrawnOnce(Point):
    def __init__(self):
        super().__init__()
        self.offset = float(np.random.default_rng().uniform(0.0, 0.1))

    def start(self):
        return super().start() - self.offset


@breaks("same-after-episodes")
class Drifts(Point):
    worn = 0.0

    def move(self, action):
        self.worn += 0.001
        return super().move(action) - self.worn


@breaks("same-in-other-process")
class KnowsItsProcess(Point):
    def start(self):
        return super().start() - 1e-6 * os.getpid() % 0.1


@breaks("seeds-differ")
class OneEpisode(Point):
    def start(self):
        return -0.2


@breaks("own-generators")
class SharedGenerator(Point):
    def start(self):
        return float(np.random.uniform(-0.3, -0.1))


@breaks("render-changes-nothing")
class RenderMoves(Point):
    def render(self):
        picture = self.draw()
        self.place -= 0.01
        return picture


@breaks("observing-equal")
class Unobserved(Point):
    def look(self):
        if "pixels" not in self.observing:
            self.place -= 0.001
        return super().look()


@breaks("horizon")
class EndsEarly(Point):
    max_episode_steps = 5


@breaks("nothing-after-end")
class GoesOn(Point):
    def outcome(self):
        return 0.0, self.steps == 9, False


@breaks("no-reset-in-step")
class ResetsItself(Point):
    def step(self, action):
        result = super().step(action)
        if self.steps == 5:
            place = self.place
            self.reset()
            self.place, self.steps = place, 5
        return result


@breaks("success-reported")
class NoSuccess(Point):
    def info(self):
        return {}


@breaks("success-boolean")
class NumberSuccess(Point):
    def info(self):
        return {"is_success": float(self.place >= GOAL)}


@breaks("success-not-at-reset")
class SuccessAtReset(Point):
    def first_info(self):
        return {"is_success": True}


@breaks("instruction-stable")
class ChangesItsMind(Point):
    @property
    def task_description(self):
        return "push the point to the right" if self.steps < 4 else "push it to the left"


@breaks("instruction-agrees")
class SaysOtherwise(Point):
    task_description = "push the point to the left"


@breaks("renders")
class NoRender(Point):
    metadata = {}
    render_mode = None


@breaks("frame-format")
class FloatFrames(Point):
    metadata = PLAIN

    def render(self):
        return self.draw() / 255.0


@breaks("frame-size")
class Growing(Point):
    metadata = PLAIN

    def render(self):
        return np.repeat(self.draw(), 1 + self.steps % 2, axis=0)


@breaks("frame-not-black")
class BlackFrames(Point):
    metadata = PLAIN

    def render(self):
        return np.zeros((SIZE, SIZE, 3), np.uint8)


@breaks("camera-not-black")
class BlackCamera(Point):
    metadata = PLAIN

    def look(self):
        return {**super().look(), "pixels": np.zeros((SIZE, SIZE, 3), np.uint8)}


@breaks("render-matches-camera")
class Flipped(Point):
    def render(self):
        return self.draw()[:, ::-1]


@breaks("close-works")
class CloseRaises(Point):
    def close(self):
        if self.steps:
            raise RuntimeError("the display is gone")


@breaks("close-unused")
class CloseNeedsReset(Point):
    world = None

    def reset(self, **options):
        self.world = []
        return super().reset(**options)

    def close(self):
        self.world.clear()


@breaks("close-twice")
class CloseOnce(Point):
    def __init__(self):
        super().__init__()
        self.world = [1]

    def close(self):
        self.world.pop()


@breaks("reopens")
class OnlyOnce(Point):
    closed = False

    def reset(self, **options):
        if type(self).closed:
            raise RuntimeError("the physics server has ended")
        self.used = True
        return super().reset(**options)

    def close(self):
        type(self).closed = hasattr(self, "used")


class Hoarder(Point):
    """Keeps something of every env."""

    kept: list = []

    def reset(self, **options):
        self.kept.append(self.take())
        return super().reset(**options)


@breaks("close-frees-memory")
class KeepsMemory(Hoarder):
    def take(self):
        return np.ones(2**20)


@breaks("close-frees-descriptors")
class KeepsFiles(Hoarder):
    def take(self):
        return os.open(os.devnull, os.O_RDONLY)


@breaks("close-frees-processes")
class KeepsProcesses(Hoarder):
    def take(self):
        return subprocess.Popen(["sleep", "60"])


@breaks("close-frees-threads")
class KeepsThreads(Hoarder):
    def take(self):
        thread = threading.Thread(target=threading.Event().wait, daemon=True)
        thread.start()
        return thread


@breaks("no-network")
class Connects(Point):
    def start(self):
        with contextlib.suppress(OSError), socket.socket() as connection:
            connection.settimeout(1.0)
            connection.connect(("127.0.0.1", 9))
        return super().start()


@breaks("writes-scratch")
class WritesBeside(Point):
    def start(self):
        # Never made: the directory does not exist.
        with contextlib.suppress(OSError):
            Path(__file__).parent.joinpath("missing", "cache.bin").write_bytes(b"")
        return super().start()


@breaks("runs-in-sandbox")
class ReadsElsewhere(Point):
    def start(self):
        (Path(__file__).parent.parent / "hooks" / "goals.txt").read_text()
        return super().start()


@breaks("zero-floor")
class EasyByRest(Point):
    def move(self, action):
        self.moved = getattr(self, "moved", False) * (self.steps > 1) or bool(action[0])
        return super().move(action)

    def info(self):
        return {"is_success": self.place >= GOAL or (self.steps > 5 and not self.moved)}


@breaks("random-floor")
class EasyByChance(Point):
    def move(self, action):
        self.last = bool(action[0])
        return super().move(action)

    def info(self):
        return {"is_success": self.place >= GOAL or (self.steps > 5 and self.last)}


@breaks("expert-ceiling")
class Impossible(Point):
    def info(self):
        return {"is_success": False}


@breaks("lerobot-converts")
class FloatPixels(Point):
    metadata = PLAIN
    observation_space = parts(pixels=spaces.Box(0.0, 1.0, (SIZE, SIZE, 3), np.float32))

    def look(self):
        return {**super().look(), "pixels": np.zeros((SIZE, SIZE, 3), np.float32)}


@breaks("lerobot-complete")
class NoState(Point):
    observation_space = spaces.Dict({"pixels": Point.observation_space["pixels"]})

    def look(self):
        return {"pixels": super().look()["pixels"]}
