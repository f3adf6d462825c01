"""Names and texts that would rewrite a terminal, or break a table into lines."""

import gymnasium as gym


def make_env(n_envs=1, use_async_envs=False):
    env = gym.make("CartPole-v1")
    env.unwrapped.task_description = "count\x1b[2J\x1b]0;owned\x07\nto\x9b31m three\u202e"
    return env
