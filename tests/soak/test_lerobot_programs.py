"""LeRobot 0.6.1's own loop and command, unmodified, over EnvHub's envs.

The environment is .venv-lerobot-06, or ENVHUB_TEST_LEROBOT_06 names its interpreter.
"""

import json
import os
import subprocess

import av
import pytest
from support import libero_setup as libero
from support.needs import needs_egl, needs_libero, needs_newest_lerobot, newest_lerobot_python
from support.paths import DOCS, TESTS

pytestmark = [pytest.mark.soak, needs_newest_lerobot, needs_libero, needs_egl]

ROLLOUTS = TESTS / "support" / "lerobot_rollouts.py"
RANDOM_ACT = (
    "--policy.type=act", "--policy.pretrained_backbone_weights=null", "--policy.device=cpu",
    "--policy.push_to_hub=false", "--policy.dim_model=64", "--policy.n_heads=2",
    "--policy.dim_feedforward=128", "--eval.n_episodes=2", "--eval.batch_size=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def variables():
    return os.environ | {
        "ENVHUB_HOME": str(libero.home()),  # where the runtime is
        "ENVHUB_LIBERO_ASSETS": str(libero.assets()),
        "MUJOCO_GL": "egl",
        "PYTHONPATH": str(TESTS),
    }


@pytest.mark.parametrize(
    "task",
    ["reach-v3", "drawer-close-v3", "button-press-topdown-v3", "libero_spatial", "libero_goal"],
)
def test_rollouts_are_those_over_lerobots_own_envs(variables, task):
    """In both: the same packages, seeds and actions, three episodes."""
    command = [newest_lerobot_python(), ROLLOUTS, libero.assets(), task]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found["envhub"] == found["lerobot"]
    assert found["pictures"] == 0
    assert found["numbers"] <= 1e-6
    suite = task.startswith("libero")
    assert found["lerobot"]["success"] == [not suite] * 3
    assert found["shape"][-2:] == ([360, 360] if suite else [480, 480])
    pictures = {path for path in found["compared"] if "image" in path}
    assert len(pictures) == (2 if suite else 1)
    assert len(found["compared"]) > len(pictures) + 4  # actions, rewards, ends and the state


@pytest.mark.parametrize(
    ("ref", "options"),
    [
        (DOCS / "examples" / "reach", ("--env.task=reach-red,reach-green",)),
        ("metaworld", ("--env.task=reach-v3",)),
        ("libero", ("--env.suite=libero_spatial", "--env.task='*plate_and_the_ramekin*'")),
    ],
)
def test_lerobots_command_runs_a_random_act(variables, tmp_path, ref, options):
    program = newest_lerobot_python().parent / "lerobot-eval"
    words = (f"--env.ref={ref}", "--env.max_steps=8", f"--output_dir={tmp_path}", *options)
    command = [program, "--env.type=envhub", *words, *RANDOM_ACT]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    info = json.loads((tmp_path / "eval_info.json").read_text())
    print(info)
    assert info["overall"]["n_episodes"] == 2 * len(info["per_task"])
    assert len(info["overall"]["video_paths"]) == info["overall"]["n_episodes"]
    for path in info["overall"]["video_paths"]:
        with av.open(path) as video:
            assert sum(1 for _ in video.decode(video=0)) == 8  # LeRobot leaves the last one out
