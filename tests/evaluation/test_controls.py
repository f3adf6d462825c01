"""Controls are played in the same episodes, below the run."""

import json

import pytest
from support.run_tools import WALK, WALKERS, envhub, snapshot

import envhub as library
from envhub.errors import UnknownName
from envhub.results.controls import read_controls
from envhub.results.run import open_run

ASKED = ("eval", "./run_walk", "--policy", "expert", "--task", "near,far", "--episodes", 6)


def test_the_command(tmp_path):
    out = tmp_path / "run"
    words = (*ASKED, "--workers", 1, "--out", out, "--controls", "zero,random,expert")
    answer = envhub(*words)
    assert answer.code == 0, answer.err
    assert "Playing zero in the same episodes, as a control." in answer.err
    run = open_run(out)
    controls = {control.name: control for control in read_controls(run)}
    assert set(controls) == {"zero", "random", "expert"}
    for name in controls:
        other = open_run(out / "controls" / name)
        assert other.info["protocol"] == run.info["protocol"]
        assert other.info["policy"]["ref"] == name
        assert [r.seed for r in other.records()] == [r.seed for r in run.records()]
    lines = answer.out.splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("Control ")] == [
        *("Control random", "Control zero", "Control expert")
    ]
    assert lines[-1] == str(out)
    again = envhub("show", out)
    assert again.out == answer.out
    content = json.loads(envhub("show", out, "--json").out)
    assert [each["name"] for each in content["controls"]] == ["random", "zero", "expert"]
    assert '<h2 id="controls-of-run">' in library.report(out).read_text()
    before = snapshot(out / "controls")
    assert envhub(*words, "--continue").code == 0
    assert snapshot(out / "controls") == before, "what was played is not played again"


def test_a_policy_that_does_nothing_is_told_so(tmp_path):
    words = ("--episodes", 4, "--workers", 1, "--out", tmp_path / "run", "--controls", "zero")
    answer = envhub("eval", "./run_walk", "--policy", "zero", "--task", "near", *words)
    assert "The policy is not shown to be better than zero actions: +0.0 points" in answer.out


def test_a_control_that_does_not_exist_is_refused_before_anything_is_played(tmp_path):
    options = {"tasks": "near", "episodes": 1, "workers": 1, "out": tmp_path / "run"}
    with pytest.raises(
        UnknownName, match=r"No control is called 'experts'\. Did you mean 'expert'"
    ):
        library.evaluate(WALK, "zero", controls=["experts"], **options)
    assert not (tmp_path / "run").exists()


def test_from_a_program(tmp_path):
    run = library.evaluate(
        WALK,
        f"{WALKERS}:chunked",
        tasks="near",
        episodes=2,
        workers=1,
        out=tmp_path / "run",
        controls=("zero",),
    )
    assert [control.name for control in read_controls(run)] == ["zero"]


def test_resuming_takes_no_controls(tmp_path):
    answer = envhub("eval", "--resume", tmp_path, "--controls", "zero")
    assert answer.code == 2
    assert "--controls cannot be changed" in answer.err
