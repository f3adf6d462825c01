"""Failed attempts are counted; an episode that was only beside a failure is played again as new."""

import pytest
from support.engine_runs import declared

from envhub.evaluation.episode_queue import EpisodeQueue
from envhub.evaluation.job import Job
from envhub.evaluation.plan import make_plan
from envhub.options import Limits
from envhub.policies.kinds import Builtin
from envhub.types import PluginSource, WorkerSpec

EPISODES = 2


@pytest.fixture
def queue() -> EpisodeQueue:
    """Of two episodes for each task, with one retry."""
    benchmark = declared("engine_walk")
    plan = make_plan(benchmark, benchmark.suites, episodes=EPISODES)
    job = Job(
        spec=WorkerSpec(PluginSource("walk"), {}, Limits()),
        benchmark=benchmark,
        plan=plan,
        episodes=plan.episodes,
        policy=Builtin("zero"),
        workers=1,
        retries=1,
    )
    return EpisodeQueue(job)


def test_every_episode_once(queue):
    count, taken = queue.left, []
    while (attempt := queue.take(taken[-1].episode.task if taken else None)) is not None:
        taken.append(attempt)
    assert [attempt.episode.number for attempt in taken] == list(range(count))
    assert {(attempt.number, attempt.alone) for attempt in taken} == {(1, False)}
    assert queue.left == 0


def test_a_failed_attempt_is_repeated_as_often_as_the_job_says(queue):
    first = queue.take(None)
    assert queue.retry(first)
    second = queue.take(first.episode.task)
    assert (second.episode, second.number) == (first.episode, 2)
    assert not queue.retry(second)
    assert queue.take(first.episode.task).episode != first.episode


def test_an_episode_that_did_not_fail_by_itself_loses_no_attempt(queue):
    first = queue.take(None)
    queue.put_back(first.episode)
    again = queue.take(first.episode.task)
    assert (again.episode, again.number, again.alone) == (first.episode, 1, False)


def test_alone_is_kept_for_every_later_attempt_of_the_episode(queue):
    first = queue.take(None)
    queue.put_back(first.episode, alone=True)
    alone = queue.take(first.episode.task)
    assert (alone.episode, alone.number, alone.alone) == (first.episode, 1, True)
    assert queue.retry(alone)
    assert queue.take(first.episode.task).alone
    assert not queue.take(first.episode.task).alone
