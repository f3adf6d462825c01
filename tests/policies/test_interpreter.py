"""Policies on interpreters of their own, with real processes."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import uv
from support.needs import needs_index
from support.paths import ASSETS
from support.pythons import other_python

import envhub
from envhub.errors import ExitCode, RunDirectoryError, RuntimeUnavailable, UsageError
from envhub.runtime.compiled import compiled_functions
from envhub.runtime.pythons import ask_python

WALK = f"{ASSETS}/run_walk"

POLICY = """
import os
import sys

import numpy as np
{imports}


class Still:
    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


def make_policy(benchmark, observation_space, action_space, note=None):
    if note:
        with open(note, "w") as file:
            print(sys.executable, sys.version.split()[0], sep="\\n", file=file)
            print("PYTHONPATH" in os.environ, file=file)
    return Still()
"""
ENV = """{head}
import gymnasium as gym
import numpy as np


class Env(gym.Env):
    _max_episode_steps = 5
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    task_description = "x"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(2).astype(np.float32), {{}}

    def step(self, action):
        observation = self.np_random.random(2).astype(np.float32)
        return observation, float(observation[0]), False, False, {{"is_success": False}}


def make_env(n_envs=1, use_async_envs=False):
    return Env()
"""


def block(*packages, **more):
    lines = ["# /// script", f"# dependencies = {json.dumps(packages)}"]
    lines += [f"# {key.replace('_', '-')} = {json.dumps(value)}" for key, value in more.items()]
    return "\n".join([*lines, "# ///"])


@pytest.fixture
def env(tmp_path):
    def write(head=""):
        directory = tmp_path / "bench"
        directory.mkdir()
        (directory / "env.py").write_text(ENV.format(head=head))
        return str(directory)

    return write


@pytest.fixture
def policy(tmp_path):
    def write(head="", imports=""):
        path = tmp_path / "policy.py"
        path.write_text(head + POLICY.format(imports=imports))
        return str(path)

    return write


def evaluate(ref, policy, out, **more):
    return envhub.evaluate(ref, policy, episodes=2, workers=1, out=out, **more)


def test_a_policy_runs_on_the_interpreter_that_is_named(env, policy, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    note = tmp_path / "note"
    run = evaluate(
        env(),
        policy(),
        tmp_path / "run",
        policy_python=sys.executable,
        policy_args={"note": str(note)},
    )
    assert note.read_text().splitlines() == [sys.executable, sys.version.split()[0], "False"]
    runtime = run.info["policy"]["runtime"]
    assert {key: runtime[key] for key in ("kind", "key", "path", "python")} == {
        "kind": "named",
        "key": None,
        "path": sys.executable,
        "python": sys.version.split()[0],
    }
    assert runtime["packages"]["numpy"] == metadata.version("numpy")
    assert {record.status for record in run.records()} == {"ok"}


def test_records_do_not_depend_on_the_interpreter(env, policy, tmp_path):
    ref, file = env(), policy()
    here = evaluate(ref, file, tmp_path / "here")
    named = evaluate(ref, file, tmp_path / "named", policy_python=Path(sys.executable))
    assert [record.trace for record in named.records()] == [r.trace for r in here.records()]
    assert envhub.verify(named, episodes=1, policy=True).ok  # replayed, and by the policy again
    runtime = here.info["policy"]["runtime"]
    assert (runtime["kind"], runtime["path"], runtime["key"]) == ("here", None, None)


def test_resuming_uses_the_interpreter_again(env, policy, tmp_path):
    out, note = tmp_path / "run", tmp_path / "note"
    arguments = {"note": str(note)}
    run = evaluate(env(), policy(), out, policy_python=sys.executable, policy_args=arguments)
    before = sorted((record.number, record.trace) for record in run.records())
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:1]))
    note.unlink()
    subprocess.run([sys.executable, "-m", "envhub", "eval", "--resume", out], check=True)
    assert note.read_text().splitlines()[0] == sys.executable
    assert sorted((r.number, r.trace) for r in envhub.open_run(out).records()) == before


def test_resuming_compares_the_interpreter(env, policy, tmp_path):
    ref, file, out = env(), policy(), tmp_path / "run"
    evaluate(ref, file, out, policy_python=sys.executable)
    with pytest.raises(RunDirectoryError, match=r"interpreter of the policy .* is named, and now"):
        evaluate(ref, file, out, resume=True)
    manifest = json.loads((out / "run.json").read_text())
    manifest["policy"]["runtime"]["packages"]["torch"] = "1.0"
    (out / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(RunDirectoryError, match=r"policy's package torch that .* is 1.0, and now"):
        evaluate(ref, file, out, resume=True, policy_python=sys.executable)
    manifest["policy"]["runtime"] |= {"python": "3.99.0"}
    (out / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(RunDirectoryError, match=r"Python of the policy that .* is 3.99.0, and now"):
        evaluate(ref, file, out, resume=True, policy_python=sys.executable)


def test_what_an_interpreter_lacks_is_said_with_the_line_to_type(env, policy, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    with pytest.raises(RuntimeUnavailable) as caught:
        evaluate(env(), policy(), tmp_path / "run", policy_python=python)
    text = str(caught.value)
    assert text.startswith(f"{python} has gymnasium (none), msgspec (none), numpy (none); a policy")
    assert "-m pip install 'gymnasium>=1.1' 'msgspec>=0.19' 'numpy>=1.26'" in text
    assert caught.value.exit_code == ExitCode.RUNTIME
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("chosen", "more", "problem"),
    [
        ("zero", {}, "--policy-python is for .*; this one runs where the benchmark does"),
        (None, {}, "--policy-python is for .*; this one is an object of this program"),
        ("file", {"workers": 0}, "--policy-python: --workers 0 runs everything in this process"),
    ],
)
def test_policies_without_an_interpreter_of_their_own(env, policy, tmp_path, chosen, more, problem):
    class Still:
        def act(self, obs, episodes):
            raise AssertionError

    named = policy() if chosen == "file" else chosen or Still()
    with pytest.raises(UsageError, match=problem):
        envhub.evaluate(env(), named, out=tmp_path / "run", policy_python=sys.executable, **more)


# A block in the policy's file


def test_a_block_whose_requirements_are_installed_changes_nothing(env, policy, tmp_path):
    run = evaluate(env(), policy(block("numpy>=1")), tmp_path / "run")
    assert run.info["policy"]["runtime"]["kind"] == "here"


def test_a_block_builds_a_runtime(env, policy, tmp_path, real_runtimes):
    seen = tmp_path / "seen"
    note = f"open({str(seen)!r}, 'w').write(os.environ['NUMBA_CACHE_DIR'])"
    file = policy(block("gadget==1.0"), imports=f"import gadget, os; {note}")
    run = evaluate(env(), file, tmp_path / "run")
    runtime = run.info["policy"]["runtime"]
    assert (runtime["kind"], run.info["runtime"]["kind"]) == ("isolated", "here")
    assert seen.read_text() == str(compiled_functions(runtime["key"]))
    assert len(runtime["key"]) == 16
    again = evaluate(run.info["benchmark"]["path"], file, tmp_path / "again")
    assert again.info["policy"]["runtime"] == runtime
    assert {record.status for record in run.records()} == {"ok"}


def test_a_block_needs_a_process(env, policy, tmp_path):
    with pytest.raises(UsageError, match=r"The requirements of policy.py: --workers 0 runs"):
        envhub.evaluate(env(), policy(block("gadget==1.0")), workers=0, out=tmp_path / "run")


def test_a_block_for_a_python_that_is_not_installed(env, policy, tmp_path):
    with pytest.raises(RuntimeUnavailable, match=r"policy.py requires Python ==3.99.\*; this is"):
        evaluate(env(), policy(block(requires_python="==3.99.*")), tmp_path / "run")


@needs_index
def test_three_interpreters_in_one_command(env, policy, tmp_path, monkeypatch):
    """EnvHub here, the policy on another Python, the benchmark in a runtime of its own."""
    python, note = other_python(), tmp_path / "note"
    if python is None:  # then at least in another environment
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        needed = ["gymnasium", "msgspec", "numpy"]
        install = [uv.find_uv_bin(), "pip", "install", "-q", "--python", tmp_path / "venv"]
        subprocess.run([*install, *needed], check=True)
        words, file = ["--policy-python", str(tmp_path / "venv/bin/python")], policy()
    else:
        version = ask_python(python).version
        words, file = [], policy(block(requires_python=f"=={version}"))
        monkeypatch.setenv("PATH", f"{Path(python).parent}:{os.environ['PATH']}")
    command = [sys.executable, "-m", "envhub", "eval", env(block("numpy")), "--policy", file]
    command += ["--runtime", "isolated", "--policy-arg", f"note={note}", "--episodes", "2"]
    subprocess.run([*command, *words, "--out", tmp_path / "run"], check=True)
    run = envhub.open_run(tmp_path / "run")
    executable, version, _ = note.read_text().splitlines()
    assert executable != sys.executable
    assert run.info["policy"]["runtime"]["python"] == version
    assert run.info["runtime"]["kind"] == "isolated"
    assert run.info["runtime"]["key"] != run.info["policy"]["runtime"]["key"]
    if python is not None:
        assert version != sys.version.split()[0]
        assert run.info["runtime"]["python"] == sys.version.split()[0]
        assert run.info["policy"]["runtime"]["kind"] == "isolated"
