"""Runs played again: as they were made, forged in every way, and made on another machine."""

import json
import platform
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as changed
from support.forgery import (
    agree,
    change_actions,
    change_manifest,
    change_record,
    change_steps,
)
from support.manifests import record as written
from support.needs import needs_sandbox
from support.opened import opened_by
from support.published import publish
from support.replays import REPLAYED, make_recorded
from support.run_tools import ENVHUB, variables

import envhub
from envhub.errors import RemoteCodeRefused, RunDirectoryError, UnknownName
from envhub.evaluation.verify import Question, choose_sample, compare_machines, judge
from envhub.results.arrays import STEP
from envhub.results.journal import record_from_json
from envhub.results.run import open_run
from envhub.results.schema import parse_run
from envhub.results.seal import key_path


def verdicts(found):
    return {f"{each.task}:{each.episode}": each.verdict for each in found.episodes}


@pytest.mark.parametrize(("file", "made", "checked"), [("env.py", 2, 1), ("rebuilt.py", 1, 1)])
def test_a_run_as_it_was_made(tmp_path, file, made, checked):
    run = make_recorded(tmp_path / "run", file, workers=made)
    found = envhub.verify(run, workers=checked)
    assert (found.ok, found.verdict, found.machine, found.policy) == (True, "identical", (), None)
    assert len(found.episodes) == found.count("identical") == len(run.records())


def test_the_policy_again(run):
    found = envhub.verify(run, policy=True, episodes=3, seed=1)
    assert found.ok
    assert [each.verdict for each in found.policy] == ["identical"] * 3
    assert found.count("identical") == 3
    assert found.count("not checked") == 1


def test_actions_that_the_policy_did_not_choose(tmp_path):
    """They score what the record says, so that only the policy itself can tell."""
    run = make_recorded(tmp_path / "run", tasks="at-end", episodes=1)
    other = envhub.evaluate(
        REPLAYED, "random", tasks="at-end", episodes=1, workers=1, out=tmp_path / "other"
    )
    for name in ("actions/0.npy", "episodes.jsonl", "summary.json"):
        shutil.copy(other.directory / name, run.directory / name)
    assert envhub.verify(run).verdict == "identical"
    found = envhub.verify(run, policy=True)
    assert not found.ok
    assert found.policy[0].verdict in ("drifted", "different")


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


class TestForgeries:
    """Each by somebody who makes the files agree with each other as well as he can."""

    def test_a_changed_record(self, run):
        change_record(run, 0, success=not run.records()[0].success)
        found = envhub.verify(run)
        assert (found.ok, found.verdict, verdicts(found)["at-end:0"]) == (
            *(False, "tampered"), "tampered",
        )  # fmt: skip

    def test_a_changed_action(self, run):
        change_actions(run, 0, lambda array: array.__setitem__(2, -array[2]))
        agree(run, 0)
        found = envhub.verify(run)
        (bad,) = (each for each in found.episodes if each.verdict != "identical")
        assert not found.ok
        assert bad.verdict in ("drifted", "different")
        assert bad.step == 3
        assert "from step 3 on (reward -" in bad.reason

    def test_a_changed_reward(self, run):
        change_steps(run, 0, lambda array: array["reward"].__setitem__(4, 5.0))
        agree(run, 0)
        found = envhub.verify(run)
        assert (found.ok, found.verdict) == (False, "drifted")
        assert found.episodes[0].step == 5
        assert "(reward 5.0 recorded, -" in found.episodes[0].reason

    def test_a_changed_flag(self, run):
        won = run.records()[0].success
        change_steps(run, 0, lambda array: array["success"].__setitem__(-1, not won))
        agree(run, 0, success=not won, success_step=None if won else 9)
        found = envhub.verify(run)
        assert not found.ok
        assert verdicts(found)["at-end:0"] in ("different", "tampered")

    def test_a_changed_summary(self, run):
        path = run.directory / "summary.json"
        content = json.loads(path.read_text())
        content["overall"]["rate"] = 1.0 if content["overall"]["rate"] != 1.0 else 0.5
        path.write_text(json.dumps(content))
        found = envhub.verify(run)
        assert (found.ok, found.verdict) == (False, "tampered")
        assert found.problems == ("summary.json is not what the records give in overall.",)

    def test_swapped_episodes(self, run):
        """Records and files together, so that nothing contradicts itself."""
        path = run.directory / "episodes.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        first, second = (r for r in records if r["task"] == "at-end")
        for name in ("episode", "seed"):
            first[name], second[name] = second[name], first[name]
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        one, other = (run.directory / "actions" / f"{number}.npy" for number in (0, 1))
        one.rename(run.directory / "kept.npy")
        other.rename(one)
        (run.directory / "kept.npy").rename(other)
        found = envhub.verify(run)
        assert not found.ok
        assert {verdicts(found)[name] for name in ("at-end:0", "at-end:1")} <= {
            *("drifted", "different")
        }

    def test_another_seed_of_a_record(self, run):
        change_record(run, 0, seed=7)
        found = envhub.verify(run)
        assert (found.ok, found.verdict) == (False, "tampered")
        assert "its seed is 7, and the plan's is 0" in found.problems[0]

    def test_another_seed_of_the_run(self, run):
        """Everywhere, so that only the episodes themselves tell."""
        from envhub.run_info import hash_protocol

        def reseed(info):
            info["plan"]["seed"] = 5
            info["protocol"] = hash_protocol(parse_run(info, run.directory))

        for record in run.records():
            change_record(run, record.number, seed=record.seed + 5)
        change_manifest(run.directory, reseed)
        found = envhub.verify(run.directory)
        assert not found.ok
        assert set(verdicts(found).values()) <= {"drifted", "different"}


