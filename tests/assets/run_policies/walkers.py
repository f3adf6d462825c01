"""Policies for the walk: with and without chance, step by step and in chunks, and bad ones."""

import time

import numpy as np


class Walker:
    """Goes to the goal, ever more timidly: what it does depends on what it did before."""

    def __init__(self, *, chunk: int = 0, noise: float = 0.0) -> None:
        self._chunk, self._noise = chunk, noise

    def act(self, obs, episodes):
        rows = [self._row(*row, episode) for row, episode in zip(obs, episodes, strict=True)]
        actions = np.array(rows, np.float32)
        return actions if self._chunk else actions[:, 0]

    def _row(self, place, goal, episode):
        calls = episode.memory["calls"] = episode.memory.get("calls", 0) + 1
        speed = 5.0 * float(goal - place) / calls**0.5
        steps = [speed + self._noise * episode.rng.normal() for _ in range(self._chunk or 1)]
        return np.clip(steps, -1.0, 1.0)[:, None]


def make_policy(benchmark, observation_space, action_space, noise: float = 0.0):
    return Walker(noise=noise)


def noisy(benchmark, observation_space, action_space):
    return Walker(noise=0.5)


def chunked(benchmark, observation_space, action_space):
    return Walker(chunk=4)


def noisy_chunked(benchmark, observation_space, action_space):
    return Walker(chunk=3, noise=0.5)


class Fails(Walker):
    """Raises in every task's episode 1."""

    def act(self, obs, episodes):
        if any(episode.index == 1 for episode in episodes):
            raise RuntimeError("I fell\x1b[2J")
        return super().act(obs, episodes)


def fails(benchmark, observation_space, action_space):
    return Fails()


class Hangs(Walker):
    """Never answers in every task's episode 1."""

    def act(self, obs, episodes):
        if any(episode.index == 1 for episode in episodes):
            time.sleep(3600)
        return super().act(obs, episodes)


def hangs(benchmark, observation_space, action_space):
    return Hangs()


def unmade(benchmark, observation_space, action_space):
    raise ValueError("no weights")


def no_policy(benchmark, observation_space, action_space):
    return object()
