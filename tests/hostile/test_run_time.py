"""Attacks of code that runs: in the sandbox it may do what it likes, and nothing comes of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.attacks import env_file, envhub, python
from support.paths import TESTS

from envhub import evaluate, open_run

TRUSTED = ("--trust-remote-code", "--workers", "1", "--episodes", "1", "--out", "run")

CONVERTER = """
COMMAND = "touch {marker}"

class Env(Env):
    observation_space = gym.spaces.Dict(
        {{name: gym.spaces.Box(0.0, 1.0, (1,), np.float32) for name in ("sh", "-c", COMMAND)}}
    )

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {{}}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {{"is_success": True}}
"""

POLICY = """
import numpy as np

class Policy:
    format = "lerobot"

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)

def make_policy(benchmark, observation_space, action_space):
    return Policy()
"""


class LeRobotPolicy:
    format = "lerobot"

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)


@pytest.fixture
def converter(publish, tmp_path):
    """A benchmark whose converter runs a shell command on the observation's keys."""
    marker = tmp_path / "marker"
    bottom = CONVERTER.format(marker=marker)
    ref = publish(env_file(bottom=bottom, more='lerobot="subprocess:check_call"'))
    return ref, marker


def test_a_converter_does_not_run_in_the_policys_process(converter, sandbox, tmp_path):
    ref, marker = converter
    (tmp_path / "policy.py").write_text(POLICY)
    done = envhub("eval", ref, *TRUSTED, "--policy", "./policy.py", "--sandbox", sandbox)
    assert not marker.exists()
    assert done.returncode in (1, 4), done.stderr
    assert "Traceback" not in done.stderr


def test_a_converter_does_not_run_in_the_evaluator(converter, sandbox, tmp_path):
    ref, marker = converter
    with pytest.warns(RuntimeWarning, match="^1 of 1 episodes ended with an error, the first: "):
        run = evaluate(
            ref,
            LeRobotPolicy(),
            trust_remote_code=True,
            sandbox=sandbox,
            workers=1,
            episodes=1,
            out=tmp_path / "run",
        )
    assert not marker.exists()
    assert [record.status for record in run.records()] == ["env_error"]


PLANTED = """
import os
from pathlib import Path

NAMES = ("pathlib", "shutil", "socket", "threading", "signal", "ctypes", "os", "envhub", "struct")
for name in NAMES:
    Path(os.environ["HOME"], f"{{name}}.py").write_text(
        "import builtins\\nbuiltins.open({marker!r}, 'w')"
    )
Path(os.environ["HOME"], "something").mkdir()
"""


@pytest.mark.parametrize("variables", [{"PYTHONPATH": ":"}, {"PYTHONPATH": ".:/nowhere"}])
def test_the_guard_loads_nothing_that_the_worker_wrote(publish, sandbox, tmp_path, variables):
    marker = tmp_path / "marker"
    ref = publish(env_file(top=PLANTED.format(marker=str(marker))))
    done = envhub("eval", ref, *TRUSTED, "--sandbox", sandbox, **variables)
    assert not marker.exists()
    assert done.returncode == 0, done.stderr
    assert open_run(tmp_path / "run").complete


SEEN = """
import json, os
from pathlib import Path
FACTS = json.dumps(
    {name: os.environ.get(name, "") for name in ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")}
)
"""


def test_empty_and_relative_directories_are_dropped(publish, sandbox):
    ref = publish(env_file(top=SEEN).replace('"attack", 5', "FACTS, 5"))
    done = envhub(
        *("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox),
        LD_LIBRARY_PATH=":/usr/lib:lib",
        PYTHONPATH=":/nowhere:src:",
    )
    assert done.returncode == 0, done.stderr
    [task] = json.loads(done.stdout)["suites"]["attack"]
    facts = json.loads(task["description"])
    assert facts["LD_LIBRARY_PATH"] == "/usr/lib"
    assert facts["PYTHONPATH"] == "/nowhere"
    assert all(part.startswith("/") for part in facts["PATH"].split(":"))


GUARD = """
import json, os, sys, time
from pathlib import Path
from envhub.host.worker import Worker
from envhub.types import Confinement
from support.sources import confined_spec

worker = Worker("env 0", confined_spec(Confinement(sys.argv[1], network=False)))
guard = Path("/proc", str(worker.child.pid))
while guard.joinpath("cmdline").read_bytes().split(b"\\0")[0] != os.fsencode(sys.executable):
    time.sleep(0.01)  # a shell, then env, which becomes the guard
environ = guard.joinpath("environ").read_text()
facts = {
    "cwd": os.readlink(guard / "cwd"),
    "variables": [part.split("=")[0] for part in environ.split("\\0") if part],
    "options": guard.joinpath("cmdline").read_text().split("\\0"),
}
worker.end()
print(json.dumps(facts))
"""


def test_the_guard_stands_where_the_worker_cannot_write(sandbox):
    done = python(GUARD, sandbox, PYTHONPATH=str(TESTS), HF_TOKEN="hf_planted", LD_LIBRARY_PATH=":")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["cwd"] == "/"
    assert set(facts["variables"]) <= {"LC_CTYPE"}
    assert "-I" in facts["options"]
    assert Path(facts["options"][0]).is_absolute() or facts["options"][0] == "/usr/bin/env"
