"""A vector environment whose envs live in processes, whatever was asked for."""

import gymnasium as gym


def make_env(n_envs=1, use_async_envs=True):
    return gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * n_envs)
