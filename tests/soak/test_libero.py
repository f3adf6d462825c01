"""All of LIBERO's 130 tasks: compared with LIBERO's own loop, and brought to their goals; runs."""

import json
import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from envhub_libero.tasks import suites
from support import libero_frames as frames
from support import libero_setup as libero
from support.libero_loops import actions, digest, seen_by_chunks
from support.needs import needs_egl, needs_libero, needs_metaworld
from support.paths import ASSETS, TESTS

import envhub
from envhub.options import Limits

pytestmark = [pytest.mark.soak, needs_libero]

TASKS = [[suite, task.name] for suite, tasks in suites().items() for task in tasks]
PARTS = {
    f"tasks {start + 1} to {start + 10}": TASKS[start : start + 10] for start in range(0, 130, 10)
}
"""Ten at a time, one after the other in one process."""


@pytest.fixture(autouse=True)
def _simulator(monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))
    monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))


@needs_egl
@pytest.mark.parametrize("part", PARTS)
def test_every_task_is_liberos_own_to_the_bit(part):
    jobs = [[*task, [1, 50]] for task in PARTS[part]]
    own = libero.episodes("own", jobs, steps=20)
    assert len(own) == 2 * len(jobs)
    assert libero.episodes("ours", jobs, steps=20) == own


@needs_egl
@pytest.mark.parametrize("part", PARTS)
def test_every_task_opens_resets_and_steps(part):
    jobs = [[*task, [0]] for task in PARTS[part]]
    played = libero.episodes("ours", jobs, steps=1)
    assert [(task, len(lines)) for task, *_, lines in played] == [(job[1], 2) for job in jobs]


@needs_egl
def test_longer_chunks_of_ten_are_liberos_own_to_the_bit():
    jobs = [[tasks, suites()[tasks][1].name, [2, 3]] for tasks in suites()]
    own = libero.episodes("own", jobs, steps=40)
    ours = libero.episodes("ours", jobs, steps=40, chunks="10")
    assert [episode[:2] for episode in ours] == [episode[:2] for episode in own]
    for (task, seed, chunk, lines), (*_, full) in zip(ours, own, strict=True):
        assert lines == seen_by_chunks(full, chunk), (task, seed)


def test_every_goal_can_hold():
    script = TESTS / "support" / "libero_goals.py"
    told = libero.python(script, libero.assets(), stdin=json.dumps(TASKS)).splitlines()
    reached = [json.loads(line) for line in told if line.startswith("[")]
    assert len(reached) == 130
    kinds = {kind for _, some, *_ in reached for kind in some}
    assert kinds == {"in", "on", "open", "close", "turnon", "turnoff"}
    assert [name for name, _, before, _ in reached if any(before)] == []
    assert [name for name, _, _, after in reached if after != [True, True, False, True]] == []


@needs_egl
@pytest.mark.parametrize("suite", suites())
def test_runs_are_identical_for_any_workers_and_verified(suite, tmp_path):
    """The policy's actions follow from every bit that it is shown."""
    tasks = [suites()[suite][number].name for number in (3, 8)]
    runs = {workers: play(tasks, workers, tmp_path / f"{workers}") for workers in (1, 2, 3)}
    assert {record.status for record in runs[1].records()} == {"ok"}
    assert len({record.trace for record in runs[1].records()}) == 4
    for workers, run in runs.items():
        assert traces(run) == traces(runs[1])
        found = envhub.verify(run, episodes=None, workers=workers % 3 + 1, policy=workers == 2)
        assert (found.ok, found.verdict, found.machine) == (True, "identical", ())
        assert found.count("identical") == 4
    replay = envhub.replay(runs[3], tasks[1], 1, every=6, on_frame=lambda _: None)
    assert (replay.identical, replay.difference) == (True, None)


def play(tasks, workers, out, runtime="isolated"):
    return envhub.evaluate(
        "libero", f"{ASSETS}/libero_policies/digesting.py", tasks=tasks, episodes=2, max_steps=12,
        workers=workers, env_args={"size": libero.SIZE}, runtime=runtime, out=out,
    )  # fmt: skip


def traces(run):
    return {(record.task, record.episode): record.trace for record in run.records()}


@needs_egl
def test_every_scene_is_drawn_as_with_mujoco_3_2_3(tmp_path):
    found = libero.compare_frames(list(frames.TASKS), tmp_path / "run", "isolated")
    print(found)
    assert found.keys() == frames.TASKS.keys()
    assert max(max(cameras) for cameras in found.values()) < 2, found


