# /// script
# dependencies = ["gymnasium[mujoco]", "mujoco==3.3.7"]
# ///
import gymnasium as gym
from gymnasium.wrappers import AddRenderObservation


def make_one(name):
    env = gym.make(name, render_mode="rgb_array", width=64, height=64)
    return AddRenderObservation(env, render_only=False)


def make_env(n_envs=1, use_async_envs=False):
    return {name: lambda name=name: make_one(name) for name in ("Reacher-v5", "Pusher-v5")}
