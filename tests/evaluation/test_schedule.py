"""Who plays what: every episode once, and few envs are made."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from envhub.evaluation.schedule import Schedule
from envhub.records import Episode


def episodes(counts):
    """So many episodes for each task."""
    planned = []
    for task, count in enumerate(counts):
        for index in range(count):
            planned.append(Episode(len(planned), "suite", f"t{task}", index, index, None))
    return planned


def test_a_worker_stays_with_its_task():
    schedule = Schedule(episodes([3, 2]), workers=1)
    taken, task = [], None
    while (episode := schedule.take(task)) is not None:
        task = episode.task
        taken.append(episode.number)
    assert taken == [0, 1, 2, 3, 4]
    assert schedule.left == 0


def test_workers_begin_with_tasks_that_nobody_has():
    schedule = Schedule(episodes([5, 5, 5]), workers=3)
    assert [schedule.take(None).task for _ in range(3)] == ["t0", "t1", "t2"]


def test_a_worker_without_a_task_helps_where_most_is_left():
    schedule = Schedule(episodes([3, 9]), workers=3)
    assert schedule.take(None).task == "t0"
    assert schedule.take(None).task == "t1"
    assert schedule.take(None).task == "t1"


def test_help_is_limited_where_little_is_left():
    schedule = Schedule(episodes([9]), workers=1)
    assert schedule.take(None).number == 0
    assert schedule.take(None).number == 1  # the one that helps
    assert schedule.take(None) is None  # making an env is not worth it for seven episodes
    assert schedule.take("t0").number == 2


def test_help_is_not_limited_where_much_is_left():
    schedule = Schedule(episodes([100]), workers=1)
    for number in range(50):
        assert schedule.take(None).number == number


def test_an_episode_that_is_put_back_is_next():
    schedule = Schedule(episodes([3]), workers=1)
    first = schedule.take(None)
    schedule.put_back(first)
    assert schedule.left == 3
    assert schedule.take("t0") == first


def test_a_task_that_was_given_up_is_free_for_others():
    schedule = Schedule(episodes([2, 20]), workers=1)
    assert schedule.take(None).task == "t0"
    assert schedule.take(None).task == "t1"
    schedule.release("t0")
    assert schedule.take(None).task == "t0"


def test_nothing_to_do():
    assert Schedule([], workers=2).take(None) is None


@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    workers=st.integers(1, 8),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_every_episode_is_given_once_and_envs_are_few(counts, workers, data):
    """Workers as the engine has them: each asks when it is free, in any order, until it retires."""
    planned = episodes(counts)
    schedule = Schedule(planned, workers)
    at: dict[int, str | None] = dict.fromkeys(range(workers))
    given_out, opened = Counter(), 0
    while at:
        worker = data.draw(st.sampled_from(sorted(at)))
        episode = schedule.take(at[worker])
        if episode is None:
            schedule.release(at.pop(worker))
            waiting = {one.task for one in planned if not given_out[one.number]}
            assert waiting <= set(at.values()), "no task waits while a worker has nothing to do"
            continue
        opened += episode.task != at[worker]
        at[worker] = episode.task
        given_out[episode.number] += 1
    assert given_out == Counter(range(len(planned)))
    assert schedule.left == 0
    long = sum(count > 10 for count in counts)  # there, help is not limited
    assert len(counts) <= opened <= len(counts) + workers + long * workers


class Workers(RuleBasedStateMachine):
    """Workers that fail, give up and come back, as they like."""

    @initialize(counts=st.lists(st.integers(1, 15), min_size=1, max_size=5), n=st.integers(1, 4))
    def start(self, counts, n):
        self.planned = episodes(counts)
        self.schedule = Schedule(self.planned, n)
        self.task = dict.fromkeys(range(n))
        self.playing = dict.fromkeys(range(n))
        self.done = Counter()

    def free(self):
        return [worker for worker, episode in self.playing.items() if episode is None]

    def busy(self):
        return [worker for worker, episode in self.playing.items() if episode is not None]

    @precondition(lambda self: self.free())
    @rule(data=st.data())
    def take(self, data):
        worker = data.draw(st.sampled_from(self.free()))
        episode = self.schedule.take(self.task[worker])
        if episode is None:
            self.schedule.release(self.task[worker])
            self.task[worker] = None
        else:
            assert episode.number not in self.done
            self.task[worker], self.playing[worker] = episode.task, episode

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def finish(self, data):
        worker = data.draw(st.sampled_from(self.busy()))
        self.done[self.playing[worker].number] += 1
        self.playing[worker] = None

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def fail(self, data):
        worker = data.draw(st.sampled_from(self.busy()))
        episode, self.playing[worker] = self.playing[worker], None
        self.schedule.put_back(episode)
        assert self.schedule.take(episode.task) == episode
        self.playing[worker] = episode

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def fail_and_give_up(self, data):
        worker = data.draw(st.sampled_from(self.busy()))
        self.schedule.put_back(self.playing[worker])
        self.schedule.release(self.task[worker])
        self.task[worker] = self.playing[worker] = None

    @invariant()
    def nothing_is_lost(self):
        if hasattr(self, "planned"):
            under_way = [episode.number for episode in self.playing.values() if episode]
            assert len(under_way) == len(set(under_way))
            assert not self.done.keys() & set(under_way)
            assert self.schedule.left == len(self.planned) - len(self.done) - len(under_way)

    def teardown(self):
        """Whatever happened, a worker that comes now gets all that is left."""
        if not hasattr(self, "planned"):
            return
        for worker in self.busy():
            self.done[self.playing[worker].number] += 1
        for task in self.task.values():
            self.schedule.release(task)
        task = None
        while (episode := self.schedule.take(task)) is not None:
            task = episode.task
            self.done[episode.number] += 1
        assert self.done == Counter(range(len(self.planned)))


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
