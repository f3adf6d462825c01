# /// script
# dependencies = ["gym-aloha==0.1.5", "mujoco==3.3.7"]
# ///
import gym_aloha  # noqa: F401 - registers its envs
import gymnasium as gym

TASKS = {"insertion": "AlohaInsertion-v0", "transfer-cube": "AlohaTransferCube-v0"}


def make_one(name):
    return lambda: gym.make(f"gym_aloha/{name}", obs_type="pixels_agent_pos")


def make_env(n_envs=1, use_async_envs=False):
    return {task: make_one(name) for task, name in TASKS.items()}
