"""Files of the published contract: how `make_env` is called, and what envs come of it."""

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from support.counting import DICT, PAIR, Counting

from envhub.errors import ContractError, InvalidEnvs
from envhub.worker.make_env import EnvOfVector, MakeEnvBenchmark


class Odd(SyncVectorEnv):
    """A vector environment that is not exactly Gymnasium's."""


def adapted(returned: Any, horizon: int | None = 10, **env_args: Any) -> MakeEnvBenchmark:
    """A program whose `make_env` returns what this makes."""
    return MakeEnvBenchmark(lambda n_envs: returned(), "name", env_args, horizon)


class TestTask:
    """What a task is called and how long it takes, where an env says so."""

    @pytest.mark.parametrize(
        ("told", "asked", "horizon"),
        [
            ({"_max_episode_steps": 7}, None, 7),
            ({"_max_episode_steps": np.int32(7)}, None, 7),
            ({"_max_episode_steps": 7}, 4, 4),
            ({"spec": SimpleNamespace(max_episode_steps=8)}, None, 8),
            ({"spec": SimpleNamespace(max_episode_steps=8), "_max_episode_steps": 7}, None, 7),
            ({}, 4, 4),
        ],
    )
    def test_horizon(self, told, asked, horizon):
        [task] = adapted(lambda: Counting(**told), asked).benchmark.tasks().values()
        assert task.horizon == horizon
        assert type(task.horizon) is int

    def test_conventions(self):
        told = {"gripper": "width", "control_hz": 5}
        made = adapted(lambda: Counting(conventions=told)).benchmark
        assert (made.conventions, made.control_hz) == ({"gripper": "width"}, 5.0)
        method = adapted(lambda: Counting(conventions=lambda: {"frame": "ee"})).benchmark
        assert (method.conventions, method.control_hz) == ({"frame": "ee"}, 0.0)
        assert adapted(Counting).benchmark.conventions == {}

    def test_conventions_that_are_none(self):
        message = "task 'name': the convention gripper is 'wide', .* the nearest is 'width'."
        with pytest.raises(ContractError, match=message):
            adapted(lambda: Counting(conventions={"gripper": "wide"}))

    def test_tasks_of_different_conventions(self):
        def several():
            return {
                "suite": {
                    "a": lambda: Counting(conventions={"frame": "ee"}),
                    "b": lambda: Counting(conventions={"frame": "world"}),
                }
            }

        with pytest.raises(ContractError, match="the tasks 'a' and 'b' have different conventions"):
            adapted(several)

    @pytest.mark.parametrize(
        "told",
        [
            {},
            {"_max_episode_steps": 0},
            {"_max_episode_steps": "100"},
            {"_max_episode_steps": 1.5},
            {"spec": SimpleNamespace(max_episode_steps=None)},
        ],
    )
    def test_no_horizon(self, told):
        program = adapted(lambda: Counting(**told), None)
        assert program.without_horizon == ("name",)
        assert adapted(lambda: Counting(**told), 5).without_horizon == ()

    @pytest.mark.parametrize(
        ("told", "description"),
        [
            ({"task_description": "pick it", "task": "pick"}, "pick it"),
            ({"task_description": "", "task": "pick"}, "pick"),
            ({"task": "pick"}, "pick"),
            ({"task": object()}, "name"),
            ({"task": np.arange(3)}, "name"),
            ({}, "name"),
        ],
    )
    @pytest.mark.parametrize("wrap", [lambda env: env, gym.wrappers.OrderEnforcing])
    def test_description(self, told, description, wrap):
        [task] = adapted(lambda: wrap(Counting(**told))).benchmark.tasks().values()
        assert (task.name, task.description) == ("name", description)

    def test_names_are_made_unique_only_where_they_are_not(self):
        tasks = {"a": {0: Counting, 1: Counting}, "b": {1: Counting, 2: Counting}}
        suites = adapted(lambda: tasks).benchmark.suites
        assert {suite: [task.name for task in tasks] for suite, tasks in suites.items()} == {
            "a": ["0", "a.1"],
            "b": ["b.1", "2"],
        }


