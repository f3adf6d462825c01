"""What a run tells and records of states far outside a checkpoint's statistics."""

import json

import pytest
from support.run_tools import WALK, envhub

from envhub import evaluate, open_run
from envhub.evaluation.outliers import OutlierLog
from envhub.records import Episode
from envhub.results.report.content import content
from envhub.types import Outlier

POLICY = '''
import numpy as np

from envhub.types import Outlier

STATISTICS = {"mean": 0.5, "std": 0.1}


class Reports:
    """Reports each first look at an episode 0, as a checkpoint with odd statistics would."""

    def __init__(self):
        self._found = []

    def act(self, obs, episodes):
        for row, episode in zip(obs, episodes, strict=True):
            if episode.index == 0 and episode.step == 0 and episode.task != "near":
                value = float(row[1])
                self._found.append(Outlier(episode.task, "observation.state", 1, value, STATISTICS))
        return np.zeros((len(episodes), 1), np.float32)

    def take_outliers(self):
        found, self._found = tuple(self._found), []
        return found


def make_policy(benchmark, observation_space, action_space):
    return Reports()
'''
STATISTICS = {"mean": 0.5, "std": 0.1}
RECORDED = {
    "task": "back",
    "feature": "observation.state",
    "index": 1,
    "value": pytest.approx(-0.4),
    "statistics": STATISTICS,
}
SAID = (
    "observation.state[1] is -0.4 in task back, far outside the checkpoint's statistics (mean 0.5, "
    "std 0.1): it may have been trained with another state, other units or another robot."
)


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "policy.py").write_text(POLICY)
    return tmp_path / "policy.py"


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_they_are_told_and_recorded_alike_for_any_workers(policy, tmp_path, workers):
    words = ("--suite", "short", "--suite", "long", "--episodes", 2, "--max-steps", 3)
    out = tmp_path / "run"
    answer = envhub(*("eval", WALK, "--policy", policy, *words, "--workers", workers, "--out", out))
    assert answer.code == 0
    assert [line for line in answer.err.splitlines() if "outside" in line] == [SAID]
    assert json.loads((out / "run.json").read_text())["policy"]["outliers"] == [RECORDED]
    assert SAID in content(open_run(out))["notes"]


def test_a_resumed_run_keeps_them(policy, tmp_path):
    question = {"suites": ["short"], "episodes": 2, "max_steps": 3, "workers": 0}
    out = tmp_path / "run"
    evaluate(WALK, policy, **question, out=out)
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:-1]))
    run = evaluate(WALK, policy, **question, out=out, resume=True)
    assert run.complete
    assert run.info["policy"]["outliers"] == [RECORDED]


# The log


def plan(*tasks):
    return tuple(
        Episode(2 * at + index, "suite", task, index, index, None)
        for at, task in enumerate(tasks)
        for index in (0, 1)
    )


def outlier(task, index=0, value=9.0):
    return Outlier(task, "observation.state", index, value, STATISTICS)


def test_the_first_of_the_plan_is_told_whichever_comes_first():
    log = OutlierLog(plan("a", "b", "c"), plan("a", "b", "c"))
    log.add([outlier("c"), outlier("b", 3)])
    assert log.take_remark() is None  # a may have one, too
    log.add([outlier("b", 1)])
    log.ended(0)
    assert "observation.state[3] is 9 in task b" in log.take_remark()
    log.add([outlier("a", 5)])
    assert log.take_remark() is None  # one line is enough


def test_each_number_is_recorded_once_by_the_first_task():
    log = OutlierLog(plan("a", "b"), plan("a", "b"))
    log.add([outlier("b", 1), outlier("b", 0), outlier("a", 1, 5.0), outlier("a", 1, 6.0)])
    assert [(one.task, one.index, one.value) for one in log.info([])] == [
        ("b", 0, 9.0),
        ("a", 1, 5.0),
    ]
    before = OutlierLog(plan("a", "b"), ()).info([])
    assert before == []
    assert log.info(log.info([])) == log.info([])


def test_there_are_at_most_twenty_and_only_of_the_plan():
    log = OutlierLog(plan("a"), plan("a"))
    log.add(outlier("a", index) for index in range(99))
    log.add([outlier("z")])
    assert len(log.info([])) == 20
    assert {one.task for one in log.info([])} == {"a"}
