# /// script
# dependencies = ["gymnasium-robotics==1.4.2", "mujoco==3.3.7"]
# ///
import gymnasium as gym
import gymnasium_robotics

gym.register_envs(gymnasium_robotics)


def make_env(n_envs=1, use_async_envs=False, task="FetchReach-v4"):
    return gym.make(task, render_mode="rgb_array")
