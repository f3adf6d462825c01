"""Its requirements are in a file beside it, as in most repositories."""

import gymnasium as gym
import msgspec


def make_env(n_envs=1, use_async_envs=False):
    steps = msgspec.json.decode(b"7")
    return gym.vector.SyncVectorEnv(
        [lambda: gym.make("CartPole-v1", max_episode_steps=steps)] * n_envs
    )