class TestMake:
    @pytest.mark.parametrize(
        ("kind", "calls"),
        [
            (lambda: Counting(), 2),
            (lambda: Counting, 1),
            (lambda: [Counting], 1),
            (lambda: {"t": Counting()}, 2),
            (lambda: SyncVectorEnv([Counting]), 2),
            (lambda: lambda: SyncVectorEnv([Counting]), 1),
        ],
    )
    def test_each_env_is_given_out_once(self, kind, calls):
        made: list[int] = []

        def make_env(n_envs=1):
            made.append(n_envs)
            return kind()

        program = MakeEnvBenchmark(make_env, "name", {}, 10)
        [(suite, (task,))] = program.benchmark.suites.items()
        envs = [program.make(suite, task) for _ in range(2)]
        assert [type(env) for env in envs] == [Counting, Counting]
        assert envs[0] is not envs[1]
        assert made == [1] * calls

    def test_a_task_of_each_suite_is_its_own(self, load):
        program = load("mapping")
        for _ in range(2):
            for suite, goals in {"near": [3, 5], "far": [30, 50]}.items():
                tasks = program.benchmark.suites[suite]
                assert [program.make(suite, task).goal for task in tasks] == goals

    def test_a_vector_environment_of_another_kind(self):
        program = adapted(lambda: Odd([Counting]))
        [(suite, (task,))] = program.benchmark.suites.items()
        assert type(program.make(suite, task)) is EnvOfVector

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            (lambda: SyncVectorEnv([Counting] * 2), "a VectorEnv of 2 where 1 envs were asked"),
            (lambda: [Counting] * 2, "a list of 2 callables where 1 were asked for"),
            (lambda: lambda: 42, "a callable that made an int"),
        ],
    )
    def test_more_or_other_than_asked_for(self, returned, message):
        with pytest.raises(InvalidEnvs, match=f": at name / name: {message}"):
            adapted(returned)


