# /// script
# dependencies = ["gym-pusht==0.1.8"]
# ///
import gym_pusht  # noqa: F401 - registers its envs
import gymnasium as gym


def make_env(n_envs=1, use_async_envs=False):
    return gym.make("gym_pusht/PushT-v0", obs_type="pixels_agent_pos", render_mode="rgb_array")
