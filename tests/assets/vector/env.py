"""A vector environment that is no collection of envs."""

import gymnasium as gym


def make_env(n_envs=1):
    return gym.make_vec("CartPole-v1", n_envs, vectorization_mode="vector_entry_point")
