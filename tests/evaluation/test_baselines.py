"""Controls are played in the same episodes, below the run."""

import json

import pytest
from support.run_tools import WALK, WALKERS, envhub, snapshot

import envhub as library
from envhub.errors import UnknownName
from envhub.results.baselines import read_baselines
from envhub.results.run import open_run

ASKED = ("eval", "./run_walk", "--policy", "expert", "--task", "near,far", "--episodes", 6)


def test_the_command(tmp_path):
    out = tmp_path / "run"
    words = (*ASKED, "--workers", 1, "--out", out, "--baselines", "zero,random,expert")
    answer = envhub(*words)
    assert answer.code == 0, answer.err
    assert "Playing zero in the same episodes, as a baseline." in answer.err
    run = open_run(out)
    baselines = {baseline.name: baseline for baseline in read_baselines(run)}
    assert set(baselines) == {"zero", "random", "expert"}
    for name in baselines:
        other = open_run(out / "baselines" / name)
        assert other.info["protocol"] == run.info["protocol"]
        assert other.info["policy"]["ref"] == name
        assert [r.seed for r in other.records()] == [r.seed for r in run.records()]
    lines = answer.out.splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("Baseline ")] == [
        *("Baseline random", "Baseline zero", "Baseline expert")
    ]
    assert lines[-1] == str(out)
    again = envhub("show", out)
    assert again.out == answer.out
    content = json.loads(envhub("show", out, "--json").out)
    assert [each["name"] for each in content["baselines"]] == ["random", "zero", "expert"]
    assert '<h2 id="baselines-of-run">' in library.report(out).read_text()
    before = snapshot(out / "baselines")
    assert envhub(*words, "--continue").code == 0
    assert snapshot(out / "baselines") == before, "what was played is not played again"


def test_a_policy_that_does_nothing_is_told_so(tmp_path):
    words = ("--episodes", 4, "--workers", 1, "--out", tmp_path / "run", "--baselines", "zero")
    answer = envhub("eval", "./run_walk", "--policy", "zero", "--task", "near", *words)
    assert "The policy is not shown to be better than zero actions: +0.0 points" in answer.out


def test_a_baseline_that_does_not_exist_is_refused_before_anything_is_played(tmp_path):
    options = {"tasks": "near", "episodes": 1, "workers": 1, "out": tmp_path / "run"}
    with pytest.raises(
        UnknownName, match=r"No baseline is called 'experts'\. Did you mean 'expert'"
    ):
        library.evaluate(WALK, "zero", baselines=["experts"], **options)
    assert not (tmp_path / "run").exists()


def test_from_a_program(tmp_path):
    run = library.evaluate(
        WALK,
        f"{WALKERS}:chunked",
        tasks="near",
        episodes=2,
        workers=1,
        out=tmp_path / "run",
        baselines=("zero",),
    )
    assert [baseline.name for baseline in read_baselines(run)] == ["zero"]


def test_resuming_takes_no_baselines(tmp_path):
    answer = envhub("eval", "--resume", tmp_path, "--baselines", "zero")
    assert answer.code == 2
    assert "--baselines cannot be changed" in answer.err
