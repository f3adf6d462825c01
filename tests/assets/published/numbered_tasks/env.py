"""Suites whose tasks are numbers, as in LeRobot's own environments."""

import gymnasium as gym


def make_env(n_envs=1, use_async_envs=False):
    def vector(steps):
        return gym.vector.SyncVectorEnv(
            [lambda: gym.make("CartPole-v1", max_episode_steps=steps)] * n_envs
        )

    return {
        "short": {0: vector(4), 1: vector(5)},
        "long": {0: vector(6), 1: vector(7), 2: vector(8)},
    }