class Watched(Counting):
    """An env that notes when it is made and closed."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__(task=f"do {name}", _max_episode_steps=7)
        self.name, self.notes = name, notes
        notes.append(f"make {name}")
        if name == "broken":
            raise ValueError("no scene")

    def close(self):
        self.notes.append(f"close {self.name}")


class TestDescribing:
    """Which envs are made to describe a file, and which to play it."""

    def program(self, names, notes, **options):
        makers = {name: (lambda name=name: Watched(name, notes)) for name in names}
        return MakeEnvBenchmark(lambda: makers, "name", {}, None, **options)

    def test_each_env_is_closed_before_the_next_is_made(self):
        notes: list[str] = []
        benchmark = self.program(["a", "b", "c"], notes).benchmark
        assert notes == ["make a", "close a", "make b", "close b", "make c", "close c"]
        assert [t.description for t in benchmark.tasks().values()] == ["do a", "do b", "do c"]

    def test_the_env_of_the_only_task_is_made_once(self):
        notes: list[str] = []
        program = self.program(["a"], notes)
        [task] = program.benchmark.tasks().values()
        program.make("name", task)
        assert notes == ["make a"]
        program.close()
        assert notes == ["make a"]  # the session closes what it opened

    def test_unused_envs_are_closed_at_the_end(self):
        notes: list[str] = []
        made = MakeEnvBenchmark(
            lambda: {name: Watched(name, notes) for name in "ab"}, "name", {}, None
        )
        assert sorted(notes) == ["close a", "close b", "make a", "make b"]
        made.make("name", made.benchmark.tasks()["b"])
        notes.clear()
        made.close()
        assert notes == ["close a"]

    def test_what_is_described_already_is_not_made_again(self):
        notes: list[str] = []
        benchmark = self.program(["a", "b", "c"], []).benchmark
        program = self.program(["a", "b", "c"], notes, declared=benchmark)
        assert notes == []
        assert program.make("name", benchmark.tasks()["b"]).name == "b"
        assert notes == ["make b"]

    def test_a_file_that_returns_other_tasks_later(self):
        benchmark = self.program(["a", "b"], []).benchmark
        program = self.program(["b"], [], declared=benchmark)
        with pytest.raises(ContractError, match="make_env returned no task 'a' this time"):
            program.make("name", benchmark.tasks()["a"])

    def test_a_task_that_cannot_be_made(self):
        program = self.program(["a", "broken", "c"], [])
        assert {task: (why.kind, why.message) for task, why in program.broken.items()} == {
            "broken": ("ValueError", "no scene")
        }
        assert list(program.benchmark.tasks()) == ["a", "broken", "c"]
        assert program.make("name", program.benchmark.tasks()["c"]).name == "c"
        with pytest.raises(ValueError, match="no scene"):
            program.make("name", program.benchmark.tasks()["broken"])

    def test_if_nothing_can_be_made_the_first_error_is_raised(self):
        with pytest.raises(ValueError, match="no scene"):
            self.program(["broken"], [])


def same(one: Any, other: Any) -> bool:
    """Whether values are equal, arrays and what holds them included."""
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other))


class TestEnvOfVector:
    """A vector environment of one behaves as its env does, whatever its autoreset mode."""

    @pytest.mark.parametrize("mode", AutoresetMode)
    @pytest.mark.parametrize(
        ("observation", "action"),
        [
            (None, None),
            (DICT, PAIR),
            (spaces.Discrete(99), spaces.Box(-1.0, 1.0, (2,), np.float32)),
        ],
        ids=["box", "dict", "discrete"],
    )
    def test_episodes_in_step_with_the_env_itself(self, mode, observation, action):
        plain = Counting(3, observation, action)
        vector = SyncVectorEnv([lambda: Counting(3, observation, action)], autoreset_mode=mode)
        env = EnvOfVector(vector)
        assert env.observation_space == plain.observation_space
        assert env.action_space == plain.action_space
        env.action_space.seed(0)
        for episode in range(3):
            begun = env.reset(seed=episode)
            assert same(begun, plain.reset(seed=episode))
            assert env.observation_space.contains(begun[0])
            ended = False
            while not ended:
                chosen = env.action_space.sample()
                stepped = env.step(chosen)
                assert same(stepped, plain.step(chosen)), stepped
                assert [type(part) for part in stepped[1:4]] == [float, bool, bool]
                ended = stepped[2]
            assert plain.count == 3
        env.close()

    @pytest.mark.parametrize("mode", AutoresetMode)
    def test_a_reset_before_the_end(self, mode):
        env = EnvOfVector(SyncVectorEnv([Counting], autoreset_mode=mode))
        env.reset()
        env.step(0)
        assert env.reset()[0] == [0]
        assert env.step(1)[0] == [1]

    def test_options_reach_the_env(self):
        env = EnvOfVector(SyncVectorEnv([Counting]))
        assert env.reset(options={"start": 2})[0] == [2]

    def test_rendering(self):
        env = EnvOfVector(SyncVectorEnv([Counting]))
        env.reset()
        env.step(1)
        assert env.render_mode == "rgb_array"
        assert env.metadata["render_fps"] == 5
        assert np.array_equal(env.render(), np.ones((2, 2, 3)))

    def test_attributes(self):
        env = EnvOfVector(SyncVectorEnv([lambda: Counting(7)]))
        assert env.get_wrapper_attr("goal") == 7
        assert env.get_wrapper_attr("num_envs") == 1
        assert env.has_wrapper_attr("goal")
        assert not env.has_wrapper_attr("nothing")
        with pytest.raises(AttributeError, match="nothing"):
            env.get_wrapper_attr("nothing")

    def test_attributes_of_a_vector_environment_without_envs(self):
        vector = gym.make_vec("CartPole-v1", 1, vectorization_mode="vector_entry_point")
        env = EnvOfVector(vector)
        assert env.get_wrapper_attr("theta_threshold_radians") > 0
        assert not env.has_wrapper_attr("nothing")

    def test_attributes_behind_a_vector_wrapper(self):
        env = EnvOfVector(RecordEpisodeStatistics(SyncVectorEnv([lambda: Counting(7)])))
        assert env.get_wrapper_attr("goal") == 7

    def test_attributes_of_envs_in_processes(self):
        env = EnvOfVector(AsyncVectorEnv([lambda: Counting(7)]))
        try:
            assert not env.has_wrapper_attr("nothing")
            assert env.get_wrapper_attr("goal") == 7
            assert env.reset()[0] == [0]
        finally:
            env.close()
