"""A LeRobot-style file with a `cfg` that must be given."""

import gymnasium as gym


def make_env(n_envs, use_async_envs, cfg):
    steps = getattr(cfg, "steps", 50)
    makers = [lambda: gym.make("CartPole-v1", max_episode_steps=steps)] * n_envs
    return gym.vector.SyncVectorEnv(makers)
