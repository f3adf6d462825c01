"""Whatever an env or a policy does costs its own episodes, and only those."""

import math
import re

import numpy as np
import pytest
from support.engine_runs import PATIENT, WALKERS, load_policy, play

from envhub.errors import ContractError, RunAborted
from envhub.options import Limits
from envhub.results.summary import summarize

SHORT = Limits(start=60, reset=1.5, step=1.5, act=1.5, close=20)
FOUR = {"tasks": ("at-end", "ever"), "episodes": 2}
"""Four episodes, of which two have an odd seed."""


def is_odd(record):
    return record.seed % 2 == 1


@pytest.fixture(scope="module")
def sound():
    """The run without faults: the same episodes, long enough for every fault to show."""
    outcome = play(workers=0, **FOUR)
    assert min(record.steps for record in outcome.records) > 7
    return outcome


def check(outcome, sound, *, status, where, kind, message, step=None):
    """The odd episodes ended as they must, the others as if nothing had happened."""
    assert outcome.only(lambda r: not is_odd(r)) == sound.only(lambda r: not is_odd(r))
    failed = [record for record in outcome.records if is_odd(record)]
    assert len(failed) == 2
    for record in failed:
        assert (record.status, record.end, record.success) == (status, "error", None)
        assert (record.error.where, record.error.type) == (where, kind)
        assert re.search(message, record.error.message)
        assert step is None or (record.error.step, record.steps) == (step, step)
    overall = summarize(outcome.records, {"walk": FOUR["tasks"]}).overall
    assert overall.successes == sum(record.success is True for record in outcome.records)
    counted = (overall.n, overall.errors, overall.policy_errors)
    assert counted == ((4, 0, 2) if where == "policy" else (2, 2, 0))


# Envs

RAISED = ("env_error", "env")
ENVS = [
    ("reset", "raises", *RAISED, "RuntimeError", "^reset of task '.*' in worker .*the gripper"),
    ("step", "raises", *RAISED, "RuntimeError", "^step of task '.*' in worker .*the gripper"),
    ("step", "quits", *RAISED, "SystemExit", "SystemExit: enough"),
    ("reset", "hangs", "timeout", "env", "WorkerTimeout", "^reset of .*no answer within 1.5 s"),
    ("step", "hangs", "timeout", "env", "WorkerTimeout", "^step of .*no answer within 1.5 s"),
    ("step", "exits", "worker_died", "worker", "WorkerDied", "(?s)exit code 7.*goodbye"),
    ("step", "eats", *RAISED, "MemoryError", "MemoryError"),
    ("step", "nan", *RAISED, "ContractError", "^The env gave the reward nan at step 6.$"),
    ("step", "infinite", *RAISED, "ContractError", "^The env gave the reward -inf at step 6.$"),
    ("step", "no_number", *RAISED, "ContractError", "two flags, found 'much', False"),
    ("step", "no_flag", *RAISED, "ContractError", r"two flags, found .*array"),
    ("step", "no_info", *RAISED, "ContractError", "info must be a mapping, found NoneType"),
    ("step", "no_success", *RAISED, "ContractError", "must be a bool, 0 or 1, found 'perhaps'"),
    ("step", "short", *RAISED, "ContractError", r"step\(\) must return \(observation, reward"),
    ("reset", "short", *RAISED, "ContractError", r"reset\(\) must return \(observation, info"),
    ("reset", "shape", *RAISED, "ContractError", r"'agent_pos' has shape \(3,\); its space says"),
    ("step", "shape", *RAISED, "ContractError", r"'agent_pos' has shape \(3,\); its space says"),
    ("step", "dtype", *RAISED, "ContractError", "'agent_pos' has dtype complex128; its space"),
    ("step", "text", *RAISED, "ContractError", "'hint' is of type int; its space says text"),
    ("step", "nothing", *RAISED, "ContractError", "Observation '.*' is missing: TypeError"),
]


PROCESSES = {(where, what) for where, what, status, *_ in ENVS if status != "env_error"} | {
    ("step", "raises"),
    ("step", "eats"),
}


