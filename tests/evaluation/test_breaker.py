"""When a run stops because nothing can be evaluated."""

import pytest

from envhub.errors import ContractError, RunAborted, WorkerRaised
from envhub.evaluation.breaker import CircuitBreaker


def raised(message="the gripper is stuck", where="env"):
    return WorkerRaised("step", "RuntimeError", message, where=where)


def test_the_same_error_from_the_start():
    breaker = CircuitBreaker()
    for _ in range(11):
        breaker.failed(raised())
    with pytest.raises(RunAborted, match="the gripper is stuck"):
        breaker.failed(raised())


@pytest.mark.parametrize(
    "other",
    [
        raised("another one"),
        raised(where="policy"),
        ContractError("The env gave the reward nan at step 3."),
    ],
)
def test_errors_are_counted_while_they_are_the_same(other):
    breaker = CircuitBreaker()
    for _ in range(4):
        for _ in range(11):
            breaker.failed(raised())
        breaker.failed(other)
    for _ in range(11):
        breaker.failed(raised())
    with pytest.raises(RunAborted):
        breaker.failed(raised())


@pytest.mark.parametrize("before", [True, False])
def test_one_success_is_enough(before):
    breaker = CircuitBreaker(worked=before)
    if not before:
        breaker.worked()
    for _ in range(40):
        breaker.failed(raised())


@pytest.mark.parametrize("where", ["env", "policy"])
def test_the_policy_is_stopped_as_the_env_is(where):
    breaker = CircuitBreaker(3)
    breaker.failed(raised(where=where))
    breaker.failed(raised(where=where))
    with pytest.raises(RunAborted, match="3 attempts in a row failed with the same error; --max-"):
        breaker.failed(raised(where=where))


@pytest.mark.parametrize("process", ["worker", "policy"])
def test_what_cannot_be_started_three_times_in_a_row(process):
    breaker = CircuitBreaker()
    breaker.not_started(process, raised())
    breaker.not_started(process, raised())
    breaker.started(process)
    breaker.not_started(process, raised())
    breaker.not_started(process, raised())
    with pytest.raises(RunAborted, match=process):
        breaker.not_started(process, raised())


def test_a_process_of_the_policy_that_cannot_be_started_though_another_works():
    breaker = CircuitBreaker()
    for _ in range(2):
        breaker.not_started("policy", raised(), "second")
        breaker.started("policy", "first")
        breaker.worked("first")
    with pytest.raises(RunAborted, match="No policy can be started any more"):
        breaker.not_started("policy", raised(), "second")
