"""Forged runs: docs/results.md has a table of them, with what finds each.

Each is by somebody who makes the files agree with each other as well as he can.
"""

import json
import shutil
import warnings

import pytest
from msgspec import structs
from support.forgery import (
    agree,
    change_actions,
    change_manifest,
    change_record,
    change_steps,
    load_arrays,
    remove_record,
    save_arrays,
    summarize_again,
)
from support.replays import REPLAYED, make_recorded

import envhub
from envhub.errors import RunDirectoryError
from envhub.evaluation.judge import AGAIN, BEGINS_OTHERWISE
from envhub.results.run import open_run
from envhub.results.schema import parse_run
from envhub.results.seal import key_path
from envhub.run_info import hash_protocol
from envhub.wire.first_observation import hash_state


def verdicts(found):
    return {f"{each.task}:{each.episode}": each.verdict for each in found.episodes}


def change_protocol(run, change):
    """Change `run.json` and the protocol's hash with it."""

    def both(info):
        change(info)
        info["protocol"] = hash_protocol(parse_run(info, run.directory))

    change_manifest(run.directory, both)


def change_error(run, number, count, **values):
    """Declare an error of the env after so many steps."""
    error = {"where": "env", "type": "ValueError", "message": "no", "step": count}
    values = {"status": "env_error", "success": None, "end": "error", "error": error, **values}
    agree(run, number, **values)


class TestRecords:
    def test_a_changed_one(self, run):
        change_record(run, 0, success=not run.records()[0].success)
        found = envhub.verify(run)
        assert (found.ok, found.verdict, verdicts(found)["at-end:0"]) == (
            *(False, "tampered"), "tampered",
        )  # fmt: skip

    def test_a_changed_flag_whose_actions_are_deleted(self, run):
        record = run.records()[0]
        change_record(run, 0, success=not record.success, success_step=9)
        (run.directory / "actions" / "0.npy").unlink()
        summarize_again(run)
        found = envhub.verify(run)
        assert (found.ok, found.verdict, found.most_false) == (False, "missing", None)
        assert verdicts(found)["at-end:0"] == "missing"
        assert found.episodes[0].reason == "its actions or steps are missing"
        assert found.count("identical") == 3

    def test_swapped(self, run):
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

    @pytest.mark.parametrize("reseeded", [False, True])
    def test_renumbered(self, run, reseeded):
        """An episode takes the place of another one, which is gone."""
        first, second = run.records()[:2]
        remove_record(run, 0)
        change_record(run, 1, episode=0, seed=first.seed if reseeded else second.seed)
        (run.directory / "actions" / "1.npy").rename(run.directory / "actions" / "0.npy")
        found = envhub.verify(run)
        assert not found.ok
        if not reseeded:
            assert "its seed is" in found.problems[0]
            return
        summarize_again(run)
        found = envhub.verify(run)
        assert (found.ok, found.complete) == (False, False)
        assert verdicts(found)["at-end:0"] in ("drifted", "different")

    def test_dropped(self, run):
        """Nothing that is there is wrong, so it is told."""
        remove_record(run, 0)
        (run.directory / "actions" / "0.npy").unlink()
        summarize_again(run)
        found = envhub.verify(run)
        assert (found.ok, found.complete, found.planned, len(found.episodes)) == (True, False, 4, 3)

    def test_another_seed_of_one(self, run):
        seed = run.records()[0].seed
        change_record(run, 0, seed=7)
        found = envhub.verify(run)
        assert (found.ok, found.verdict) == (False, "tampered")
        assert f"its seed is 7, and the plan's is {seed}" in found.problems[0]

    def test_played_until_it_went_well(self, run):
        path = run.directory / "episodes.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines, lines[0]]))
        assert not envhub.verify(run).ok


class TestFirstObservations:
    def test_a_changed_one(self, run):
        """So that a repeat counts as evidence, say."""
        change_record(run, 0, first_observation=f"sha256:{'0' * 64}")
        found = envhub.verify(run)
        assert (found.ok, found.episodes[0].reason) == (False, BEGINS_OTHERWISE)
        assert found.count("identical") == 3

    def test_one_of_nothing(self, run):
        change_record(run, 0, first_leaves=())
        found = envhub.verify(run)
        assert found.episodes[0].reason == (
            "its first_observation is not the hash of its initial state"
        )
        seeded = hash_state(None, run.records()[0].seed).hex()
        change_record(run, 0, first_leaves=(), first_observation=f"sha256:{seeded}")
        found = envhub.verify(run)
        assert found.ok, "for a policy that reads nothing could have scored that"
        assert not envhub.verify(run, policy=True).ok


class TestFiles:
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


