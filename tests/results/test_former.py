"""Summaries that were written before repeats and shared seeds were counted stay valid."""

import json

import pytest
from support.manifests import write_run

import envhub
from envhub.evaluation.consistency import find_problems
from envhub.results.former import former_summary, is_former
from envhub.results.statistics import stratified, wilson
from envhub.results.summary import to_json

NAMES = [f"t{i}" for i in range(6)]


@pytest.fixture
def run(tmp_path):
    """A run with repeats and shared seeds, of six tasks."""

    def change(info):
        info["plan"]["seeding"] = "shared"
        info["plan"]["tasks"] = dict.fromkeys(NAMES, info["plan"]["tasks"]["near"])
        info["plan"]["suites"] = {"s": NAMES}

    place = write_run(tmp_path / "run", change, **dict.fromkeys(NAMES, "1110111011"))
    path = place / "episodes.jsonl"
    began = '{"first_observation": "sha256:1", '
    path.write_text(
        "".join(began + line[1:] for line in path.read_text().splitlines(keepends=True))
    )
    return envhub.open_run(place)


def problems(run, content):
    (run.directory / "summary.json").write_text(json.dumps(content))
    return [each for each in find_problems(run) if "summary.json" in each]


def test_it_is_checked_by_the_formulas_of_then(run):
    then = former_summary(run.records(), run.suites)
    assert is_former(then)
    assert then["overall"]["ci_low"] == stratified([(8, 10)] * 6).low
    assert then["tasks"][0]["ci_low"] == wilson(8, 10)[0]
    assert problems(run, then) == []
    for key in ("ci_low", "ci_low_tasks", "rate", "n_effective"):
        forged = json.loads(json.dumps(then))
        forged["overall"][key] = 0.99
        assert problems(run, forged) == ["summary.json is not what the records give in overall."]


def test_todays_is_checked_by_todays(run):
    now = to_json(run.summary())
    assert not is_former(now)
    assert problems(run, now) == []
    assert now["overall"]["n_distinct"] == 6
    assert (
        run.summary().overall.ci_low
        < former_summary(run.records(), run.suites)["overall"]["ci_low"]
    )
