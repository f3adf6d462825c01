import gc
import os
from pathlib import Path

import numpy as np
import pytest
from assets.vector_published.env import Reach
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import vector
from support.paths import ASSETS

import envhub
from envhub.errors import UnknownName, UsageError, WorkerError, WorkerRaised
from envhub.options import Limits
from envhub.sources.find import find_source
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv
from envhub.vector.pool import WorkerPool
from envhub.wire.messages import Stepped, WasReset


def envs_of(asset, n_envs=1, **options):
    return envhub.make_env(str(ASSETS / asset), n_envs, **options)


def processes():
    """All processes of workers below this one: two guards and, below them, the env."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [pid for pid in found - {os.getpid()} if b"envhub.worker" in command(pid)]


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.fixture(autouse=True)
def _nothing_is_left():
    gc.collect()
    assert processes() == []
    yield
    gc.collect()
    assert processes() == []


# What is made


def test_suites_tasks_and_envs():
    envs = envs_of("hooks", 2)
    assert {suite: list(tasks) for suite, tasks in envs.items()} == {"small": ["three", "five"]}
    for env in envs["small"].values():
        assert isinstance(env, VectorEnv)
        assert env.num_envs == 2
    assert repr(envs["small"]["three"]) == "LazyVectorEnv(small/three, 2 envs)"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tasks": "five,three"}, {"small": ["three", "five"]}),
        ({"suites": "all", "tasks": ("five",)}, {"all": ["five"]}),
    ],
    ids=str,
)
def test_suites_and_tasks_are_chosen(options, expected):
    envs = envs_of("hooks", **options)
    assert {suite: list(tasks) for suite, tasks in envs.items()} == expected


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"tasks": ["tree"]}, UnknownName, "No task is called 'tree'. Did you mean 'three'?"),
        ({"suites": ["smal"]}, UnknownName, "No suite is called 'smal'. Did you mean 'small'"),
        ({"n_envs": 0}, UsageError, "n_envs must be a whole number from 1 to 4096, found 0."),
        ({"n_envs": "2"}, UsageError, "found '2'."),
        ({"autoreset_mode": "never"}, ValueError, "never"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(options, kind, problem):
    with pytest.raises(kind) as caught:
        envs_of("hooks", **options)
    assert problem in str(caught.value)


def test_env_args_reach_the_env():
    [env] = envs_of("hooks", 2, tasks=["three"], env_args={"start": 2})["small"].values()
    with env:
        assert env.reset()[0].tolist() == [[2], [2]]


def test_an_env_arg_that_the_benchmark_does_not_take():
    [env] = envs_of("hooks", tasks=["three"], env_args={"speed": 2})["small"].values()
    with pytest.raises(WorkerRaised, match="unexpected keyword argument 'speed'"):
        env.reset()


# Processes


def test_a_thousand_tasks_start_no_process():
    envs = envs_of("vector_many", 2)
    assert sum(len(tasks) for tasks in envs.values()) == 1000
    assert processes() == []
    env = envs["all-of-them"]["task-7"]
    env.reset(seed=1)
    assert len(processes()) == 3 * env.num_envs  # with their two guards
    other = envs["all-of-them"]["task-999"]
    assert other.single_action_space.n == 2  # one env is enough to know
    assert len(processes()) == 3 * (env.num_envs + 1)
    envhub.close_envs(envs)
    assert processes() == []
    envhub.close_envs(envs)
    assert env.closed


def test_closed_envs_open_again_when_they_are_used():
    [env] = envs_of("published_plain", 2)["published_plain"].values()
    first, _ = env.reset(seed=3)
    for _ in range(2):
        env.close()
        env.close()
        assert env.closed
        assert processes() == []
        assert env.single_action_space.n == 2  # known: starts nothing
        assert processes() == []
        again, _ = env.reset(seed=3)
        assert not env.closed
        assert np.array_equal(again, first)
        assert len(processes()) == 6
    env.close()


def test_closing_what_was_never_used():
    [env] = envs_of("published_plain")["published_plain"].values()
    env.close()
    assert env.closed
    with env:
        assert env.reset(seed=1)[0].shape == (1, 4)
    assert env.closed


@pytest.mark.parametrize("use", [lambda env: env.single_action_space, lambda env: env.reset()])
def test_an_env_that_nobody_holds_ends_its_processes(use):
    [env] = envs_of("published_plain", 2)["published_plain"].values()
    use(env)
    assert processes() != []
    del env
    gc.collect()
    assert processes() == []


LEAVING = """
import atexit, sys, threading, time
from pathlib import Path
import gymnasium as gym

