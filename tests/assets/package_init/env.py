import gymnasium as gym

STEPS = 33
executions = []
executions.append(__name__)


def make_env(n_envs=1, use_async_envs=False):
    from . import TWICE  # noqa: TID252

    return gym.make("CartPole-v1", max_episode_steps=TWICE)
