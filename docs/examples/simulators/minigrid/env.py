# /// script
# dependencies = ["minigrid==3.2.0"]
# ///
import gymnasium as gym
from minigrid.wrappers import RGBImgObsWrapper


def make_env(n_envs=1, use_async_envs=False, task="MiniGrid-GoToDoor-5x5-v0"):
    return RGBImgObsWrapper(gym.make(task, render_mode="rgb_array"))