@needs_egl
def test_mujoco_3_3_7_is_darker_and_its_runs_go_on_with_it(tmp_path):
    """The further runtime: its frames differ from the references, and its runs are verified."""
    floor, table = (frames.SUITES[suite] for suite in ("libero_object", "libero_spatial"))
    found = libero.compare_frames([floor, table], tmp_path / "run", "mujoco-3.3.7")
    print(found)
    assert min(found[floor]) > 30
    run = play([floor], 1, tmp_path / "old", runtime="mujoco-3.3.7")
    assert run.info["runtime"]["packages"]["mujoco"] == "3.3.7"
    again = envhub.verify(run, episodes=None, workers=1)
    assert (again.verdict, again.machine) == ("identical", ())
    other = envhub.verify(run, episodes=None, workers=1, runtime="isolated")
    assert other.machine == ("mujoco 3.3.7 recorded, 3.3.0 here",)


@needs_egl
def test_memory_stays_flat_over_twenty_tasks():
    """After the third, within 5 % apart from the scene's own size: as it is when that is freed."""
    code = """
import json, sys
from pathlib import Path
from envhub_libero.env import make
from envhub_libero.tasks import suites

def megabytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) // 1024

opened, closed = [], []
for task in suites()["libero_object"] * 2:
    env = make(task, assets=sys.argv[1])
    for episode in range(2):
        env.reset(seed=episode, options={"init_state": episode})
    opened.append(megabytes())
    env.close()
    closed.append(megabytes())
print(json.dumps([opened, closed]))
"""
    told = libero.python("-c", code, libero.assets()).splitlines()[-1]
    print(told)
    opened, closed = json.loads(told)
    assert len(opened) == len(closed) == 20
    assert max(closed[3:]) <= 1.05 * min(closed[3:]), closed
    assert max(opened[10:]) <= 1.05 * max(opened[3:10]), opened
    assert max(closed) < 0.58 * max(opened), "a closed scene's memory is the system's again"


# Episodes in other orders, in workers, beside others


def test_libero_has_the_same_tasks_and_init_states():
    code = """
import hashlib, json, sys, types
from support.libero_loops import digest, import_own, own_files, own_init_states
import_own(sys.argv[1])
sys.modules["torch"] = types.ModuleType("torch")  # LIBERO imports it only to load initial states
from libero.libero import benchmark
from envhub_libero.init_states import read_init_states
from pathlib import Path
told = {}
for suite in benchmark.libero_suites:
    own = benchmark.task_maps[suite].values()
    told[suite] = [[task.name, task.language] for task in own]
    for task in own:
        states = own_files(suite, task.name)[1]
        assert digest(read_init_states(Path(states))) == digest(own_init_states(states)), task
        assert read_init_states(Path(states)).shape[0] == 50
print(json.dumps(told))
"""
    own = json.loads(libero.python("-c", code, libero.assets()).splitlines()[-1])
    ours = {
        suite: [[task.name, task.description] for task in tasks]
        for suite, tasks in suites().items()
    }
    assert own == ours


JOBS = [
    ["libero_object", suites()["libero_object"][0].name, [0, 1]],
    ["libero_goal", "turn_on_the_stove", [0, 1]],
    ["libero_90", "KITCHEN_SCENE4_close_the_bottom_drawer_of_the_cabinet", [55]],
]
"""A floor, a table, and a kitchen whose drawers a reset opens."""
STEPS = 10


