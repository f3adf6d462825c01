# /// script
# dependencies = ["robosuite==1.5.2", "mujoco==3.3.7", "h5py"]
# ///
import robosuite
from robosuite.wrappers import GymWrapper


def make_env(n_envs=1, use_async_envs=False, task="Lift", max_steps=200):
    env = robosuite.make(task, robots="Panda", has_renderer=False, horizon=max_steps)
    return GymWrapper(env, flatten_obs=False)