@pytest.mark.parametrize(("where", "what", "status", "place", "kind", "message"), ENVS)
def test_an_env_costs_its_own_episodes(where, what, status, place, kind, message, sound):
    apart = (where, what) in PROCESSES
    outcome = play(
        WALKERS if what == "raises" else load_policy(),
        workers=2 if apart else 0,
        **FOUR,
        env_args={"where": where, "what": what},
        limits=SHORT if what == "hangs" else PATIENT,
    )
    expected = {"status": status, "where": place, "kind": kind, "message": message}
    check(outcome, sound, **expected, step=6 if where == "step" else 0)


@pytest.mark.parametrize(
    ("where", "what", "status", "place", "kind", "message"),
    [
        ("step", "raises", *RAISED, "RuntimeError", "^play of .*the gripper is stuck"),
        ("reset", "exits", "worker_died", "worker", "WorkerDied", "^play of .*exit code 7"),
        ("step", "hangs", "timeout", "env", "WorkerTimeout", "^step of .*no answer within 1.5 s"),
        ("step", "nan", *RAISED, "ContractError", "^The env gave the reward nan at step 6.$"),
        ("step", "shape", *RAISED, "ContractError", r"'agent_pos' has shape \(3,\); its space"),
    ],
)
def test_an_env_beside_its_policy(where, what, status, place, kind, message, sound):
    outcome = play(
        workers=2,
        **FOUR,
        env_args={"where": where, "what": what},
        limits=SHORT if what == "hangs" else PATIENT,
        placement="worker",
        in_worker=True,
    )
    check(outcome, sound, status=status, where=place, kind=kind, message=message)


class Blind:
    """A policy in this process that reads no observation."""

    needs = frozenset()

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)


@pytest.mark.parametrize(
    ("policy", "workers"), [("random", 2), (Blind(), 0)], ids=["random", "blind"]
)
def test_the_first_observation_of_a_task_is_checked_though_nobody_reads_it(policy, workers):
    wrong = {"where": "reset", "what": "shape", "every": True}
    outcome = play(policy, tasks=("once", "ever"), episodes=2, env_args=wrong, workers=workers)
    assert {record.status for record in outcome.records} == {"env_error"}
    for record in outcome.records:
        assert "'agent_pos' has shape (3,); its space says (2,)." in record.error.message


@pytest.mark.parametrize("what", ["raises", "exits"])
def test_an_env_whose_constructor_fails_costs_its_task(what):
    tasks = ("once", "at-end", "mute")
    sound = play(workers=0, tasks=tasks)
    fault = {"where": "constructor", "what": what}
    outcome = play(tasks=tasks, env_args=fault, workers=0 if what == "raises" else 2)
    others = outcome.only(lambda r: r.task != "mute")
    assert others == sound.only(lambda r: r.task != "mute")
    for record in outcome.records[6:]:
        assert (record.task, record.steps, record.return_) == ("mute", 0, 0.0)
        assert record.status == ("env_error" if what == "raises" else "worker_died")
        assert record.error.message.startswith("making the env of task 'mute' in worker ")
        assert outcome.actions[record.number] is None


@pytest.mark.parametrize("workers", [0, 1])
def test_an_env_that_fails_when_closed_costs_nothing(workers, capfd, tmp_path):
    sound = play(workers=0)
    closing = {"where": "close", "what": "raises"}
    assert play(workers=workers, env_args=closing, logs=tmp_path) == sound
    logged = capfd.readouterr().err if workers == 0 else (tmp_path / "worker-0.log").read_text()
    assert "RuntimeError: the gripper is stuck" in logged


