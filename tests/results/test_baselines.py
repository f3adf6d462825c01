"""What the floor and the ceiling of a run say about its policy."""

import json

import pytest
from support.manifests import write_run

from envhub.errors import UsageError
from envhub.results.baselines import parse_baselines, read_baselines
from envhub.results.report.content import content
from envhub.results.report.page import render
from envhub.results.run import open_run


@pytest.fixture
def controlled(tmp_path):
    """Writes a run, and runs of its baselines below it."""

    def make(outcomes, **baselines):
        place = write_run(tmp_path / "run", near=outcomes)
        (place / "baselines").mkdir()
        for name, others in baselines.items():
            write_run(place / "baselines" / name, near=others)
        return open_run(place)

    return make


def test_a_policy_above_the_floor(controlled):
    run = controlled("1" * 10, zero="0" * 10, random="0" * 9 + "1", expert="1" * 10)
    found = read_baselines(run)
    assert [(c.name, c.verdict, c.is_floor) for c in found] == [
        *(("random", "better", True), ("zero", "better", True), ("expert", "undecided", False))
    ]
    assert [baseline.warning for baseline in found] == [None] * 3
    assert found[1].words.startswith("+100.0 points [+")
    assert found[1].words.endswith(", p = 0.00195")


def test_a_policy_that_is_not_above_the_floor(controlled):
    run = controlled("1100000000", zero="1000000000", random="1" * 10)
    worse, undecided = read_baselines(run)
    assert worse.warning.startswith("The policy is worse than random actions: -80.0 points [")
    assert undecided.warning.startswith(
        "The policy is not shown to be better than zero actions: +10.0 points ["
    )
    assert "The policy is worse than random actions" in render(run)


def test_a_control_of_other_episodes(tmp_path, controlled):
    run = controlled("11", zero="00")
    path = run.directory / "baselines" / "zero" / "run.json"
    info = json.loads(path.read_text())
    info["runtime"]["packages"] = {"mujoco": "1.0"}
    path.write_text(json.dumps(info))
    (baseline,) = read_baselines(run)
    assert (baseline.verdict, baseline.warning) == (None, None)
    assert baseline.words.startswith("The runs differ in the packages (mujoco ")


def test_what_is_no_baseline(controlled):
    run = controlled("11", zero="")
    (run.directory / "baselines" / "empty").mkdir()
    write_run(run.directory / "baselines" / ".hidden", near="1")
    assert read_baselines(run) == []
    assert content(run)["baselines"] == []
    assert "baselines-of-run" not in render(run)


@pytest.mark.parametrize("text", ["", "zero,", "../x", "a b", ",", "./policy.py", "x" * 200])
def test_names_that_no_baseline_can_have(text):
    with pytest.raises(UsageError, match=r"--baselines .* must name zero, random"):
        parse_baselines(text)


def test_names():
    assert parse_baselines("zero, random,zero,expert") == ("zero", "random", "expert")