class Leaving(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 3
    def reset(self, *, seed=None, options=None):
        sys.stdout.reconfigure(line_buffering=False, write_through=False)
        sys.stdout.write("last words")
        atexit.register(Path(__file__).with_name("left").touch)
        threading.Thread(target=self.linger).start()
        return 0, {}

    def linger(self):
        threading.main_thread().join()
        time.sleep(0.2)
        Path(__file__).with_name("lingered").touch()

def make_env(n_envs=1, use_async_envs=False):
    return Leaving()
"""


def test_what_code_does_at_the_end_of_its_process_is_done(tmp_path):
    (tmp_path / "env.py").write_text(LEAVING)
    [[env]] = [tasks.values() for tasks in envhub.make_env(str(tmp_path)).values()]
    env.reset()
    log = env._pool.remotes[0].worker.log
    env.close()
    assert (tmp_path / "left").exists()
    assert (tmp_path / "lingered").exists()
    assert log.tail() == "last words"


def test_an_env_that_failed_leaves_no_process():
    [env] = envs_of("vector_breaks", 2)["any"].values()
    env.reset()
    with pytest.raises(WorkerError):
        env.step(("raises", "fine"))
    assert processes() == []
    assert env.step(("fine", "fine"))[0]["word"] == ("fine", "fine")  # started anew
    env.close()


def test_a_step_before_any_reset_is_the_envs_to_judge():
    [env] = envs_of("published_plain")["published_plain"].values()
    with env, pytest.raises(WorkerRaised, match="ResetNeeded"):
        env.step([0])


# The loop of published evaluations


def rollout(env, seeds):
    """As published evaluation code has it: one episode in each env, rows that ended are ignored."""
    observation, _ = env.reset(seed=seeds, options={"spread": 2})
    limit = env.call("_max_episode_steps")[0]
    told = {"tasks": list(env.call("task_description")), "frames": [], "actions": []}
    done = np.zeros(env.num_envs, bool)
    won = np.zeros(env.num_envs, bool)
    returns = np.zeros(env.num_envs)
    for _ in range(limit):
        told["frames"].append(np.stack(env.render()))
        action = np.clip(1 - observation["agent_pos"], -1, 1).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        if "final_info" in info:
            final = info["final_info"]
            assert isinstance(final, dict)
            won |= np.array(final["is_success"].tolist()) & info["_final_info"] & ~done
        returns += np.where(done, 0, reward)
        told["actions"].append(action)
        done |= terminated | truncated
        if done.all():
            break
    return {**told, "done": done, "won": won, "returns": returns, "last": observation}


@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_published_loop_runs_unchanged(n_envs):
    mode = AutoresetMode.SAME_STEP
    envs = envs_of("vector_published", n_envs, autoreset_mode=mode, use_async_envs=True)
    assert list(envs["reach"]) == ["0", "1"]
    theirs = SyncVectorEnv([lambda: Reach(1)] * n_envs, autoreset_mode=mode)
    seeds = list(range(100, 100 + n_envs))
    with envs["reach"]["0"] as env:
        assert env.unwrapped.metadata["render_fps"] == 20
        assert env.render_mode == "rgb_array"
        assert env.get_attr("goal") == (1,) * n_envs
        ours = rollout(env, seeds)
    np.testing.assert_equal(ours, rollout(theirs, seeds))
    assert ours["tasks"] == ["reach 1"] * n_envs
    assert ours["won"].all()


def test_wrappers_around_a_published_env():
    def wrapped(env):
        return vector.RecordEpisodeStatistics(
            vector.NormalizeObservation(vector.FlattenObservation(env))
        )

    ours = wrapped(envs_of("vector_published", 2)["reach"]["1"])
    theirs = wrapped(SyncVectorEnv([lambda: Reach(2)] * 2))
    for env in (ours, theirs):
        env.reset(seed=5)
        env.action_space.seed(5)
    for _ in range(60):
        ours_step, theirs_step = (env.step(env.action_space.sample()) for env in (ours, theirs))
        np.testing.assert_equal(ours_step[:4], theirs_step[:4])
    assert list(ours.length_queue) == list(theirs.length_queue) != []
    ours.close()


def test_a_published_file_whose_envs_live_in_processes_of_their_own():
    """Asked for what it lacks, Gymnasium's AsyncVectorEnv would end."""
    [env] = envs_of("async_vector", 2)["async_vector"].values()
    with env:
        first, _ = env.reset(seed=[1, 2])
        with pytest.raises(AttributeError, match="nothing"):
            env.call("nothing")
        env.set_attr("length", [0.6, 0.7])
        assert env.get_attr("length") == (0.6, 0.7)
        assert env.np_random_seed == (1, 2)
        assert env.call("_max_episode_steps") == (500, 500)
        assert env.step([0, 1])[1].tolist() == [1, 1]
        assert np.array_equal(env.reset(seed=[1, 2])[0], first)


# Wrappers and what is observed

TOP = ("top",)
BOTH = ["top", "wrist"]


@pytest.mark.parametrize(
    ("task", "selective", "drawn", "top", "wrist"),
    [
        ("bare", True, ["top"], 7, 0),
        ("knowing", True, ["top"], 8, 0),
        ("opaque", False, BOTH, 8, 0),
        ("unaware", False, BOTH, 7, 0),
    ],
)
def test_only_what_is_observed_is_drawn_where_all_know_of_it(task, selective, drawn, top, wrist):
    source = find_source(str(ASSETS / "vector_wrapped"))
    crew = WorkerPool(WorkerSpec(source, {}, Limits(), 1000), "any", task, 1)
    try:
        views = crew.open_all().observations
        [reset] = crew.ask_all(lambda _, remote: remote.reset(1, observe=TOP), WasReset)
        assert reset.info == {"drawn": drawn, "told": selective}
        assert (views["top"].max(), views["wrist"].max()) == (top, wrist)
        [step] = crew.ask_all(lambda _, remote: remote.step(observe=()), Stepped)
        assert step.info["drawn"] == ([] if selective else BOTH)
        [step] = crew.ask_all(lambda _, remote: remote.step(3, observe=TOP), Stepped)
        assert step.info["drawn"] == drawn
        [step] = crew.ask_all(lambda _, remote: remote.step(), Stepped)
        assert step.info["drawn"] == BOTH
        assert views["wrist"].min() == top
    finally:
        crew.close()


def test_the_wrapper_of_a_hook_is_applied():
    envs = envs_of("vector_wrapped", 2, tasks=["rewarded", "knowing", "bare"])["any"]
    with envs["rewarded"] as env:
        env.reset()
        assert env.step([0, 1])[1].tolist() == [10, 11]
    with envs["knowing"] as env:  # a vector environment observes everything
        observation, info = env.reset()
        assert observation["top"].max() == observation["wrist"].max() == 8
        assert info["drawn"].tolist() == [BOTH, BOTH]
        steps = [env.step([0, 1]) for _ in range(9)]  # its TimeLimit
        assert steps[-1][3].all()
    with envs["bare"] as env:
        env.reset()
        assert env.step([0, 1])[1].tolist() == [0, 1]


def test_envs_whose_spaces_differ_are_refused(tmp_path):
    (tmp_path / "env.py").write_text(
        "import os, gymnasium as gym\n"
        "from gymnasium import spaces\n"
        "class Odd(gym.Env):\n"
        "    action_space = spaces.Discrete(2)\n"
        "    observation_space = spaces.Discrete(os.getpid())\n"
        "    _max_episode_steps = 5\n"
        "def make_env(n_envs=1):\n"
        "    return Odd\n"
    )
    [tasks] = envhub.make_env(str(tmp_path), 2).values()
    [env] = tasks.values()
    with pytest.raises(WorkerError, match="its spaces differ from those of env 0"):
        env.reset()
    assert isinstance(env, LazyVectorEnv)


def test_an_env_without_metadata(tmp_path):
    (tmp_path / "env.py").write_text(
        "import gymnasium as gym\n"
        "def make_env():\n"
        "    env = gym.make('CartPole-v1').unwrapped\n"
        "    env.metadata = None\n"
        "    return env\n"
    )
    ((env,),) = [tasks.values() for tasks in envhub.make_env(str(tmp_path)).values()]
    with env:
        env.reset(seed=0)
        assert env.metadata.keys() == {"autoreset_mode"}
