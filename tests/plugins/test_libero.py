"""The LIBERO plugin: what it declares, and what its envs do, against LIBERO's own loop."""

import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import envhub_libero
import gymnasium as gym
import numpy as np
import pytest
from envhub_libero.conversion import axis_angle, convert
from envhub_libero.env import CAMERAS, check_assets, make, spaces_of
from envhub_libero.init_states import read_init_states
from envhub_libero.simulator import COMPARED
from envhub_libero.tasks import suites
from packaging.requirements import Requirement
from scipy.spatial.transform import Rotation
from support import libero_setup as libero
from support.commands import envhub as run_command
from support.libero_loops import actions, digest
from support.needs import needs_egl, needs_libero
from support.paths import ROOT, TESTS

import envhub
from envhub.errors import ContractError, SourceUnavailable, UnknownName
from envhub.options import Reporter
from envhub.runtime.provision import provision
from envhub.sources.assets import hash_tree
from envhub.types import PluginSource

pytestmark = pytest.mark.timeout(900)
"""The first test that runs LIBERO also builds its runtime, and compiles robosuite's functions."""

PLUGIN = ROOT / "plugins" / "libero"
TASKS = {task.name: task for tasks in suites().values() for task in tasks}
TASK = suites()["libero_spatial"][0]
GOALS = TESTS / "support" / "libero_goals.py"


@pytest.fixture
def simulator(monkeypatch):
    """The runtime and the meshes are there; workers find both."""
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))
    monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))


# What it declares


def test_suites():
    assert {suite: len(tasks) for suite, tasks in suites().items()} == {
        "libero_spatial": 10, "libero_object": 10, "libero_goal": 10, "libero_10": 10,
        "libero_90": 90,
    }  # fmt: skip
    assert len(TASKS) == 130


def test_tasks():
    horizons = {suite: {task.horizon for task in tasks} for suite, tasks in suites().items()}
    assert horizons == {
        "libero_spatial": {280}, "libero_object": {280}, "libero_goal": {300}, "libero_10": {520},
        "libero_90": {400},
    }  # fmt: skip
    assert {(task.init_states, task.success) for task in TASKS.values()} == {(50, "once")}
    assert suites()["libero_goal"][7].description == "turn on the stove"
    scene = TASKS["KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet"]
    assert scene.description == "close the top drawer of the cabinet"


CONVENTIONS = {
    "control": "ee_delta_pose",
    "rotation": "axis_angle",
    "gripper": "positive_closes",
    "frame": "world",
    "images": "upside_down",
}


@pytest.mark.parametrize(
    ("arguments", "control"), [([], "ee_delta_pose"), (["control=absolute"], "ee_pose")]
)
def test_conventions(arguments, control):
    words = [word for text in arguments for word in ("--env-arg", text)]
    shown = json.loads(run_command("info", "libero", "--json", *words).out)
    assert shown["conventions"] == {**CONVENTIONS, "control": control}
    converted = {"images": "upright", "state": "ee_axis_angle_gripper"}
    assert (shown["lerobot_conventions"], shown["control_hz"]) == (converted, 20.0)


def test_the_page_says_the_conventions():
    page = (ROOT / "docs" / "libero.md").read_text(encoding="utf-8")
    for key, value in {**CONVENTIONS, "state": "ee_axis_angle_gripper"}.items():
        assert f"`{key}` `{value}`" in page or f"`{key}` in LeRobot's format `{value}`" in page


