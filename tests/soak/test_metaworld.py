"""Meta-World: all of its tasks, its runtime, every check, and what it leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from envhub_metaworld.tasks import suites
from support.metaworld_goals import check_goals
from support.needs import needs_egl, needs_index, needs_metaworld, needs_sandbox
from support.paths import TESTS
from support.zoo import check, failures

import envhub

pytestmark = [pytest.mark.soak, needs_metaworld]

PLUGIN = TESTS.parent / "plugins" / "metaworld"
SCRIPT = Path(__file__).parents[1] / "support" / "metaworld_resets.py"


def test_every_reset_is_meta_worlds_own_to_the_bit():
    start = [sys.executable, str(SCRIPT), "10"]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout == "compared 50\n", done.stderr


def test_every_goal_follows_the_seed_and_memory_stays_flat(tmp_path):
    check_goals([task.name for task in suites()["mt50"]], tmp_path)


@needs_index
@needs_sandbox
def test_in_a_runtime_and_as_a_hub_repository(local_hub, monkeypatch, tmp_path):
    """The plugin and its copy on the Hub, both in the runtime that the lock says, agree."""
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    package = PLUGIN / "envhub_metaworld"
    env_file = (PLUGIN / "hub" / "env.py").read_bytes()
    files = {f"envhub_metaworld/{path.name}": path.read_bytes() for path in package.glob("*.*")}
    files |= {"env.py": env_file, "runtime.txt": files["envhub_metaworld/runtime.txt"]}
    local_hub.create("me/metaworld")
    reference = f"me/metaworld@{local_hub.commit('me/metaworld', files)}"
    chosen = {"tasks": ["window-open-v3"], "episodes": 2, "workers": 1, "runtime": "isolated"}
    runs = [
        envhub.evaluate(reference, "expert", trust_remote_code=True, out=tmp_path / "a", **chosen),
        envhub.evaluate("metaworld", "expert", out=tmp_path / "b", **chosen),
    ]
    assert [run.info["runtime"]["kind"] for run in runs] == ["isolated", "isolated"]
    assert len({run.info["runtime"]["key"] for run in runs}) == 1
    assert {run.info["runtime"]["packages"]["mujoco"] for run in runs} == {"3.3.0"}
    there, here = ([(r.trace, r.success, r.steps) for r in run.records()] for run in runs)
    assert there == here
    assert all(success for _, success, _ in here)


@needs_egl
@needs_sandbox
@pytest.mark.timeout(600)  # a dozen processes import the simulator
def test_it_passes_every_check_without_a_waiver():
    code, answer = check("metaworld", "--task", "reach-v3", "--env-arg", "size=64")
    assert (code, failures(answer)) == (0, []), answer
    skipped = {row["name"] for row in answer["checks"] if row["status"] == "skipped"}
    assert skipped == {"instruction-agrees", "nothing-after-end"}
    assert answer["figures"]["reach-v3"]["expert_rate"] == 1


@needs_egl
def test_closing_frees_everything_and_another_reset_opens_again():
    code = """
import gc, hashlib, weakref
from pathlib import Path
from envhub_metaworld.env import make
from envhub_metaworld.tasks import suites

def megabytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) // 1024

gc.disable()
env, sizes, frames = make(suites()["mt10"][1], size=96), [], set()
for _ in range(5):
    frames.add(hashlib.sha256(env.reset(seed=5)[0]["pixels"].tobytes()).hexdigest())
    simulator = weakref.ref(env._simulator)
    env.close()
    assert simulator() is None
    sizes.append(megabytes())
env.close()
assert len(frames) == 1, frames
assert max(sizes[3:]) <= 1.05 * sizes[2], sizes
"""
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"MUJOCO_GL": "egl"}, check=True)
