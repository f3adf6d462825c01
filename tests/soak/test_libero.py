"""All of LIBERO's 130 tasks: compared with LIBERO's own loop, and brought to their goals; runs."""

import json

import pytest
from envhub_libero.tasks import suites
from support import libero_frames as frames
from support import libero_setup as libero
from support.libero_loops import seen_by_chunks
from support.needs import needs_egl, needs_libero
from support.paths import ASSETS, TESTS

import envhub

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
    assert [name for name, _, before, _ in reached if before[-1]] == []
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
