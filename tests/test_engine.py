"""An episode's outcome follows from benchmark, task, index, seed and policy, and nothing else."""

import random

import pytest
from engine_runs import WALKERS, killing, load, load_policy, own_loop, play

KINDS = ("plain", "plain_chunks", "dreamy", "dreamy_chunks")


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def inline(kind):
    """The run that the others are compared with: everything in this process."""
    return play(workers=0, kind=kind)


def test_records_are_those_of_the_benchmarks_own_loop(kind, inline):
    module = load("engine_walk")
    for record in inline.records:
        task = next(task for task in module.TASKS if task.name == record.task)
        policy = load_policy(kind=kind)
        expected = own_loop(module.make(task), task, record.episode, record.seed, policy)
        taken = inline.actions[record.number]
        assert taken is not None
        assert taken[2] == expected.pop("actions")
        assert {key: getattr(record, key) for key in expected} == expected


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_records_do_not_depend_on_the_number_of_workers(kind, inline, workers):
    assert play(workers=workers, kind=kind) == inline


@pytest.mark.parametrize("workers", [1, 5])
def test_records_do_not_depend_on_where_the_policy_runs(kind, inline, workers):
    beside = play(workers=workers, kind=kind, placement="worker")
    assert beside == inline
    assert beside.engine.facts.placement == "worker"
    assert play(load_policy(kind=kind), workers=workers) == inline


@pytest.mark.parametrize("placement", ["process", "worker"])
def test_records_do_not_depend_on_what_is_killed(kind, inline, placement):
    with killing(random.Random(kind), pause=(0.05, 0.4)) as killed:
        shaken = play(workers=3, kind=kind, placement=placement, env_args={"nap": 0.01}, retries=99)
    assert killed
    assert shaken == inline