class TestDrift:
    """Somebody changes a return, and names another CPU, which might explain it."""

    @staticmethod
    def forge(run):
        change_steps(run, 0, lambda array: array["reward"].__setitem__(0, 5.0))
        agree(run, 0)
        change_manifest(run.directory, lambda info: info["machine"].update(cpu="another"))

    def test_success_is_the_measure(self, run):
        self.forge(run)
        key_path().unlink()
        found = envhub.verify(run, benchmark=REPLAYED)
        assert (found.ok, found.verdict, found.drift_is_excused) == (True, "drifted", True)
        assert any(text.startswith("cpu another recorded") for text in found.machine)

    def test_the_return_is_the_measure(self, tmp_path):
        place, run = make_frail(tmp_path, reports=False)
        self.forge(run)
        assert envhub.verify(run).ok, "the run is the user's own"
        key_path().unlink()
        found = envhub.verify(run, benchmark=place, env_args=run.info["benchmark"]["env_args"])
        assert (found.ok, found.verdict) == (False, "drifted")


class TestErrors:
    def test_that_occur_again(self, tmp_path):
        trap = tmp_path / "trap"
        trap.touch()
        _, run = make_frail(tmp_path, trap=str(trap))
        assert {r.status for r in run.records() if r.episode % 2} == {"env_error"}
        found = envhub.verify(run)
        assert (found.ok, found.lost, found.unconfirmed) == (True, 2, 0)
        assert [each.reason for each in found.episodes] == ["", AGAIN, "", AGAIN]
        assert (found.ended, found.checked, found.most_false) == (2, 2, 0)

    def test_that_do_not_occur_again(self, tmp_path):
        """The machine may have been at fault, so it is told."""
        trap = tmp_path / "trap"
        trap.touch()
        _, run = make_frail(tmp_path, trap=str(trap))
        trap.unlink()
        found = envhub.verify(run)
        assert (found.ok, found.lost, found.unconfirmed) == (True, 2, 2)
        assert found.episodes[1].reason == "the error did not occur again"

    def test_before_the_first_step(self, tmp_path):
        trap = tmp_path / "trap"
        trap.touch()
        _, run = make_frail(tmp_path, trap=str(trap), at=0)
        assert envhub.verify(run).unconfirmed == 0
        trap.unlink()
        found = envhub.verify(run)
        assert (found.ok, found.unconfirmed) == (True, 2)

    def test_a_failure_declared_one(self, tmp_path):
        """With all its steps; the last one's end is hidden."""
        _, run = make_frail(tmp_path)
        change_error(run, 0, 5)
        assert envhub.verify(run).episodes[0].reason == "its error came after the episode had ended"
        change_steps(run, 0, lambda array: array["terminated"].__setitem__(-1, False))
        change_error(run, 0, 5)
        found = envhub.verify(run)
        assert (found.ok, found.lost, found.episodes[0].verdict) == (False, 1, "different")
        assert found.episodes[0].reason == "here it ended without an error: no success (terminated)"

    def test_a_failure_declared_one_before_its_last_step(self, tmp_path):
        _, run = make_frail(tmp_path)
        change_error(run, 0, 3)
        found = envhub.verify(run)
        assert (found.ok, found.episodes[0].verdict) == (False, "tampered")
        save_arrays(run.directory, 0, *(part[:3] for part in load_arrays(run.directory, 0)))
        change_error(run, 0, 3)
        found = envhub.verify(run)
        assert (found.ok, found.lost, found.unconfirmed) == (True, 1, 1)

    def test_a_failure_declared_one_without_its_files(self, tmp_path):
        _, run = make_frail(tmp_path)
        change_error(run, 0, 5)
        (run.directory / "actions" / "0.npy").unlink()
        assert envhub.verify(run).episodes[0].verdict == "missing"

    def test_its_steps_are_changed(self, tmp_path):
        trap = tmp_path / "trap"
        trap.touch()
        _, run = make_frail(tmp_path, trap=str(trap))
        change_steps(run, 1, lambda array: array["reward"].__setitem__(0, 5.0))
        agree(run, 1)
        found = envhub.verify(run)
        assert (found.ok, found.episodes[1].verdict, found.episodes[1].step) == (
            *(False, "drifted"), 1,
        )  # fmt: skip


class TestManifest:
    def test_another_seed(self, run):
        """Everywhere, so that only the episodes themselves tell."""
        other = structs.replace(run.run_info.plan, seed=5)
        for record in run.records():
            change_record(run, record.number, seed=other.seeds(record.task)[record.episode])
        change_protocol(run, lambda info: info["plan"].update(seed=5))
        found = envhub.verify(run.directory)
        assert not found.ok
        assert set(verdicts(found).values()) <= {"drifted", "different"}

    def test_another_horizon(self, run):
        change_protocol(run, lambda info: info["plan"]["tasks"]["at-end"].update(horizon=90))
        found = envhub.verify(run.directory)
        assert (found.ok, found.episodes[0].reason) == (False, "it had not ended after 9 steps")

    @pytest.mark.parametrize("value", [{"horizon": 90}, {"success": "ever"}])
    def test_a_horizon_or_rule_by_which_the_files_agree(self, tmp_path, value):
        """Then it is not the benchmark's."""
        _, run = make_frail(tmp_path)
        change_protocol(run, lambda info: info["plan"]["tasks"]["one"].update(value))
        with pytest.raises(RunDirectoryError, match="The task one that"):
            envhub.verify(run.directory)

    def test_other_versions(self, run):
        """Whoever has the recorded ones cannot be asked, so it is told."""
        change_protocol(run, lambda info: info["runtime"]["packages"].update(numpy="0.1"))
        found = envhub.verify(run.directory)
        assert found.ok
        assert any(text.startswith("numpy 0.1 recorded") for text in found.machine)

    def test_another_protocol(self, run):
        change_manifest(run.directory, lambda info: info.update(protocol="sha256:0"))
        assert envhub.verify(run.directory).verdict == "tampered"