@pytest.mark.parametrize(("where", "what"), [("reset", "raises"), ("step", "exits")])
def test_an_episode_is_run_again(where, what, sound, tmp_path):
    armed = tmp_path / "armed"
    armed.touch()
    fault = {"where": where, "what": what, "armed": str(armed)}
    workers = 0 if what == "raises" else 2
    outcome = play(env_args=fault, retries=1, workers=workers, **FOUR)
    assert outcome == sound
    assert sorted(outcome.attempts.values()) == [1, 1, 1, 2]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_an_episode_is_run_again_so_often(retries):
    fault = {"where": "reset", "what": "raises"}
    outcome = play(workers=0, env_args=fault, retries=retries, **FOUR)
    attempts = {r.number: 1 + retries if is_odd(r) else 1 for r in outcome.records}
    assert outcome.attempts == attempts


def test_an_env_that_hangs_holds_nobody_up():
    """Also where the policy is slow, and waits for envs that are about to answer."""
    outcome = play(
        kind="slow",
        tasks=("at-end",),
        episodes=4,
        env_args={"where": "step", "what": "hangs"},
        limits=Limits(start=60, step=4, close=20),
    )
    assert outcome.order[:2] == [0, 2]


def test_a_worker_that_dies_last_leaves_no_gap():
    """A slot that was stepping and is gone is not waited for, however slow the policy is."""
    outcome = play(
        kind="slow",
        workers=2,
        tasks=("at-end",),
        episodes=2,
        env_args={"where": "step", "what": "exits"},
    )
    assert [record.status for record in outcome.records] == ["ok", "worker_died"]


# Policies

ERROR = ("policy_error", "RuntimeError", "the network is confused")
CONTRACT = ("policy_error", "ContractError")
POLICIES = [
    ("start", "raises", *ERROR),
    ("act", "raises", *ERROR),
    ("act", "quits", "policy_error", "SystemExit", "SystemExit: enough"),
    ("act", "hangs", "timeout", "WorkerTimeout", "^acting of the .*no answer within 1.5 s"),
    ("act", "exits", "worker_died", "WorkerDied", "(?s)^acting of .*exit code 9.*farewell"),
    ("act", "nan", *CONTRACT, "returned an action that is not finite"),
    ("act", "infinite", *CONTRACT, "returned an action that is not finite"),
    ("act", "huge", *CONTRACT, "returned an action that is not finite"),
    ("act", "complex", *CONTRACT, "returned a ndarray of dtype complex128"),
    ("act", "text", *CONTRACT, "returned a ndarray of dtype <U"),
    ("act", "nothing", *CONTRACT, "returned a NoneType of dtype object"),
    ("act", "ragged", *CONTRACT, "returned a list, not an array: "),
    (
        "act",
        "wide",
        *CONTRACT,
        r"actions of shape \(1, 3\); expected \(1, 2\) or \(1, 'chunk', 2\)",
    ),
    ("act", "rows", *CONTRACT, r"actions of shape \(0, 2\); expected \(1, 2\) or "),
    ("act", "chunks", *CONTRACT, "returned 2 chunks for 1 rows."),
    ("act", "no_chunk", *CONTRACT, r"actions of shape \(1, 0, 2\); expected"),
]


@pytest.mark.parametrize(("where", "what", "status", "kind", "message"), POLICIES)
def test_a_policy_costs_the_episode_that_it_fails_for(where, what, status, kind, message, sound):
    apart = status != "policy_error" or (where, what) in (("act", "raises"), ("act", "wide"))
    arguments = {"kind": "faulty", "where": where, "what": what}
    outcome = play(
        WALKERS if apart else load_policy(**arguments),
        workers=2 if apart or what == "nan" else 0,
        **FOUR,
        limits=SHORT if what == "hangs" else PATIENT,
        **arguments,
    )
    expected = {"status": status, "where": "policy", "kind": kind, "message": message}
    check(outcome, sound, **expected, step=3 if where == "act" else 0)


