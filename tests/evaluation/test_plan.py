"""Which episodes are run: the same question gives the same plan."""

from dataclasses import replace

import pytest

from envhub.declarations import Benchmark, Task
from envhub.errors import UsageError
from envhub.evaluation.plan import make_plan, select
from envhub.records import Episode
from envhub.results.journal import PlannedEpisodes

A = Task("a", "do a", 10)
B = Task("b", "do b", 20, init_states=3, success="at_end", args={"scene": "kitchen"})
C = Task("c", "do c", 30, success="ever")
BENCHMARK = Benchmark(
    "letters", ":make", {"early": (A, B), "late": (B, C)}, default=("early",), episodes=4
)


def plan(suites=(), tasks=(), **options):
    return make_plan(BENCHMARK, select(BENCHMARK, suites, tasks), **options)


def test_every_task_has_its_episodes():
    made = plan(episodes=2, seed=5, seeding="shared")
    assert made.episodes == (
        Episode(0, "early", "a", 0, 5, None),
        Episode(1, "early", "a", 1, 6, None),
        Episode(2, "early", "b", 0, 5, 0),
        Episode(3, "early", "b", 1, 6, 1),
    )
    assert (made.per_task, made.seed, made.max_steps) == (2, 5, None)
    assert made.suites == {"early": ("a", "b")}
    assert made.tasks == {"a": A, "b": B}


def test_the_number_of_episodes_is_the_benchmarks_unless_said():
    assert [episode.index for episode in plan(tasks=("a",)).episodes] == [0, 1, 2, 3]
    assert len(plan(tasks=("a",), episodes=1).episodes) == 1


def test_initial_states_come_in_turn_whatever_the_seed():
    made = plan(tasks=("b",), episodes=7, seed=100, seeding="shared")
    assert [episode.init_state for episode in made.episodes] == [0, 1, 2, 0, 1, 2, 0]
    assert [episode.seed for episode in made.episodes] == list(range(100, 107))


def test_a_task_of_two_suites_is_run_once():
    made = plan(suites=("all",), episodes=1)
    assert [(episode.suite, episode.task) for episode in made.episodes] == [
        ("early", "a"),
        ("early", "b"),
        ("late", "c"),
    ]
    assert made.suites == {"early": ("a", "b"), "late": ("b", "c")}


def test_an_episode_does_not_depend_on_what_else_is_run():
    def of_b(made):
        return [(e.index, e.seed, e.init_state) for e in made.episodes if e.task == "b"]

    assert of_b(plan()) == of_b(plan(suites=("late",))) == of_b(plan(tasks=("b",)))
    assert of_b(plan(episodes=2)) == of_b(plan(episodes=9))[:2]


def test_max_steps_replaces_the_horizons_and_nothing_else():
    made = plan(suites=("all",), max_steps=7)
    assert made.max_steps == 7
    for task in (A, B, C):
        limited = made.tasks[task.name]
        assert limited.horizon == 7
        assert limited == Task(
            task.name, task.description, 7, task.init_states, task.success, task.args
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"episodes": 0}, "--episodes must be at least 1, found 0."),
        ({"episodes": -3}, "--episodes must be at least 1, found -3."),
        ({"episodes": 2**63}, "and a run has at most 1,000,000: choose fewer, or fewer tasks."),
        ({"seed": -1}, "so that every episode has one, found -1."),
        ({"seed": 2**63}, "so that every episode has one, found 9223372036854775808."),
    ],
)
def test_questions_that_make_no_sense(options, problem):
    with pytest.raises(UsageError) as caught:
        plan(**options)
    assert str(caught.value).endswith(problem)


def test_the_largest_seed():
    top = 2**63 - 1 - 4
    assert plan(seed=top, seeding="shared").episodes[3].seed == top + 3


def test_tasks_have_seeds_of_their_own_unless_they_name_another():
    again = replace(A, name="again", description="do a, please", seeds_of="a")
    benchmark = Benchmark("letters", ":make", {"all": (B, again, A)})

    def seeds(task, **options):
        made = make_plan(benchmark, select(benchmark, tasks=(task,)), episodes=3, **options)
        return [episode.seed for episode in made.episodes]

    assert seeds("again") == seeds("a") != seeds("b")
    assert seeds("a", seed=1) != seeds("a", seed=0)
    assert seeds("a", seeding="shared") == seeds("b", seeding="shared") == [0, 1, 2]


def test_run_json_says_the_same_seeds():
    again = replace(A, name="again", seeds_of="a")
    benchmark = Benchmark("letters", ":make", {"all": (A, B, again)})
    for seeding in ("task", "shared"):
        made = make_plan(benchmark, select(benchmark), seeding=seeding, seed=3)
        planned = PlannedEpisodes(made.info("reset"))
        assert all(planned[e.task, e.index] == e for e in made.episodes)


@pytest.mark.parametrize("episodes", [10**9, 10**18, 500_001])
def test_a_plan_that_is_too_large_is_refused_at_once(episodes):
    with pytest.raises(UsageError) as caught:
        plan(episodes=episodes)
    assert str(caught.value) == (
        f"--episodes {episodes} are {2 * episodes:,} episodes in all, and a run has at most "
        "1,000,000: choose fewer, or fewer tasks."
    )
