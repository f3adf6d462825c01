"""How many calls a message asks for, and whether calls with one row dominate a run."""

import pytest
from support.run_tools import WALK, envhub

from envhub.evaluation.pacing import MessageSize, OneRowCalls
from envhub.types import PolicyFacts


@pytest.mark.parametrize(
    ("batch", "seconds", "most"),
    [
        ("any", 1.0, None),
        (1, 0.0, 1),  # unknown
        (1, 0.5, 1),
        (1, 0.001, 1),
        (1, 0.0001, 10),
        (8, 0.0, 8),
        (8, 0.5, 8),
        (8, 0.0005, 16),
    ],
)
def test_cheap_calls_share_a_message(batch, seconds, most):
    facts, size = PolicyFacts("process", None, "raw", batch), MessageSize()
    if seconds:
        size.count(facts, 1, seconds)
    assert size.most(facts) == most


def test_a_policy_that_is_not_known_yet_takes_all_rows():
    assert MessageSize().most(None) is None


@pytest.mark.parametrize(
    ("batch", "rows", "calls"), [("any", 7, 1), (1, 7, 7), (3, 7, 3), (3, 6, 2), (8, 1, 1)]
)
def test_calls_of_rows(batch, rows, calls):
    facts = PolicyFacts("process", None, "raw", batch)
    assert MessageSize().count(facts, rows, 0.5) == calls


def tell(*, share: float, waiting: int, processes: int = 1) -> list[str]:
    """What is said in a minute of calls that take a share of each second."""
    calls = OneRowCalls()
    said = [calls.add(now, share, waiting, processes=processes) for now in range(60)]
    return [remark for remark in said if remark is not None]


def test_calls_that_dominate_are_told_once():
    (remark,) = tell(share=0.8, waiting=3)
    assert remark.startswith("Calls of the policy take 8")
    assert "batch = N" in remark


@pytest.mark.parametrize(
    "calls",
    [
        {"share": 0.4, "waiting": 3},
        {"share": 0.9, "waiting": 1},
        {"share": 0.9, "waiting": 3, "processes": 2},
    ],
)
def test_calls_that_do_not_dominate_are_not(calls):
    assert tell(**calls) == []


SLOW = """
import time
import numpy as np

class Slow:
    def act(self, obs, episodes):
        time.sleep(0.1)
        return np.zeros((len(episodes), 1), np.float32)

def make_policy(benchmark, observation_space, action_space):
    return Slow()
"""


@pytest.mark.parametrize("declared", ["", "    batch = 1\n"])
def test_a_run_of_slow_calls_names_batch_unless_the_policy_sets_it(tmp_path, declared):
    file = tmp_path / "policy.py"
    file.write_text(SLOW.replace("class Slow:\n", f"class Slow:\n{declared}"))
    asked = ("--task", "near", "--episodes", 4, "--workers", 4, "--out", tmp_path / "run")
    answer = envhub("eval", WALK, "--policy", file, *asked)
    assert answer.code == 0, answer.err
    assert answer.err.count("batch = N") == (0 if declared else 1)
