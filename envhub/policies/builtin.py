"""The policies that come with EnvHub. They look at nothing, and run beside the env."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.policies.contract import Context
from envhub.types import Benchmark, Placement


class _Blind:
    """Looks at nothing, so nothing is drawn for it."""

    placement: Placement = "worker"
    needs: frozenset[str] = frozenset()

    def __init__(self, action_space: Space[Any]) -> None:
        self._space = action_space


class Random(_Blind):
    """Samples the action space, from the episode's own generator."""

    def start(self, episode: Context) -> None:
        """Seed a sampler for this episode."""
        sampler = copy.deepcopy(self._space)
        sampler.seed(int(episode.rng.integers(2**31)))
        episode.memory["sampler"] = sampler

    def act(self, obs: Any, episodes: Sequence[Context]) -> Any:
        """A sample for each episode."""
        return np.stack([np.asarray(e.memory["sampler"].sample()) for e in episodes])


class Zero(_Blind):
    """All zeros."""

    def act(self, obs: Any, episodes: Sequence[Context]) -> Any:
        """Zeros for each episode."""
        return np.zeros((len(episodes), *(self._space.shape or ())), self._space.dtype)


def make_random(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Random:
    """The policy `random`."""
    return Random(action_space)


def make_zero(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Zero:
    """The policy `zero`."""
    return Zero(action_space)
