"""The policies that come with EnvHub. They read no observations, and run in the workers."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.declarations import Benchmark
from envhub.types import Batch, Placement
from envhub.wire.policy_contract import Context


class _Blind:
    """Reads no observations, so no frame is rendered for it."""

    placement: Placement = "worker"
    needs: frozenset[str] = frozenset()
    batch: Batch = "any"

    def __init__(self, action_space: Space[Any]) -> None:
        self._space = action_space


class Random(_Blind):
    """Samples the action space, with the episode's own generator."""

    def start(self, episode: Context) -> None:
        """Seed a sampler for this episode."""
        sampler = copy.deepcopy(self._space)
        sampler.seed(int(episode.rng.integers(2**31)))
        episode.memory["sampler"] = sampler

    def act(self, obs: Any, episodes: Sequence[Context]) -> Any:
        """Return a sample per episode."""
        return np.stack([np.asarray(e.memory["sampler"].sample()) for e in episodes])


class Zero(_Blind):
    """Acts with zeros."""

    def act(self, obs: Any, episodes: Sequence[Context]) -> Any:
        """Return zeros for each episode."""
        return np.zeros((len(episodes), *(self._space.shape or ())), self._space.dtype)


def make_random(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Random:
    """Make the policy `random`."""
    return Random(action_space)


def make_zero(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Zero:
    """Make the policy `zero`."""
    return Zero(action_space)
