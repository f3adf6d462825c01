"""A LeRobot-style file with further arguments of any name."""

import gymnasium as gym


def make_env(n_envs=1, use_async_envs=False, **kwargs):
    makers = [lambda: gym.make("CartPole-v1", **kwargs)] * n_envs
    return gym.vector.SyncVectorEnv(makers)