@pytest.fixture(scope="module")
def own_episodes():
    """LIBERO's own episodes of all jobs, by task and seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVHUB_HOME", str(libero.home()))
        own = libero.episodes("own", JOBS, steps=STEPS)
    return {(task, seed): lines for task, seed, _, lines in own}


@needs_egl
def test_episodes_in_another_order_are_liberos_own_to_the_bit(own_episodes):
    """Whether every frame is looked at, or every tenth and the others are not drawn."""
    assert len({lines[-1][0] for lines in own_episodes.values()}) == 5
    # In another order, after other tasks, one of them opened twice.
    jobs = [JOBS[1], *JOBS[::-1]]
    ours = libero.episodes("ours", jobs, steps=STEPS, chunks="1,10")
    assert len(ours) == 14
    for task, seed, chunk, lines in ours:
        assert lines == seen_by_chunks(own_episodes[task, seed], chunk), (task, seed, chunk)


class Policy:
    """Repeats known actions, one at a time or ten by the task, and keeps what it sees."""

    def __init__(self, chunks: dict[str, int]) -> None:
        self.seen = defaultdict(list)
        self._chunks = chunks

    def act(self, obs, episodes):
        for row, episode in enumerate(episodes):
            frames = [digest(frames[row]) for frames in obs["pixels"].values()]
            self.seen[episode.task, episode.seed].append(frames)
        return [self._next(episode) for episode in episodes]

    def _next(self, episode):
        known = actions(episode.seed, LIMIT)
        return known[episode.step : episode.step + self._chunks[episode.task]]


CHUNKS = {JOBS[1][1]: 10, JOBS[0][1]: 1}
"""The tasks that workers play, and how many actions the policy plans."""
LIMIT = STEPS + 1
"""Of the steps of an episode: a chunk, and a look at what it led to."""


@needs_egl
def test_workers_show_what_libero_shows(own_episodes, tmp_path):
    policy = Policy(CHUNKS)
    run = envhub.evaluate(
        "libero", policy, tasks=list(CHUNKS), episodes=2, workers=2, max_steps=LIMIT,
        env_args={"size": libero.SIZE}, runtime="isolated", seeding="shared", out=tmp_path / "run",
    )  # fmt: skip
    assert {(r.status, r.steps, r.init_state) for r in run.records()} == {
        ("ok", LIMIT, 0), ("ok", LIMIT, 1),
    }  # fmt: skip
    assert policy.seen == {
        (task, seed): [line[1:3] for line in lines[:: CHUNKS[task]]]
        for (task, seed), lines in own_episodes.items()
        if task in CHUNKS
    }


def test_a_reset_that_libero_tries_for_ever_is_a_timeout_with_the_reason(tmp_path):
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    for path in libero.assets().iterdir():
        (meshes / path.name).symlink_to(path)

    class Breaks:
        """Takes the scene away once it was built."""

        needs = frozenset({"robot_state/eef/pos"})

        def act(self, obs, episodes):
            (meshes / "scenes").unlink(missing_ok=True)
            return np.zeros((len(episodes), 7), np.float32)

    with pytest.warns(RuntimeWarning, match="no answer within 20 s") as warned:
        run = envhub.evaluate(
            "libero", Breaks(), tasks=["turn_on_the_stove"], episodes=2, workers=1, max_steps=1,
            env_args={"assets": str(meshes)}, runtime="isolated", retries=0,
            limits=Limits(reset=20.0), out=tmp_path / "run",
        )  # fmt: skip
    assert [record.status for record in run.records()] == ["ok", "timeout"]
    reason = "LIBERO's reset failed and is tried again: FileNotFoundError: [Errno 2] No such file"
    assert reason in str(warned[0].message)


@needs_egl
def test_versions_that_were_not_compared_are_reset_as_libero_does(own_episodes, tmp_path):
    info = tmp_path / "robosuite-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: robosuite\nVersion: 9.9.9\n")
    job = [["libero_object", JOBS[0][1], [1]]]
    arguments = (libero.LOOPS, "ours", libero.assets(), libero.SIZE, 3, 1)
    told = libero.python(*arguments, stdin=json.dumps(job), first=str(tmp_path)).splitlines()
    (said,) = (line for line in told if line.startswith("envhub: "))
    assert said.startswith("envhub: robosuite 9.9.9 was not compared with the fast reset")
    task, seed, _, lines = json.loads(told[-1])
    assert lines == own_episodes[task, seed][:4]


@needs_egl
def test_closing_frees_everything_and_another_reset_opens_again():
    code = """
import gc, sys, weakref
from pathlib import Path
from envhub_libero.env import make
from envhub_libero.tasks import suites
from support.libero_loops import digest

def megabytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) // 1024

tasks = suites()["libero_object"]
env, sizes, frames = make(tasks[0], assets=sys.argv[1], size=64), [], set()
for _ in range(3):
    frames.add(digest(env.reset(seed=5, options={"init_state": 5})[0]["pixels"]["image"]))
    upright = env.render()
    simulator = weakref.ref(env._simulator)
    env.close()
    gc.collect()
    assert simulator() is None
    sizes.append(megabytes())
env.close()
assert len(frames) == 1, frames
assert upright.shape == (64, 64, 3) and upright.std() > 10
assert max(sizes[2:]) <= 1.05 * sizes[1], sizes
"""
    assert libero.python("-c", code, libero.assets(), MUJOCO_GL="egl") == ""


def mapped_libraries() -> set[str]:
    """The MuJoCo libraries that workers of this process have loaded."""
    found = set()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words, maps = command.read_bytes(), command.with_name("maps").read_text()
        except OSError:  # it ended, or is another user's
            continue
        if b"envhub.worker" in words and str(os.getpid()).encode() in words.split(b"\0"):
            found |= set(re.findall(r"libmujoco\.so\.([\d.]+)", maps))
    return found


@needs_egl
@needs_metaworld
def test_beside_meta_world_in_one_program():
    """Each in its own interpreter, with a MuJoCo of its own."""
    ours = envhub.make_env(
        "libero", tasks=["turn_on_the_stove"], env_args={"size": 16}, runtime="isolated"
    )
    other = envhub.make_env("metaworld", tasks=["reach-v3"], env_args={"size": 16}, runtime="here")
    envs = [ours["libero_goal"]["turn_on_the_stove"], other["mt50"]["reach-v3"]]
    for env in envs:
        env.reset(seed=0)
    for env in envs * 2:
        observation, *_ = env.step(env.action_space.sample())
        frames = observation["pixels"]
        shape = frames["image"].shape if isinstance(frames, dict) else frames.shape
        assert shape == (1, 16, 16, 3)
    assert mapped_libraries() == {"3.3.0"}
    envhub.close_envs([ours, other])
