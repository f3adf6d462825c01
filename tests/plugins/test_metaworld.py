"""The Meta-World plugin: what it declares, and what its envs do, against Meta-World's own loop."""

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from envhub_metaworld.env import CAMERAS, make
from envhub_metaworld.tasks import suites
from packaging.requirements import Requirement
from support import metaworld_bare
from support.commands import envhub as command
from support.metaworld_goals import Constant, check_goals
from support.needs import (
    needs_bubblewrap,
    needs_egl,
    needs_metaworld,
)
from support.paths import TESTS
from support.replays import copy_recorded

import envhub
from envhub.errors import ContractError, ConventionsDiffer, UnknownName
from envhub.sources.requirements import read_requirements

PLUGIN = TESTS.parent / "plugins" / "metaworld"

TASKS = {task.name: task for task in suites()["mt50"]}


def python(code: str, **variables: str) -> str:
    """What a program prints that runs in a process of its own, beside the tests."""
    start = [sys.executable, "-c", code]
    place = {"PYTHONPATH": str(TESTS), "LP_NUM_THREADS": "1"}
    done = subprocess.run(
        start, env=os.environ | place | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def digest(frame: np.ndarray) -> str:
    return sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()


# What it declares


def test_suites():
    sizes = {suite: len(tasks) for suite, tasks in suites().items()}
    assert sizes == {
        "mt10": 10, "mt50": 50, "easy": 28, "medium": 11, "hard": 6, "very_hard": 5,
    }  # fmt: skip
    groups = [
        task.name for suite in ("easy", "medium", "hard", "very_hard") for task in suites()[suite]
    ]
    assert sorted(groups) == sorted(TASKS)


def test_tasks():
    assert {(task.horizon, task.success) for task in TASKS.values()} == {(500, "once")}
    descriptions = [task.description for task in TASKS.values()]
    assert len(set(descriptions)) == 50
    assert all(re.fullmatch(r"[A-Z][^.]{10,90}\.", words) for words in descriptions)


@needs_metaworld
def test_meta_world_has_the_same_tasks():
    own = json.loads(
        python(
            "import json, metaworld.env_dict as own\n"
            "from metaworld.policies import ENV_POLICY_MAP as experts\n"
            "print(json.dumps([list(own.MT10_V3), list(own.MT50_V3), sorted(experts)]))"
        )
    )
    mt10, mt50 = ([task.name for task in suites()[suite]] for suite in ("mt10", "mt50"))
    assert own == [mt10, mt50, sorted(mt50)]


CONVENTIONS = {
    "control": "ee_delta_position",
    "rotation": "none",
    "gripper": "positive_closes",
    "frame": "world",
    "images": "upright",
    "state": "ee_position_gripper",
}


def test_conventions():
    shown = json.loads(command("info", "metaworld", "--json").out)
    assert (shown["conventions"], shown["control_hz"]) == (CONVENTIONS, 80.0)
    page = (TESTS.parent / "docs" / "metaworld.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    assert [f"`{k}` `{v}`" for k, v in CONVENTIONS.items() if f"`{k}` `{v}`" not in page] == []


def test_only_the_published_camera_is_known_to_be_upright():
    shown = json.loads(command("info", "metaworld", "--json", "--env-arg", "camera=corner").out)
    assert "images" not in shown["conventions"]


@needs_metaworld
def test_a_policy_of_another_gripper_is_refused(tmp_path):
    policy = Constant("agent_pos")
    policy.conventions = {"gripper": "positive_opens"}
    with pytest.raises(ConventionsDiffer, match="positive_closes in metaworld and positive_opens"):
        envhub.evaluate("metaworld", policy, tasks="reach-v3", workers=1, out=tmp_path / "run")
    assert not policy.seen
    assert not (tmp_path / "run").exists()


def test_listing_it_imports_no_simulator():
    code = """
import sys, envhub_metaworld
(benchmark,) = envhub_metaworld.envhub_benchmarks()
print(benchmark.name, *benchmark.default, benchmark.runtime, *benchmark.policies)
print(sorted({"numpy", "gymnasium", "mujoco", "metaworld"} & set(sys.modules)))
"""
    declared = "metaworld mt50 envhub_metaworld:runtime.txt expert"
    assert python(code).splitlines() == [declared, "[]"]


def test_what_it_requires():
    required = {Requirement(text) for text in metadata.requires("envhub-metaworld") or ()}
    assert [str(one) for one in required if one.marker is None] == ["envhub-core>=0.1"]
    assert "envhub" not in {one.name for one in required}
    pinned = {f"{one.name}{one.specifier}" for one in required if "==" in str(one.specifier)}
    assert pinned == {"metaworld==3.1.1", "mujoco==3.3.0"}
    assert pinned <= set(locked())


def locked() -> list[str]:
    """The pins of the lock, without their hashes."""
    text = (PLUGIN / "envhub_metaworld" / "runtime.txt").read_text()
    return re.findall(r"^(\S+==\S+) \\$", text, re.MULTILINE)


def test_the_lock_is_complete_and_names_no_place():
    text = (PLUGIN / "envhub_metaworld" / "runtime.txt").read_text()
    line = r"\S+==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+"
    assert re.fullmatch(f"({line})+", text)
    names = {pin.partition("==")[0] for pin in locked()}
    source = (PLUGIN / "runtime.in").read_text()
    asked = {Requirement(text).name for text in source.splitlines() if not text.startswith("#")}
    assert {"numpy", "gymnasium", "msgspec", "pluggy"} <= asked <= names
    assert not {"torch", "envhub"} & names


# Its envs, before anything is simulated


@pytest.mark.parametrize("camera", ["corner9", "", 3, None])
def test_an_unknown_camera(camera):
    with pytest.raises(UnknownName) as caught:
        make(TASKS["reach-v3"], camera=camera)
    assert str(caught.value).startswith(f"No camera is called '{camera}'. ")
    assert str(caught.value).endswith(f"The cameras are {', '.join(CAMERAS)}.")


@pytest.mark.parametrize("size", [0, -1, 4097, 64.0, "64", True, None])
def test_an_impossible_size(size):
    with pytest.raises(ContractError) as caught:
        make(TASKS["reach-v3"], size=size)
    problem = "size must be a whole number from 1 to 4096"
    assert str(caught.value) == f"{problem}, found {size!r}."


def test_spaces():
    env = make(TASKS["reach-v3"], size=64)
    space = {key: (box.shape, box.dtype) for key, box in env.observation_space.items()}
    assert space == {
        "pixels": ((64, 64, 3), np.uint8),
        "agent_pos": ((4,), np.float64),
        "environment_state": ((39,), np.float64),
    }
    assert env.action_space == gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    assert make(TASKS["reach-v3"]).observation_space["pixels"].shape == (480, 480, 3)


def test_an_env_that_was_not_reset():
    env = make(TASKS["reach-v3"])
    for use in (lambda: env.step(np.zeros(4, np.float32)), env.render):
        with pytest.raises(gym.error.ResetNeeded):
            use()
    env.close()


def test_without_the_simulator_the_error_says_what_to_install(tmp_path):
    (tmp_path / "metaworld.py").write_text("raise ModuleNotFoundError('No module named metaworld')")
    code = (
        "from envhub_metaworld.simulator import import_metaworld\n"
        "try: import_metaworld()\nexcept Exception as exc: print(exc)"
    )
    said = python(code, PYTHONPATH=str(tmp_path))
    assert said.startswith("Meta-World cannot be imported: No module named metaworld.")
    assert "pip install './plugins/metaworld[sim]'" in said


@needs_metaworld
def test_what_is_imported_and_loaded_when():
    code = """
import os, sys
os.environ["MUJOCO_GL"] = "egl"
from envhub_metaworld.env import make
from envhub_metaworld.expert import make_policy
from envhub_metaworld.tasks import suites

def loaded():
    maps = open("/proc/self/maps").read()
    names = [n for n in ("mujoco", "metaworld", "OpenGL") if n in sys.modules]
    return names + [n for n in ("libEGL", "libOSMesa", "libGL.") if n in maps]

env = make(suites()["mt10"][0])
make_policy(None, env.observation_space, env.action_space)
print(loaded())
env.observing = frozenset({"environment_state"})
env.reset(seed=0)
env.step(env.action_space.sample())
print(loaded(), os.environ["MUJOCO_GL"])
env.close()
"""
    assert python(code).splitlines() == ["[]", "['mujoco', 'metaworld'] egl"]


# Its episodes


EXPERTS = ["soccer-v3", "assembly-v3"]


@pytest.fixture(scope="module")
def expert_run(tmp_path_factory):
    """A run of the experts that several tests read."""
    return envhub.evaluate(
        "metaworld", "expert", tasks=EXPERTS, episodes=1, workers=2, runtime="here",
        seeding="shared", out=tmp_path_factory.mktemp("experts") / "run",
    )  # fmt: skip


@needs_metaworld
def test_experts_play_as_in_meta_worlds_own_loop(expert_run, tmp_path):
    start = [sys.executable, str(TESTS / "support" / "metaworld_bare.py"), "1", "--mt1"]
    cells = metaworld_bare.cells(EXPERTS)
    done = subprocess.run(start, input=cells, capture_output=True, check=True)
    own = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [
        {
            "task": r.task,
            "seed": r.seed,
            "success": r.success,
            "steps": r.steps,
            "return": r.return_,
        }
        for r in expert_run.records()
    ]
    assert sorted(ours, key=str) == sorted(own, key=str)
    assert {record["success"] for record in own} == {True, False}
    assert any(record.out_of_bounds for record in expert_run.records())  # the env clips them
    run = copy_recorded(expert_run, tmp_path / "run")
    assert envhub.verify(run, workers=1).count("identical") == len(EXPERTS)


@needs_metaworld
@needs_egl
def test_an_episode_is_drawn_afterwards(expert_run, tmp_path):
    run, shapes = copy_recorded(expert_run, tmp_path / "run"), set()
    replay = envhub.replay(
        run, EXPERTS[0], 0, every=100, on_frame=lambda frame: shapes.add(frame.shape)
    )
    assert (replay.identical, shapes) == (True, {(480, 480, 3)})


@needs_metaworld
def test_a_reset_is_meta_worlds_own_to_the_bit():
    names = ("soccer-v3", "push-back-v3", "shelf-place-v3")
    start = [sys.executable, str(TESTS / "support" / "metaworld_resets.py"), "2", *names]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout == f"compared {len(names)}\n", done.stderr  # `make soak` takes all 50


@needs_metaworld
@pytest.mark.parametrize(("version", "left_out"), [("3.1.1", True), ("9.9.9", False)])
def test_a_version_that_was_not_compared_is_reset_as_it_resets_itself(version, left_out, tmp_path):
    info = tmp_path / f"metaworld-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: metaworld\nVersion: {version}\n")
    script = """if True:
        import sys
        from envhub_metaworld import simulator
        called = set()
        mine, own = (simulator.build("reach-v3") for _ in range(2))
        for env in (mine, own):
            env.seed(3)
        sys.setprofile(lambda frame, event, _: called.add(frame.f_code.co_name))
        state, _ = simulator.reset_simulator(mine)
        sys.setprofile(None)
        print("_place_without_physics" in called, state.tobytes() == own.reset()[0].tobytes())
    """
    assert python(script, PYTHONPATH=str(tmp_path)) == f"{left_out} True\n"


@needs_metaworld
def test_goals_follow_the_seed_and_memory_stays_flat(tmp_path):
    check_goals([*TASKS][::10], tmp_path)  # `make soak` takes all 50


# Its frames


@pytest.fixture(scope="module")
def own_frames():
    """The digests of the frames of Meta-World's own loop, which starts slowly."""
    code = """
import hashlib, json, numpy as np, support.metaworld_bare as bare

def digests(task, seed, steps, camera, size):
    frames = map(np.ascontiguousarray, bare.frames(task, seed, steps, camera, size))
    return [hashlib.sha256(frame.tobytes()).hexdigest() for frame in frames]

print(json.dumps({
    "topview 65": digests("push-v3", 3, 2, "topview", 65),
    "corner2 96": digests("door-open-v3", 0, 4, "corner2", 96),
}))
"""
    return json.loads(python(code, MUJOCO_GL="egl"))


@needs_metaworld
@needs_egl
def test_frames_are_those_of_meta_world(own_frames):
    arguments = {"camera": "topview", "size": 65}
    envs = envhub.make_env("metaworld", tasks=["push-v3"], env_args=arguments, runtime="here")
    env = envs["mt50"]["push-v3"]
    observation, _ = env.reset(seed=3)
    seen = [observation["pixels"][0]]
    for _ in range(2):
        observation, *_ = env.step(np.full((1, 4), 0.5, np.float32))
        seen.append(observation["pixels"][0])
        assert np.array_equal(observation["agent_pos"], observation["environment_state"][:, :4])
    assert np.array_equal(env.render()[0], seen[-1])
    env.close()
    assert [digest(frame) for frame in seen] == own_frames["topview 65"]
    assert len({digest(frame) for frame in seen}) == 3


@needs_metaworld
@needs_egl
def test_frames_that_nobody_reads_change_nothing(tmp_path, own_frames):
    policy = Constant("pixels", chunk=4)
    envhub.evaluate(
        "metaworld", policy, tasks=["door-open-v3"], episodes=1, max_steps=8, workers=1,
        env_args={"size": 96}, runtime="here", seeding="shared", out=tmp_path / "run",
    )  # fmt: skip
    seen = [digest(frame) for frame in policy.seen["door-open-v3", 0]]
    assert seen == own_frames["corner2 96"][::4]


@needs_metaworld
@needs_egl
def test_two_envs_that_draw_in_one_process():
    code = """
from envhub_metaworld.env import make
from envhub_metaworld.tasks import suites
import numpy as np
a, b = (make(task, size=96) for task in suites()["mt10"][:2])
before = a.reset(seed=0)[0]["pixels"]
other = b.reset(seed=0)[0]["pixels"]
assert np.array_equal(a.render(), before) and not np.array_equal(before, other)
b.close()
assert np.array_equal(a.render(), before)
a.close()
"""
    python(code, MUJOCO_GL="egl")


# Where nothing can be drawn

GL_LIBRARIES = ("libEGL*", "libGL*", "libOpenGL*", "libOSMesa*", "libglfw*")


def without_gl(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command where no GL library can be loaded: an empty file stands for each."""
    places = [Path(place) for place in ("/usr/lib", "/usr/lib64", "/usr/local/lib")]
    found = {
        path.resolve()
        for place in places
        for pattern in GL_LIBRARIES
        for path in place.rglob(f"{pattern}.so*")
    }
    hidden = [part for path in sorted(found) for part in ("--ro-bind", "/dev/null", str(path))]
    start = ["bwrap", "--dev-bind", "/", "/", *hidden, *map(str, command)]
    return subprocess.run(
        start, env=os.environ | variables, capture_output=True, text=True, check=False
    )


EVAL = (Path(sys.executable).with_name("envhub"), "eval", "metaworld", "--task", "reach-v3")
EVAL += ("--runtime", "here")


@needs_metaworld
@needs_bubblewrap
def test_without_gl_states_are_enough(tmp_path):
    command = (*EVAL, "--policy", "expert", "--episodes", 1, "--workers", 1)
    done = without_gl(*command, "--out", tmp_path / "run", MUJOCO_GL="egl")
    assert done.returncode == 0, done.stderr
    (record,) = envhub.open_run(tmp_path / "run").records()
    assert record.success


@needs_metaworld
@needs_bubblewrap
def test_without_gl_pixels_are_an_error_that_names_the_packages(tmp_path):
    policy = tmp_path / "policy.py"
    policy.write_text(
        "class Sees:\n    needs = {'pixels'}\n"
        "    def act(self, obs, episodes):\n        return [[0, 0, 0, 0.0]] * len(episodes)\n"
        "def make_policy(benchmark, observation_space, action_space):\n    return Sees()\n"
    )
    command = (*EVAL, "--policy", policy, "--episodes", 1, "--workers", 1, "--retries", 0)
    done = without_gl(*command, "--out", tmp_path / "run")
    assert done.returncode == 1, done.stderr
    (record,) = envhub.open_run(tmp_path / "run").records()
    assert record.status == "env_error"
    assert record.error is not None
    assert "worker 0: Rendering does not work here (" in record.error.message
    assert "libegl1 libgl1 libgles2 libosmesa6 libglfw3" in record.error.message


# Where it is only described


def test_the_repository_for_the_hub_requires_what_the_lock_pins():
    """`make soak` evaluates it from a Hub."""
    found = read_requirements((PLUGIN / "hub" / "env.py").read_text())
    assert found.lock == "runtime.txt"
    assert set(found.packages) <= set(locked())


DESCRIBED = """
import json, sys
started = []
sys.addaudithook(lambda name, arguments: started.append(1) if name == "subprocess.Popen" else None)
import envhub
envs = envhub.make_env("metaworld", 2, suites=["all"])
env = envs["mt50"]["reach-v3"]
shapes = {key: list(space.shape) for key, space in env.single_observation_space.items()}
actions = list(env.action_space.shape)
print(json.dumps([len(started), sum(map(len, envs.values())), shapes, actions]))
"""


@pytest.fixture
def no_simulator(tmp_path, monkeypatch):
    """The simulators' packages raise when they are imported, and no runtime can be built."""
    for name in ("metaworld", "mujoco"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} was imported')")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ENVHUB_HOME", str(home))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return home


def test_describing_takes_one_process_and_no_simulator(no_simulator):
    program = [sys.executable, "-c", DESCRIBED]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    started, tasks, shapes, actions = json.loads(done.stdout)
    assert (started, tasks, actions) == (1, 110, [2, 4])
    assert shapes == {"agent_pos": [4], "environment_state": [39], "pixels": [480, 480, 3]}
    assert list(no_simulator.iterdir()) == []


@pytest.mark.parametrize("command", ["info", "list"])
def test_the_command_line_describes_it_without_a_simulator(no_simulator, command):
    program = [str(Path(sys.executable).with_name("envhub")), command, "metaworld"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "reach-v3" in done.stdout or "480x480" in done.stdout
    assert list(no_simulator.iterdir()) == []
