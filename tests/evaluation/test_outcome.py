"""The one rule for when an episode ends and whether it succeeded."""

import math

import pytest

from envhub.declarations import Task
from envhub.errors import ContractError
from envhub.evaluation.outcome import Outcome


def outcome(success="once", horizon=4):
    return Outcome(Task("reach", "reach it", horizon, success=success))


def play(rule, successes, *, terminated=False, truncated=False):
    """Take one step per success; the flags are those of the last one."""
    played = outcome(rule)
    for number, success in enumerate(successes):
        last = number + 1 == len(successes)
        flags = {"terminated": terminated and last, "truncated": truncated and last}
        played.add([1.0], [success], **flags)
    return played


@pytest.mark.parametrize(
    ("rule", "successes", "flags", "ended", "end", "success", "step"),
    [
        ("once", [False, True], {}, True, "success", True, 2),
        ("once", [False], {}, False, "truncated", False, None),
        ("once", [False] * 4, {}, True, "truncated", False, None),
        ("once", [False], {"terminated": True}, True, "terminated", False, None),
        ("once", [True], {"terminated": True}, True, "success", True, 1),
        ("ever", [True, False], {}, False, "truncated", True, 1),
        ("ever", [True, False], {"terminated": True}, True, "terminated", True, 1),
        ("ever", [False, True, False, False], {}, True, "truncated", True, 2),
        ("at_end", [True, False], {"truncated": True}, True, "truncated", False, 1),
        ("at_end", [False, True], {"terminated": True}, True, "terminated", True, 2),
        ("at_end", [True, None], {"terminated": True}, True, "terminated", False, 1),
        ("once", [None, None], {"terminated": True}, True, "terminated", None, None),
        ("at_end", [None], {"truncated": True}, True, "truncated", None, None),
    ],
)
def test_the_rule(rule, successes, flags, ended, end, success, step):
    played = play(rule, successes, **flags)
    assert (played.ended, played.success, played.success_step) == (ended, success, step)
    assert (played.steps, played.left) == (len(successes), 4 - len(successes))
    if ended:
        assert played.end == end


def test_returns_add_up_step_by_step():
    """Whatever the parts that they come in: the last bits are the same."""
    rewards = [0.1, 0.2, 0.3, 1e16, -1e16, 0.7]
    whole, parts = outcome(horizon=9), outcome(horizon=9)
    whole.add(rewards, [None] * 6, terminated=False, truncated=False)
    for reward in rewards:
        parts.add([reward], [None], terminated=False, truncated=False)
    assert whole.return_ == parts.return_
    assert whole.rewards == parts.rewards == rewards


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e101])
def test_a_reward_that_is_useless_is_refused_with_its_step(reward):
    played = outcome()
    played.add([1.0], [None], terminated=False, truncated=False)
    with pytest.raises(ContractError, match=r"at step 2\."):
        played.add([1.0, reward], [None, None], terminated=False, truncated=False)
    assert (played.steps, played.return_) == (1, 1.0)  # nothing of it was taken in
