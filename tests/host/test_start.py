"""How a worker is started: what it inherits, and what is its own."""

import os

import pytest

import envhub

pytestmark = pytest.mark.timeout(60)

ENV = """
import os, random, sys, tempfile
import gymnasium as gym
import numpy as np

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])

class Mirror(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 10

    def __init__(self):
        self.draw, self.random = float(np.random.random()), random.random()  # before any seed

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def look(self):
        outer = parent(os.getppid())
        return {
            "guard": outer,
            "host": parent(outer),
            "session": os.getsid(0),
            "home": os.environ["HOME"],
            "tmp": tempfile.gettempdir(),
            "cwd": os.getcwd(),
            "variables": " ".join(sorted(os.environ)),
            "argv": sys.argv[0],
            "draw": self.draw,
            "random": self.random,
            "files": sorted(
                os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
                for fd in os.listdir("/proc/self/fd")
                if os.path.lexists(f"/proc/self/fd/{fd}")
            ),
            "threads": len(os.listdir("/proc/self/task")),
        }

def make_env(n_envs=1, use_async_envs=False):
    return Mirror()
"""


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "env.py").write_text(ENV)
    made = []

    def make(n_envs):
        made.append(only(envhub.make_env(str(tmp_path), n_envs)))
        made[-1].reset(seed=0)
        return made[-1]

    yield make
    for env in made:
        env.close()


def only(made):
    """The one vector environment among what was made."""
    ((env,),) = [tasks.values() for tasks in made.values()]
    return env


def test_each_worker_has_a_place_of_its_own(mirror):
    looks = mirror(3).call("look")
    for look in looks:
        assert look["host"] == os.getpid()
        assert look["session"] == look["guard"]
        assert look["home"] == look["tmp"]
        assert look["threads"] == 1
        for same in ("cwd", "variables", "files", "argv"):
            assert look[same] == looks[0][same]
    for own in ("home", "guard", "draw", "random"):
        assert len({look[own] for look in looks}) == 3


def test_variables_are_those_of_the_moment(mirror, monkeypatch):
    mirror(1)
    monkeypatch.setenv("MUJOCO_SOMETHING", "new")
    assert "MUJOCO_SOMETHING" in mirror(1).call("look")[0]["variables"]