@pytest.mark.parametrize(
    ("where", "what", "status", "kind", "message"),
    [
        ("start", "raises", *ERROR),
        ("act", "nan", *CONTRACT, "returned an action that is not finite"),
        ("act", "hangs", "timeout", "WorkerTimeout", "^act of .*no answer within (1.5|3) s"),
        ("start", "exits", "worker_died", "WorkerDied", "^play of .*exit code 9"),
        ("act", "exits", "worker_died", "WorkerDied", "^play of .*exit code 9"),
    ],
)
def test_a_policy_beside_its_env(where, what, status, kind, message, sound):
    outcome = play(
        workers=2,
        **FOUR,
        limits=SHORT if what == "hangs" else PATIENT,
        kind="faulty",
        placement="worker",
        in_worker=True,
        where=where,
        what=what,
    )
    check(outcome, sound, status=status, where="policy", kind=kind, message=message)


@pytest.mark.parametrize(("workers", "placement"), [(0, "process"), (2, "process"), (1, "worker")])
def test_a_policy_that_fails_at_an_end_costs_nothing(workers, placement, sound, capfd, tmp_path):
    outcome = play(
        workers=workers,
        **FOUR,
        kind="faulty",
        placement=placement,
        where="finish",
        what="raises",
        logs=tmp_path,
    )
    assert outcome == sound
    logged = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "RuntimeError: the network is confused" in logged + capfd.readouterr().err


def test_policy_errors_are_tried_again(sound):
    outcome = play(load_policy(kind="faulty", what="raises"), workers=2, retries=2, **FOUR)
    attempts = {record.number: 3 if is_odd(record) else 1 for record in outcome.records}
    assert outcome.attempts == attempts


# Giving up


@pytest.mark.parametrize(("where", "what"), [("constructor", "raises"), ("reset", "shape")])
def test_a_run_in_which_nothing_works_stops(where, what):
    seen = []
    task = "mute" if where == "constructor" else "at-end"
    with pytest.raises(
        RunAborted, match=r"12 attempts in a row failed with the same error; .*of task"
    ) as caught:
        play(
            workers=0,
            tasks=(task,),
            episodes=1000,
            retries=1,
            env_args={"where": where, "what": what, "every": True},
            watch=seen.append,
        )
    assert isinstance(caught.value, ContractError)
    assert [record.status for record in seen] == ["env_error"] * 5


@pytest.mark.parametrize("in_worker", [True, False])
def test_the_limit_of_a_step_holds_wherever_the_policy_is(in_worker):
    """Although a reset may take long, and a policy too."""
    limits = Limits(start=60, reset=3600, step=1.0, act=3600, close=20)
    fault = {"where": "step", "what": "hangs"}
    where = {"placement": "worker"} if in_worker else {}
    outcome = play(workers=1, limits=limits, env_args=fault, in_worker=in_worker, **where, **FOUR)
    failed = [record for record in outcome.records if is_odd(record)]
    assert [record.status for record in failed] == ["timeout"] * 2
    for record in failed:
        assert record.error.where == "env"
        assert re.search("^step of task .*no answer within 1 s", record.error.message)


def test_a_run_in_which_something_works_goes_on():
    fault = {"where": "step", "what": "nan"}
    outcome = play(tasks=("at-end",), episodes=30, env_args=fault, workers=0)
    assert [record.status for record in outcome.records] == ["ok", "env_error"] * 15


@pytest.mark.parametrize("workers", [0, 2])
def test_a_policy_that_never_works_stops_the_run(workers):
    never = load_policy(kind="faulty", where="start", what="raises", every=True)
    seen = []
    with pytest.raises(RunAborted, match="12 attempts in a row failed with the same error"):
        play(never, workers=workers, tasks=("at-end",), episodes=1000, watch=seen.append)
    assert [record.status for record in seen] == ["policy_error"] * 11


def test_workers_that_cannot_load_the_benchmark():
    with pytest.raises(
        RunAborted, match=r"No worker can be started any more. .*declares something"
    ):
        play("random", "engine_fickle", workers=2)


def test_actions_that_no_policy_can_take():
    outcome = play("random", "engine_dict_actions", workers=0, episodes=1)
    (record,) = outcome.records
    assert record.status == "env_error"
    assert math.isclose(record.return_, 0.0)
    assert "is not a single array; policies act in Box, Discrete, Multi" in record.error.message
