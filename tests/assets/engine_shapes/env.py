"""Tasks with spaces of all kinds, and policies that are made anew for each."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub

OBSERVED = {
    "number": spaces.Box(-np.inf, np.inf, (), np.float64),
    "picture": spaces.Box(0, 255, (2, 3, 3), np.uint8),
    "pair": spaces.Tuple((spaces.Discrete(7, start=-3), spaces.Text(5))),
    "deep": spaces.Dict({"a": spaces.Dict({"b": spaces.MultiBinary(3)})}),
}
ACTED = {
    "number": spaces.Discrete(5, start=2),
    "picture": spaces.MultiDiscrete([3, 4]),
    "pair": spaces.MultiBinary(4),
    "deep": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
}
LIMIT = 9


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(envhub.Task(name, f"act on a {name}", horizon=LIMIT) for name in OBSERVED)
    yield envhub.Benchmark(
        name="shapes",
        make=":Shape",
        suites={"shapes": tasks},
        episodes=2,
        policies={"sampler": ":make_sampler", "chunks": ":make_chunks", "unsure": ":make_unsure"},
    )


class Shape(gym.Env):
    def __init__(self, task):
        self.observation_space = OBSERVED[task.name]
        self.action_space = ACTED[task.name]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = float(np.sum(action)) + self.np_random.random()
        return self.observation_space.sample(), reward, False, False, {}


class Sampler:
    """Acts by chance and by what it sees, in one space only."""

    def __init__(self, task, space, chunk, placement):
        self.placement = placement
        self.task = task
        self.space = space
        self.chunk = chunk

    def start(self, episode):
        assert episode.task == self.task
        episode.memory["space"] = type(self.space).__name__

    def act(self, obs, episodes):
        assert {episode.task for episode in episodes} == {self.task}
        return np.stack([self.sample(obs, row, one) for row, one in enumerate(episodes)])

    def sample(self, obs, row, episode):
        seed = [*np.frombuffer(repr(pick(obs, row)).encode(), np.uint8), episode.rng.integers(99)]
        shape = self.space.shape if not self.chunk else (self.chunk, *self.space.shape)
        rng = np.random.default_rng(seed)
        match self.space:
            case spaces.Box():
                return rng.uniform(-1.0, 1.0, shape)
            case spaces.Discrete(start=start, n=n):
                return start + rng.integers(n, size=shape)
            case spaces.MultiDiscrete(nvec=nvec):
                return rng.integers(nvec, size=shape)
        return rng.integers(2, size=shape)

    def finish(self, episode):
        if episode.task != self.task:
            raise SystemExit(f"{episode.task} is finished where {self.task} is played")


def pick(obs, row):
    """A row, in a form that reads the same wherever it came from."""
    if isinstance(obs, dict):
        return {key: pick(value, row) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return [pick(value, row) for value in obs]
    return obs[row] if isinstance(obs, list) else np.asarray(obs[row]).tolist()


def make_sampler(benchmark, observation_space, action_space, chunk=0, placement="worker"):
    task = next(name for name, space in ACTED.items() if space == action_space)
    assert observation_space == OBSERVED[task]
    return Sampler(task, action_space, chunk, placement)


def make_chunks(benchmark, observation_space, action_space, placement="worker"):
    return make_sampler(benchmark, observation_space, action_space, 4, placement)


def make_unsure(benchmark, observation_space, action_space):
    """Wants to be somewhere else in every task."""
    placement = "worker" if action_space == ACTED["number"] else "process"
    return make_sampler(benchmark, observation_space, action_space, placement=placement)