class TestPolicy:
    """Only the policy itself tells who acted."""

    def test_another_name(self, tmp_path):
        run = envhub.evaluate(
            REPLAYED, "random", tasks="at-end", episodes=1, workers=1, out=tmp_path / "run"
        )
        change_manifest(run.directory, lambda info: info["policy"].update(ref="zero"))
        assert envhub.verify(run.directory).ok
        assert not envhub.verify(run.directory, policy=True).ok

    def test_other_arguments(self, tmp_path):
        policy = tmp_path / "push.py"
        policy.write_text(PUSH)
        run = envhub.evaluate(
            REPLAYED, str(policy), policy_args={"by": 0.5}, tasks="at-end", episodes=1,
            workers=1, out=tmp_path / "run",
        )  # fmt: skip
        change_manifest(run.directory, lambda info: info["policy"]["args"].update(by=0.25))
        assert envhub.verify(run.directory).ok
        assert not envhub.verify(run.directory, policy=True).ok

    def test_merged_runs(self, tmp_path):
        """The episode of another policy, which scores what its record says."""
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


class TestControls:
    @pytest.fixture
    def controlled(self, tmp_path):
        return make_recorded(
            tmp_path / "run", tasks="at-end", episodes=2, baselines=("zero", "random")
        )

    def test_as_they_were_made(self, controlled):
        found = envhub.verify(controlled)
        assert found.ok
        assert {name: each.verdict for name, each in found.baselines.items()} == {
            "random": "identical",
            "zero": "identical",
        }

    def test_a_changed_reward(self, controlled):
        baseline = open_run(controlled.directory / "baselines" / "zero")
        change_steps(baseline, 0, lambda array: array["reward"].__setitem__(4, 5.0))
        agree(baseline, 0)
        found = envhub.verify(controlled)
        assert (found.ok, found.verdict, found.baselines["zero"].verdict) == (
            *(False, "identical"), "drifted",
        )  # fmt: skip

    def test_another_name(self, controlled):
        place = controlled.directory / "baselines"
        (place / "random").rename(place / "expert")
        found = envhub.verify(controlled).baselines["expert"]
        assert found.problems == ("The policy of the baseline expert is random.",)

    def test_another_plan_and_a_damaged_file(self, controlled):
        place = controlled.directory / "baselines"
        change_manifest(place / "zero", lambda info: info["plan"].update(seed=5))
        (place / "random" / "run.json").write_text("[")
        found = envhub.verify(controlled)
        assert found.baselines["zero"].problems == (
            "The plan of the baseline zero is not that of the run.",
        )
        assert found.baselines["random"].problems
        assert not found.ok

    def test_nothing_is_played_if_the_run_is_forged(self, controlled):
        change_record(controlled, 0, return_=1.0)
        found = envhub.verify(controlled)
        assert {each.count("not checked") for each in found.baselines.values()} == {2}


def make_frail(tmp_path, **env_args):
    """A run of an env that falls at its fifth step, or breaks after three where a file is."""
    place, policy = tmp_path / "frail", tmp_path / "push.py"
    place.mkdir()
    (place / "env.py").write_text(FRAIL)
    policy.write_text(PUSH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the errors that it is for
        run = envhub.evaluate(
            place, str(policy), episodes=2, workers=1, retries=0, env_args=env_args,
            out=tmp_path / "run",
        )  # fmt: skip
    return place, run


FRAIL = """
from pathlib import Path

import gymnasium as gym
import numpy as np

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(envhub.Task(name, "stand", horizon=8, init_states=2) for name in ("one", "two"))
    yield envhub.Benchmark("frail", ":Frail", {"all": tasks}, episodes=2, memory_mb=64)


class Frail(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, task, trap="", at=3, reports=True):
        self.trap, self.at, self.reports = trap, at, reports

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.breaks = 0, bool(options["init_state"] and self.trap)
        self.check()
        return np.zeros(1, np.float32), {}

    def check(self):
        if self.breaks and self.steps == self.at and Path(self.trap).exists():
            raise RuntimeError("the leg broke")

    def step(self, action):
        self.check()
        self.steps += 1
        info = {"is_success": False} if self.reports else {}
        return np.zeros(1, np.float32), float(action[0]), self.steps == 5, False, info
"""

PUSH = """
import numpy as np


class Push:
    def __init__(self, by):
        self.by = by

    def act(self, obs, episodes):
        return np.full((len(episodes), 1), self.by, np.float32)


def make_policy(benchmark, observation_space, action_space, by=0.1):
    return Push(by)
"""