def test_listing_it_imports_no_simulator():
    code = """
import sys, envhub_libero
benchmark, pro = envhub_libero.envhub_benchmarks()
print(benchmark.name, *benchmark.default, benchmark.runtime)
print(sorted({"numpy", "gymnasium", "mujoco", "robosuite", "libero"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    four = "libero_spatial libero_object libero_goal libero_10"
    assert done.stdout.splitlines() == [f"libero {four} envhub_libero:runtime.txt", "[]"]


def test_all_tasks_are_known_without_a_simulator(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    envs = envhub.make_env("libero", suites=["all"])
    assert sum(len(tasks) for tasks in envs.values()) == 130
    env = envs["libero_90"]["KITCHEN_SCENE8_turn_off_the_stove"]
    assert env.single_action_space == gym.spaces.Box(-1.0, 1.0, (7,), np.float32)
    assert env.single_observation_space["pixels"]["image2"].shape == (256, 256, 3)
    assert not (tmp_path / "home" / "runtimes").exists()


@pytest.mark.parametrize(
    ("file", "mujoco"), [("runtime.txt", "3.3.0"), ("runtime-mujoco-3.3.7.txt", "3.3.7")]
)
def test_the_locks_are_complete_and_name_no_place(file, mujoco):
    lock = (PLUGIN / "envhub_libero" / file).read_text()
    line = r"\S+==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+"
    assert re.fullmatch(f"# envhub: build bddl\n({line})+", lock)
    pinned = dict(pin.split("==") for pin in re.findall(r"^(\S+==\S+) \\$", lock, re.MULTILINE))
    source = (PLUGIN / "runtime.in").read_text()
    asked = {Requirement(text).name for text in source.splitlines() if not text.startswith("#")}
    assert {"numpy", "gymnasium", "msgspec", "pluggy"} <= asked <= set(pinned)
    assert not {"torch", "torchvision", "robomimic", "wandb", "envhub"} & set(pinned)
    assert pinned["mujoco"] == mujoco
    assert all(pinned[name] in versions for name, versions in COMPARED.items())
    required = metadata.requires("envhub-libero") or ()
    assert [str(Requirement(text)) for text in required] == ["envhub-core>=0.1"]


@pytest.mark.parametrize(
    ("mujoco", "told"),
    [
        ("3.2.3", ()),
        ("3.3.2", ()),
        ("3.3.3", ("draws the floor", "37 of 255 levels darker")),
        ("3.3.7", ("draws the floor", "37 of 255 levels darker")),
        ("3.4.0", ("draws the floor", "computes contacts in another way")),
        ("4.0.0", ("draws the floor", "computes contacts in another way")),
    ],
)
def test_the_user_is_told_of_a_mujoco_that_draws_or_moves_differently(
    mujoco, told, tmp_path, monkeypatch
):
    info = tmp_path / f"mujoco-{mujoco}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mujoco\nVersion: {mujoco}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (benchmark, _), said = envhub_libero.envhub_benchmarks(), []
    provision(PluginSource("libero"), "here", benchmark, reporter=Reporter(message=said.append))
    assert said[0].startswith("Running libero in this interpreter although ")
    assert len(said) == 1 + bool(told)
    if told:
        assert said[1].startswith(f"libero runs with mujoco {mujoco}, which ")
        assert all(words in said[1] for words in told)


# Its arguments


@pytest.mark.parametrize("camera", ["corner", "", "agentview2"])
def test_an_unknown_camera(camera):
    with pytest.raises(UnknownName) as caught:
        make(TASK, cameras=f"image={camera}")
    assert str(caught.value).startswith(f"No camera is called '{camera}'. ")
    assert str(caught.value).endswith(f"The cameras are {', '.join(CAMERAS)}.")


@pytest.mark.parametrize("text", ["agentview", "", "a=agentview,a=frontview", "a/b=agentview", 3])
def test_cameras_that_cannot_be_read(text):
    with pytest.raises(ContractError, match="cameras must name frames and their cameras, as in"):
        make(TASK, cameras=text)


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("size", 0, "from 1 to 4096"),
        ("size", 64.0, "from 1 to 4096"),
        ("size", True, "from 1 to 4096"),
        ("settling", -1, "from 0 to 1000"),
        ("scene_seed", -1, "from 0 to 4294967295"),
    ],
)
def test_impossible_numbers(name, value, most):
    for function in (make, spaces_of):
        with pytest.raises(ContractError) as caught:
            function(TASK, **{name: value})
        assert str(caught.value) == f"{name} must be a whole number {most}, found {value!r}."


def test_an_unknown_control_mode():
    with pytest.raises(ContractError) as caught:
        make(TASK, control="joint")
    assert str(caught.value) == "control must be 'relative' or 'absolute', found 'joint'."


def test_spaces():
    env = make(TASK, cameras="front=frontview", size=64, control="absolute")
    assert dict(env.observation_space["pixels"]) == {
        "front": gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    }
    state = env.observation_space["robot_state"]
    shapes = {f"{part}.{name}": box.shape for part in state for name, box in state[part].items()}
    assert shapes == {
        "eef.pos": (3,), "eef.quat": (4,), "eef.mat": (3, 3), "gripper.qpos": (2,),
        "gripper.qvel": (2,), "joints.pos": (7,), "joints.vel": (7,),
    }  # fmt: skip
    assert np.allclose(env.action_space.high, [2, 2, 2, np.pi, np.pi, np.pi, 1])
    declared = spaces_of(TASK, cameras="front=frontview", size=64, control="absolute")
    assert declared == (env.observation_space, env.action_space)
    assert (
        declared[0]
        is spaces_of(
            suites()["libero_10"][3], cameras="front=frontview", size=64, control="absolute"
        )[0]
    )


def test_an_env_that_was_not_reset():
    env = make(TASK)
    for use in (lambda: env.step(np.zeros(7, np.float32)), env.render):
        with pytest.raises(gym.error.ResetNeeded):
            use()
    env.close()


def test_without_meshes_the_error_says_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.delenv("ENVHUB_LIBERO_ASSETS", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    with pytest.raises(SourceUnavailable) as caught:
        envhub.evaluate("libero", tasks=[TASK.name], out=tmp_path / "run")
    assert str(caught.value).startswith(
        "libero needs the files of the Hub dataset lerobot/libero-assets, which are not part of "
        "its package and not stored here. "
    )
    assert str(caught.value).endswith(
        "Where there is a network: `envhub assets fetch libero`. Or name the directory of a copy "
        "with --env-arg assets=DIR or ENVHUB_LIBERO_ASSETS."
    )
    assert not (tmp_path / "home" / "runtimes").exists()


def test_a_directory_without_meshes(tmp_path):
    with pytest.raises(ContractError) as caught:
        check_assets(str(tmp_path))
    problem = f"{tmp_path} does not hold LIBERO's meshes: it has no directory 'articulated_objects'"
    assert str(caught.value).startswith(problem)
    with pytest.raises(ContractError, match="LIBERO needs the argument assets"):
        check_assets(None)


# Initial states


def stored(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
    return path


def pickled_states(states: np.ndarray) -> bytes:
    """As numpy 1 pickled them."""
    return pickle.dumps(states, 2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def test_init_states_are_read_to_the_bit(tmp_path):
    states = np.random.default_rng(0).normal(size=(50, 300))
    states[0, :3] = [np.nan, -0.0, np.inf]
    read = read_init_states(stored(tmp_path / "a.pruned_init", pickled_states(states)))
    assert read.tobytes() == states.tobytes()
    assert read.shape == (50, 300)


class Runs:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def test_no_pickle_is_run(tmp_path):
    marker = tmp_path / "marker"
    with pytest.raises(ContractError, match="it is not a stored array of 64-bit numbers"):
        read_init_states(stored(tmp_path / "a.pruned_init", pickle.dumps(Runs(marker), 2)))
    assert not marker.exists()


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b"\x80\x02.",
        pickled_states(np.zeros((5, 4)))[:-20],
        pickled_states(np.zeros((5, 4, 2))),
        pickled_states(np.asfortranarray(np.ones((5, 4)))),
        pickled_states(np.zeros((5, 4), np.float32)),
    ],
)
def test_other_content_is_refused(pickled, tmp_path):
    with pytest.raises(ContractError, match=r"a\.pruned_init does not hold LIBERO's initial"):
        read_init_states(stored(tmp_path / "a.pruned_init", pickled))


def test_a_missing_or_broken_archive(tmp_path):
    with pytest.raises(ContractError, match="No such file"):
        read_init_states(tmp_path / "a.pruned_init")
    (tmp_path / "b.pruned_init").write_bytes(b"PK")
    with pytest.raises(ContractError, match="not a zip file"):
        read_init_states(tmp_path / "b.pruned_init")


# The conversion to LeRobot's names

HALF = np.sqrt(0.5)
EDGES = [
    (0, 0, 0, 1), (0, 0, 0, -1), (1, 0, 0, 0), (0, -1, 0, 0), (HALF, 0, 0, HALF),
    (0, HALF, 0, -HALF), (1e-9, 0, 0, 1), (1e-4, 0, 0, np.sqrt(1 - 1e-8)), (0, 0, 0, 1 + 1e-12),
    (0, 1e-5, 0, -np.sqrt(1 - 1e-10)), (0.5, 0.5, 0.5, 0.5), (-0.5, 0.5, -0.5, -0.5),
]  # fmt: skip


def test_the_axis_angle_is_that_of_scipy():
    drawn = np.random.default_rng(0).normal(size=(500, 4))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    for quaternion in [*drawn, *np.array(EDGES, np.float64)]:
        vector, expected = axis_angle(quaternion), Rotation.from_quat(quaternion)
        angle = np.linalg.norm(vector)
        assert angle <= 2 * np.pi
        # Numbers near 1 hold the cosine of half a small angle to 8 digits only, and near a whole
        # turn their error is multiplied by the turn. Policies get 32-bit numbers.
        most = 3e-8 if quaternion[3] > -0.999 else 1e-5
        assert (Rotation.from_rotvec(vector) * expected.inv()).magnitude() < most, quaternion
        if quaternion[3] > 0:  # at half a turn both signs are right
            assert np.allclose(vector, expected.as_rotvec(), atol=3e-8), quaternion
        elif quaternion[3] < 0 and angle > 0:  # the long way round, as checkpoints were trained on
            short = expected.as_rotvec()
            assert angle >= np.pi
            assert np.isclose(angle + np.linalg.norm(short), 2 * np.pi, atol=1e-6)


def test_images_are_turned_and_the_state_has_eight_numbers():
    rng = np.random.default_rng(0)
    observation = make(TASK, size=4).observation_space.sample()
    frame = rng.integers(0, 256, (4, 4, 3), np.uint8)
    observation["pixels"]["image"] = frame
    quaternion = Rotation.from_rotvec([0.1, -0.2, 0.3]).as_quat()
    observation["robot_state"]["eef"]["quat"] = quaternion
    converted = convert(observation)
    assert sorted(converted) == [
        "observation.images.image", "observation.images.image2", "observation.state",
    ]  # fmt: skip
    assert np.array_equal(converted["observation.images.image"], np.rot90(frame, 2))
    state, robot = converted["observation.state"], observation["robot_state"]
    assert state.dtype == np.float32
    parts = [robot["eef"]["pos"], [0.1, -0.2, 0.3], robot["gripper"]["qpos"]]
    assert np.allclose(state, np.concatenate(parts), atol=1e-6)


# LIBERO itself


@needs_libero
def test_what_is_imported_and_loaded_when(simulator):
    code = """
