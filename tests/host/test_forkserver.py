"""Workers that are forked instead of started: like others in every respect that anybody can see."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from support.processes import ROOT, alive, children, descriptors, wait_until

import envhub
from envhub.errors import WorkerDied

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
        if action == 1:
            os._exit(7)
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


def fork_servers(pid=None):
    """The fork_servers of a process."""
    names = {child: Path(f"/proc/{child}/comm").read_text().strip() for child in children(pid)}
    return [child for child, name in names.items() if name == "envhub-fork"]


def test_two_are_started_and_the_others_are_forked(mirror):
    two = mirror(2)
    assert fork_servers() == []
    three = mirror(3)
    assert len(fork_servers()) == 1
    started, second, *forked = (*two.call("look"), *three.call("look"))
    for other in forked:
        assert other["host"] == started["host"] == os.getpid()
        assert other["session"] == other["guard"]  # a session of its own
        assert other["home"] == other["tmp"]
        assert other["cwd"] == started["cwd"]
        assert other["variables"] == started["variables"]
        assert other["files"] == started["files"]
        assert other["argv"] == started["argv"]
        assert other["threads"] == 1
    everyone = [started, second, *forked]
    for what in ("home", "guard", "draw", "random"):
        assert len({look[what] for look in everyone}) == 5


def test_it_ends_with_the_last_worker(mirror):
    before = descriptors()
    first, second = mirror(3), mirror(1)
    (server,) = fork_servers()
    first.close()
    assert alive(server)
    assert second.call("look")[0]["host"] == os.getpid()
    second.close()
    assert not alive(server)
    assert children() == []
    assert descriptors() == before


def test_without_it_workers_live_on_and_new_ones_are_started(mirror):
    first = mirror(3)
    (server,) = fork_servers()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not alive(server))
    first.step(np.zeros(3, np.int64))
    second = mirror(2)
    second.step(np.zeros(2, np.int64))
    assert second.call("look")[1]["host"] == os.getpid()


def test_how_a_forked_worker_ended_is_known(mirror):
    env = mirror(3)
    with pytest.raises(WorkerDied, match="in env 2: its process ended with exit code 7"):
        env.step(np.array([0, 0, 1]))
    assert children() == []


def test_what_processes_hand_down_is_never_that_of_another_time(mirror, monkeypatch):
    """Variables and limits are those of the moment, not of the fork server's start."""
    mirror(3)
    monkeypatch.setenv("MUJOCO_SOMETHING", "new")
    other = mirror(3)
    assert all("MUJOCO_SOMETHING" in look["variables"] for look in other.call("look"))


def test_it_dies_with_the_host(tmp_path):
    (tmp_path / "env.py").write_text(ENV)
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            import time, envhub
            made = envhub.make_env({str(tmp_path)!r}, 3)
            env = next(iter(next(iter(made.values())).values()))
            env.reset(seed=0)
            print("ready", flush=True)
            time.sleep(1000)
        """)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    with host:
        assert host.stdout.readline() == b"ready\n"
        everyone = children(host.pid)
        assert len(everyone) == 4  # three workers' guards, one fork server
        host.kill()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in everyone) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in everyone if alive(pid)] == []
