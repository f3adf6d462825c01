"""Runs played again: as they were made, and made on another machine."""

import platform
import random
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest
from support.forgery import agree, change_manifest, change_record, change_steps
from support.needs import needs_sandbox
from support.opened import opened_by
from support.published import publish
from support.replays import REPLAYED, drawn, make_recorded
from support.run_tools import ENVHUB, variables

import envhub
from envhub.errors import RemoteCodeRefused, RunDirectoryError, UnknownName
from envhub.evaluation.verify import draw
from envhub.results.run import open_run
from envhub.results.seal import key_path


def verdicts(found):
    return {f"{each.task}:{each.episode}": each.verdict for each in found.episodes}


@pytest.mark.parametrize(("file", "made", "checked"), [("env.py", 2, 1), ("rebuilt.py", 1, 1)])
def test_a_run_as_it_was_made(tmp_path, file, made, checked):
    run = make_recorded(tmp_path / "run", file, workers=made)
    found = envhub.verify(run, workers=checked)
    assert (found.ok, found.verdict, found.machine, found.policy) == (True, "identical", (), None)
    assert len(found.episodes) == found.count("identical") == len(run.records())


def test_what_the_policy_saw_first_is_drawn_once(tmp_path):
    (tmp_path / "log").mkdir()
    run = make_recorded(tmp_path / "run", log=tmp_path / "log", tasks="once", episodes=2)
    assert envhub.verify(run).verdict == "identical"
    for record in run.records():
        assert drawn(tmp_path / "log", record)[1] == 1


def test_the_policy_again(run):
    found = envhub.verify(run, policy=True, episodes=3, seed=1)
    assert found.ok
    assert [each.verdict for each in found.policy] == ["identical"] * 3
    assert found.count("identical") == 3
    assert found.count("not checked") == 1


def test_a_policy_object_cannot_be_run_again(tmp_path):
    class Still:
        def act(self, obs, episodes):
            return np.zeros((len(episodes), 1), np.float32)

    run = envhub.evaluate(
        REPLAYED, Still(), tasks="once", episodes=1, workers=1, out=tmp_path / "run"
    )
    assert envhub.verify(run).ok
    with pytest.raises(RunDirectoryError, match="was a Python object"):
        envhub.verify(run, policy=True)


def test_nothing_is_executed_if_the_files_contradict_each_other(run):
    change_record(run, 0, return_=1.0)
    key_path().unlink()  # by which alone it could be executed
    assert envhub.verify(run).verdict == "tampered"
    shutil.rmtree(run.directory / "logs")
    assert not envhub.verify(run).ok


def test_a_run_of_somebody_else(run):
    key_path().unlink()
    with pytest.raises(RunDirectoryError, match=r"envhub verify .* --benchmark REF$"):
        envhub.verify(run)
    assert envhub.verify(run, benchmark=REPLAYED).verdict == "identical"


@needs_sandbox
def test_a_benchmark_of_the_hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    ref = publish(local_hub, REPLAYED, "me/replayed")
    options = {"tasks": "once", "episodes": 1, "workers": 1, "out": tmp_path / "run"}
    run = envhub.evaluate(ref, "zero", trust_remote_code=True, **options)
    with pytest.raises(RemoteCodeRefused):
        envhub.verify(run)
    assert envhub.verify(run, trust_remote_code=True).verdict == "identical"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="OpenBLAS has other kernels there")
def test_another_kernel_of_openblas_is_not_a_forgery(tmp_path):
    """The same wheel computes other last bits; the run says by which kernel."""
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "env.py").write_text(BLAS)
    run = tmp_path / "run"
    words = ("eval", "./bench", "--policy", "random", "--workers", "1", "--out", str(run))
    kernel = variables(OPENBLAS_CORETYPE="Prescott")
    subprocess.run([ENVHUB, *words], cwd=tmp_path, env=kernel, check=True, capture_output=True)
    found = envhub.verify(run)
    assert found.ok
    assert set(verdicts(found).values()) == {"equivalent"}
    assert [text for text in found.machine if text.startswith("openblas")]

    def better(array):
        array["reward"][0] += 0.01

    forged = open_run(run)
    change_steps(forged, 0, better)
    agree(forged, 0)
    found = envhub.verify(run)
    assert verdicts(found)["sum:0"] == "drifted"
    change_manifest(run, lambda info: info["machine"].update(openblas="Haswell"))
    assert not envhub.verify(run).ok


BLAS = """
import gymnasium as gym
import numpy as np

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("sum", "add up", horizon=5)
    yield envhub.Benchmark("blas", ":Sum", {"all": (task,)}, episodes=2, memory_mb=64)


class Sum(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, task):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        noise = self.np_random.normal(size=(1001, 1001)) * float(action[0])
        reward = float((noise @ noise).ravel() @ np.ones(1001 * 1001))
        return np.zeros(1, np.float32), reward, False, False, {"is_success": False}
"""


class TestSample:
    def test_every_ended_episode_is_as_likely_as_any_other(self, tmp_path):
        run = make_recorded(tmp_path / "run", tasks="once,at-end", episodes=6)
        records = run.records()

        def chosen(count, seed=0):
            found = draw(records, count, random.Random(seed))
            assert [r.number for r in found] == sorted({r.number for r in found})
            return [r.number for r in found]

        assert chosen(None) == chosen(99) == chosen(12) == list(range(12))
        assert chosen(5, 1) == chosen(5, 1)
        counts = Counter(number for seed in range(600) for number in chosen(5, seed))
        assert set(counts) == set(range(12))
        # Each is drawn 250 times on average; the standard deviation is 12.
        assert all(190 < count < 310 for count in counts.values())

    def test_a_new_seed_chooses_each_time(self, run):
        found = [envhub.verify(run, episodes=1) for _ in range(2)]
        assert found[0].sample_seed != found[1].sample_seed
        assert [each.checked for each in found] == [1, 1]
        assert [each.ended for each in found] == [4, 4]
        assert [each.most_false for each in found] == [3, 3]

    def test_of_some_tasks(self, run):
        found = envhub.verify(run, tasks=["once"])
        assert (found.ended, found.checked, found.most_false) == (2, 2, 0)
        assert verdicts(found)["at-end:0"] == "not checked"
        with pytest.raises(UnknownName, match="No task is called 'far'"):
            envhub.verify(run, tasks=["far"])


def test_each_file_is_opened_once(run, tmp_path):
    place = run.directory
    code, opened = opened_by(tmp_path, "verify", place, "--policy", "--episodes", "9")
    assert code == 0
    files = [path for path in opened if path.startswith(f"{place}/")]
    assert files.count(f"{place}/run.json") == 1
    arrays = sorted(path for path in opened if path.endswith(".npy"))  # from their directory
    assert arrays == sorted(path.name for path in (place / "actions").iterdir())