import os, sys
os.environ["MUJOCO_GL"] = "egl"
from envhub_libero.env import make
from envhub_libero.tasks import suites

def loaded():
    maps = open("/proc/self/maps").read()
    names = [n for n in ("mujoco", "robosuite", "libero", "OpenGL", "torch") if n in sys.modules]
    return names + [n for n in ("libEGL", "libOSMesa", "libGL.") if n in maps]

env = make(suites()["libero_object"][0], assets=sys.argv[1])
print(loaded())
env.observing = frozenset({"robot_state/eef/pos"})
env.reset(seed=0)
env.step(env.action_space.sample())
print(loaded(), os.environ["MUJOCO_GL"])
env.close()
"""
    told = libero.python("-c", code, libero.assets()).splitlines()
    assert told == ["[]", "['mujoco', 'robosuite', 'libero'] egl"]


PLAYED = "turn_on_the_stove"
STEPS = 11
LOOKS = (0, 1, 2, 5, 10)
"""The steps before which the policy looks; the frames between are not drawn."""


class Policy:
    """Repeats known actions, and keeps what it sees."""

    def __init__(self) -> None:
        self.seen = []

    def act(self, obs, episodes):
        ((episode,), pixels) = episodes, obs["pixels"]
        self.seen.append([digest(frames[0]) for frames in pixels.values()])
        until = dict(pairwise((*LOOKS, STEPS)))[episode.step]
        return [actions(0, STEPS)[episode.step : until]]


@needs_libero
@needs_egl
def test_a_run_its_proof_and_its_replay_are_liberos_own_to_the_bit(simulator, tmp_path):
    """`make soak` compares every task, in one process and in several."""
    ((*_, own),) = libero.episodes("own", [["libero_goal", PLAYED, [0]]], steps=STEPS)
    policy = Policy()
    run = envhub.evaluate(
        "libero", policy, tasks=PLAYED, episodes=1, workers=1, max_steps=STEPS,
        env_args={"size": libero.SIZE}, runtime="isolated", seeding="shared",
        out=tmp_path / "run",
    )  # fmt: skip
    (record,) = run.records()
    assert (record.status, record.steps, record.init_state) == ("ok", STEPS, 0)
    assert policy.seen == [own[step][1:3] for step in LOOKS]
    assert run.info["benchmark"]["assets"] == {"assets": hash_tree(libero.assets())}
    found = envhub.verify(run, workers=1)
    assert (found.ok, found.verdict, found.machine) == (True, "identical", ())
    assert found.count("identical") == 1
    frames = []
    replay = envhub.replay(run, PLAYED, 0, on_frame=lambda frame: frames.append(digest(frame)))
    assert (replay.identical, replay.difference) == (True, None)
    assert frames == [line[3] for line in own]


@needs_libero
def test_success_ends_the_episode(simulator):
    """One task; `make soak` has every task's."""
    name = "KITCHEN_SCENE4_close_the_bottom_drawer_of_the_cabinet_and_open_the_top_drawer"
    job = [[TASKS[name].args["folder"], name]]
    told = libero.python(GOALS, libero.assets(), stdin=json.dumps(job)).splitlines()
    (reached,) = [json.loads(line) for line in told if line.startswith("[")]
    assert reached[0] == name
    assert set(reached[1]) == {"open", "close"}
    assert reached[2:] == [[False, False, False, False], [True, True, False, True]]


