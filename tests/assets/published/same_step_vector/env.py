"""A vector environment of its own that resets in the step that ends an episode."""

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Balance(SyncVectorEnv):
    def __init__(self, n_envs):
        makers = [lambda: gym.make("CartPole-v1", max_episode_steps=12)] * n_envs
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        self.task_description = "Keep the pole up."

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        final = infos.get("final_info")
        if final is not None:  # success is known at the end, which is in the final info
            final["is_success"] = truncated
            final["_is_success"] = truncated | terminated
        return observations, rewards, terminated, truncated, infos


def make_env(n_envs=1, use_async_envs=False):
    return Balance(n_envs)
