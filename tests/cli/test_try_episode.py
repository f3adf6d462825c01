"""`envhub try`: one random episode, and its last frame as a PNG file."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.run_tools import envhub

from envhub.cli.try_episode import write_png
from envhub.host.hints import GL_HINT


def read_png(path: Path) -> np.ndarray:
    """Decode by the specification, as far as `write_png` goes: 8 bits, no filter, checked sums."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = [], 8
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, content = (
            data[position + 4 : position + 8],
            data[position + 8 : position + 8 + length],
        )
        (crc,) = struct.unpack_from(">I", data, position + 8 + length)
        assert crc == zlib.crc32(kind + content)
        chunks.append((kind, content))
        position += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    channels = {0: 1, 2: 3}[color]
    assert (depth, rest, chunks[2][1]) == (8, [0, 0, 0], b"")
    rows = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 7, 3), (64, 48, 1), (480, 640, 3)])
def test_a_picture_is_what_was_written(tmp_path, shape):
    frame = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    for number, one in enumerate((frame, frame[::-1], frame[:, ::-1, :])):  # also not contiguous
        write_png(tmp_path / f"{number}.png", one)
        assert np.array_equal(read_png(tmp_path / f"{number}.png"), one)


def try_(*arguments: object) -> dict[str, object]:
    answer = envhub("try", *arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    return json.loads(answer.out)


@pytest.mark.parametrize(("picture", "channels"), [("rgb", 3), ("gray", 1)])
def test_the_pixels_are_those_that_the_env_renders(tmp_path, picture, channels):
    out = tmp_path / "frame.png"
    arguments = ("--env-arg", f"gate={tmp_path}", "--env-arg", f"picture={picture}")
    shown = try_("./run_walk", "--task", "far", "--seed", 3, "--out", out, *arguments)
    assert shown["picture"] == str(out)
    frame = np.load(tmp_path / "frame.npy")
    assert frame.shape == (5, 7, channels)
    assert np.array_equal(read_png(out), frame)
    facts = {key: shown[key] for key in ("suite", "task", "seed", "description", "steps")}
    assert facts == {
        "suite": "long",
        "task": "far",
        "seed": 3,
        "description": "walk far",
        "steps": 20,
    }
    assert (shown["success"], shown["end"]) == (False, "truncated at the horizon")
    assert shown["observation"] == "array 2 float32"


def test_the_same_seed_gives_the_same_episode(tmp_path):
    first, again = (
        try_("./run_walk", "--seed", 1, "--max-steps", 5, "--out", tmp_path / f"{n}.png")
        for n in range(2)
    )
    assert first["return"] == again["return"]
    assert first["steps"] == 5
    assert (tmp_path / "0.png").read_bytes() == (tmp_path / "1.png").read_bytes()


REASONS = {"none": "render() returned a NoneType", "raises": "render: "}


@pytest.mark.parametrize("picture", REASONS)
def test_an_env_that_does_not_render_has_no_picture(tmp_path, picture):
    out = tmp_path / "frame.png"
    shown = try_("./run_walk", "--env-arg", f"picture={picture}", "--out", out)
    assert shown["picture"] is None
    assert str(shown["no_picture"]).startswith(REASONS[picture]), shown["no_picture"]
    assert not out.exists()


UNSEEN = """
import gymnasium as gym
import numpy as np

class Env(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 2
    render_mode = {mode!r}

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {{}}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {{}}

    def render(self):
        {render}

def make_env(n_envs=1, use_async_envs=False):
    return Env()
"""


@pytest.mark.parametrize(
    ("mode", "render", "reason"),
    [
        (None, "return None", "The env has no render_mode: make it with render_mode='rgb_array'."),
        (
            "ansi",
            "return 'text'",
            "render() returned a str, not a picture, with render_mode 'ansi'.",
        ),
        (
            None,
            "raise NotImplementedError",
            "render: NotImplementedError (env.py, line 18, in render).",
        ),
        (
            "rgb_array",
            "return np.zeros((4, 5, 3))",
            "render() returned 4x5x3 float64, not height x width x 3 uint8.",
        ),
        (
            "rgb_array",
            "raise RuntimeError('gladLoadGL error')",
            f"render: RuntimeError: gladLoadGL error (env.py, line 18, in render). {GL_HINT}",
        ),
    ],
)
def test_it_says_why_there_is_no_picture(tmp_path, mode, render, reason):
    (tmp_path / "env.py").write_text(UNSEEN.format(mode=mode, render=render))
    shown = try_(tmp_path)
    assert (shown["picture"], shown["no_picture"]) == (None, reason)
    if mode is not None:
        return
    answer = envhub("try", tmp_path)
    assert answer.code == 0
    assert f"no_picture   {reason}\n" in answer.out


@pytest.mark.parametrize(
    ("task", "steps", "success", "end"),
    [
        ("once", 2, True, "success"),
        ("at_end", 4, False, "terminated"),
        ("ever", 4, True, "terminated"),
    ],
)
def test_it_plays_by_the_rules_of_the_task(task, steps, success, end):
    shown = try_("./run_blink", "--task", task)
    assert (shown["steps"], shown["success"], shown["end"]) == (steps, success, end)
    assert shown["return"] == 0.25 * steps
    parts = set(str(shown["observation"]).split(", "))
    assert parts == {"pixels/top 4x6x3 uint8", "state 1 int64", "hint tuple"}
    assert shown["picture"] is None  # it has no render() at all


RANDOM_STARTS = """
import os, random
import gymnasium as gym
import numpy as np


class Start(gym.Env):
    observation_space = gym.spaces.Dict(
        arm=gym.spaces.Box(0, 1, (2,), np.float64), cube=gym.spaces.Tuple([gym.spaces.Discrete(9)])
    )
    action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {{"arm": {arm}, "cube": (random.randrange(9),)}}, {{}}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {{}}


def make_env(n_envs=1, use_async_envs=False):
    return Start
"""


@pytest.mark.parametrize(
    ("arm", "repeats"),
    [
        ("np.random.rand(2)", "yes"),
        ("self.np_random.random(2)", "yes"),
        ("np.full(2, np.nan)", "yes"),
        (
            "np.random.default_rng().random(2)",
            "no: two resets with seed 4 differ in arm; draw random numbers from self.np_random",
        ),
    ],
)
def test_it_says_whether_episodes_repeat(tmp_path, arm, repeats):
    (tmp_path / "env.py").write_text(RANDOM_STARTS.format(arm=arm))
    assert try_(tmp_path, "--seed", 4)["repeats"] == repeats
    # An evaluation says it, too; its results are there all the same.
    words = ("--episodes", 2, "--seed", 4, "--seeding", "shared", "--workers", 1)
    answer = envhub("eval", tmp_path, "--policy", "zero", *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    said = (
        f"Episodes of {tmp_path.name} do not repeat: another reset with seed 5 began with another"
    )
    assert (said in answer.err) == repeats.startswith("no")


@pytest.mark.parametrize(
    ("info", "unread"),
    [
        ('{"succeed": True, "steps": 1}', "'succeed', which is not read"),
        ('{"task_solved": 1, "Succeeded": 0}', "'Succeeded', 'task_solved', which are not read"),
        ('{"success": False, "succeed": True}', None),
        ('{"suction": True, "steps": 1}', None),
    ],
)
def test_it_names_what_may_mean_success_and_is_not_read(tmp_path, info, unread):
    text = RANDOM_STARTS.format(arm="np.zeros(2)")
    (tmp_path / "env.py").write_text(text.replace("False, False, {}", f"False, False, {info}"))
    said = [line for line in try_(tmp_path)["warnings"] if "reports no success" in line]
    begin = f"Task {tmp_path.name} reports no success: info has "
    end = ": report success as info['is_success'] or info['success']."
    assert said == ([] if unread is None else [begin + unread + end])


def test_as_text_in_a_place_of_its_own(tmp_path):
    answer = envhub("try", "./run_walk", TMPDIR=str(tmp_path))
    assert (answer.code, answer.err) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in answer.out.splitlines())
    assert list(shown) == [
        *("suite", "task", "seed", "description", "steps", "return", "success", "end"),
        *("repeats", "observation", "picture"),
    ]
    assert shown["task"] == "near"
    path = Path(shown["picture"])
    assert (path.name, path.parent.parent) == ("near.png", tmp_path)
    assert read_png(path).shape == (5, 7, 3)
    assert list(tmp_path.iterdir()) == [path.parent]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["./run_walk", "--task", "nere"], 2, "No task is called 'nere'. Did you mean 'near'?"),
        (["./run_walk", "--out", "frame.jpg"], 2, "--out frame.jpg must end in .png."),
        (["./run_walk", "--out", "nowhere/x.png"], 2, "nowhere/x.png cannot be written: No such"),
        (["./run_wlak"], 2, "./run_wlak does not exist."),
        ([], 2, "Missing argument 'REF'"),
        (["./raises"], 4, "--debug shows the traceback."),
    ],
)
def test_what_goes_wrong(arguments, code, said):
    answer = envhub("try", *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