@needs_libero
def test_control_scene_seed_and_settling(simulator):
    code = """
import json, sys
import numpy as np
from envhub_libero.env import make
from envhub_libero.tasks import suites
from scipy.spatial.transform import Rotation

task = suites()["libero_goal"][0]

def made(**arguments):
    env = make(task, assets=sys.argv[1], size=16, **arguments)
    env.observing = frozenset()
    return env

def start(env, seed):
    observation, info = env.reset(seed=seed, options={"init_state": 7})
    inner = env._simulator._env
    fixtures = inner.sim.model.body_pos.copy()
    return observation["robot_state"]["eef"], info["init_state"], fixtures, inner.env.timestep

env, other = made(control="absolute", scene_seed=3), made(settling=0)
hand, state, fixtures, settled = start(env, 0)
begin, goal = hand["pos"], hand["pos"] + [0.0, 0.0, 0.05]
turned = Rotation.from_matrix(hand["mat"]).as_rotvec()
for _ in range(25):
    seen, *_ = env.step(np.array([*goal, *turned, -1], np.float32))
end = seen["robot_state"]["eef"]["pos"]
print(np.linalg.norm(end - goal) < 0.02 < np.linalg.norm(begin - goal), state)
same, (_, _, elsewhere, still) = start(env, 1)[2], start(other, 1)
print((fixtures == same).all(), (fixtures == elsewhere).all())
print(still, settled)
env.close()
other.close()
"""
    told = libero.python("-c", code, libero.assets()).splitlines()
    assert told == ["True 7", "True False", "0 10"]