def test_nothing_is_executed_if_the_files_contradict_each_other(run):
    change_record(run, 0, return_=1.0)
    key_path().unlink()  # by which alone it could be executed
    assert envhub.verify(run).verdict == "tampered"
    shutil.rmtree(run.directory / "logs")
    assert not envhub.verify(run).ok


def test_episodes_that_are_not_checked(run):
    (run.directory / "actions" / "0.npy").unlink()
    found = envhub.verify(run)
    assert (found.ok, found.verdict) == (True, "not checked")
    assert found.episodes[0].reason == "its actions or steps are missing"


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
    def test_the_first_of_each_task_and_others_by_chance(self, tmp_path):
        run = make_recorded(tmp_path / "run", tasks="once,at-end", episodes=6)
        records = run.records()

        def chosen(count, seed=0, tasks=()):
            found = choose_sample(run, records, Question(count, tasks), seed)
            assert [r.number for r in found] == sorted({r.number for r in found})
            return [f"{r.task}:{r.episode}" for r in found]

        assert len(chosen(None)) == len(chosen(99)) == 12
        assert {"once:0", "at-end:0"} <= set(chosen(5))
        assert chosen(5, 1) == chosen(5, 1)
        assert len({tuple(chosen(5, seed)) for seed in range(9)}) > 3
        assert len(chosen(1)) == 1
        assert {name[:4] for name in chosen(4, tasks=("once",))} == {"once"}
        with pytest.raises(UnknownName, match="No task is called 'far'"):
            chosen(5, tasks=("far",))


def altered(**changes):
    return replace(record_from_json(written("near", 0, "0"), 0), **changes)


def steps(*rewards):
    array = np.zeros(len(rewards), STEP)
    array["reward"] = rewards
    return array


@pytest.mark.parametrize(
    ("again", "rewards", "verdict", "step"),
    [
        ({}, (1.0, 2.0, 3.0), "identical", None),
        ({"trace": "x"}, (1.0, 2.0 + 1e-9, 3.0), "equivalent", 2),
        ({"trace": "x"}, (1.0, 2.0, 3.1), "drifted", 3),
        ({"trace": "x", "steps": 2}, (1.0, 2.0), "drifted", 3),
        ({"trace": "x", "success": True}, (1.0, 2.0, 3.0), "different", None),
        ({"trace": "x", "end": "terminated"}, (1.0, 2.5, 3.0), "different", 2),
        ({"out_of_bounds": 4}, (1.0, 2.0, 3.0), "tampered", None),
        ({"description": "go"}, (1.0, 2.0, 3.0), "tampered", None),
    ],
)
def test_verdicts(again, rewards, verdict, step):
    found = judge(altered(), altered(**again), steps(1.0, 2.0, 3.0), steps(*rewards))
    assert (found.verdict, found.step) == (verdict, step)


def test_how_machines_differ(run):
    info = run.run_info
    here = changed(
        info,
        machine=changed(info.machine, libc="glibc 9.9", gl=None),
        runtime=changed(info.runtime, packages={"numpy": "0.1"}, python="3.9.9"),
    )
    said = list(compare_machines(info, here))
    assert said[0] == f"libc {info.machine.libc} recorded, glibc 9.9 here"
    assert said[-1].startswith("Python ")
    assert any(text.startswith("numpy ") and text.endswith("0.1 here") for text in said)
    assert list(compare_machines(info, info)) == []
    assert "does not say" in next(iter(compare_machines(changed(info, machine=None), info)))


def test_each_file_is_opened_once(run, tmp_path):
    place = run.directory
    code, opened = opened_by(tmp_path, "verify", place, "--policy", "--episodes", "9")
    assert code == 0
    files = [path for path in opened if path.startswith(f"{place}/")]
    assert files.count(f"{place}/run.json") == 1
    stored = sorted(path.name for path in (place / "actions").iterdir())
    assert sorted(path for path in opened if path.endswith(".npy")) == stored  # below its folder
