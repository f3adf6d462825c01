"""A LeRobot-style file: it cannot say how successes count."""

from .point import HORIZON, Point


class Pushing(Point):
    task_description = "push the point to the right"
    max_episode_steps = HORIZON


def make_env(n_envs: int = 1, use_async_envs: bool = False, horizon: bool = True):
    Pushing.max_episode_steps = HORIZON if horizon else None
    return {"push": {"push": Pushing}}
