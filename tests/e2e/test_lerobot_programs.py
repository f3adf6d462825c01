"""Programs written for LeRobot's `make_env`, on envs that come from a Hub.

The programs use `make_env`, the vector environment and plain Python only, as LeRobot's documented
examples and its evaluation loop do.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from support.needs import needs_sandbox, needs_torch
from support.paths import ASSETS, DOCS

import envhub
from envhub import close_envs, make_env

COLORS = ("red", "green", "blue")
TEXTS = {f"Pick up the {color} cube." for color in COLORS}

pytestmark = needs_sandbox


@pytest.fixture
def publish(local_hub, monkeypatch, tmp_path):
    """Puts a directory on the Hub, and returns its pinned reference."""
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))

    def publish(directory):
        name = f"user/{directory.name}"
        local_hub.create(name)
        files = {path.name: path.read_bytes() for path in directory.glob("*.py")}
        return f"{name}@{local_hub.commit(name, files)}:env.py"

    return publish


def rollout(env, policy, seeds=None):
    """One batch of episodes, as `lerobot-eval` plays it."""
    observation, info = env.reset(seed=seeds, options={"lerobot_new_rollout": True})
    done = np.array([False] * env.num_envs)
    max_steps = env.call("_max_episode_steps")[0]
    fps = env.unwrapped.metadata.get("render_fps", 30)
    rewards, successes, tasks, frames = [], [], [], []
    step = 0
    while not np.all(done) and step < max_steps:
        try:
            observation["task"] = list(env.call("task_description"))
        except (AttributeError, NotImplementedError):
            observation["task"] = list(env.call("task"))
        tasks.append(observation["task"])
        action = policy(observation)
        assert action.ndim == 2
        observation, reward, terminated, truncated, info = env.step(action)
        frames.append(np.stack(env.call("render")[: env.num_envs]))
        if "final_info" in info:
            final = info["final_info"]
            reported = final.get("is_success", [False] * env.num_envs)
        else:
            reported = info.get("is_success", np.zeros(env.num_envs, bool))
        successes.append(reported.tolist() if hasattr(reported, "tolist") else list(reported))
        rewards.append(reward)
        done = terminated | truncated | done
        if step + 1 == max_steps:
            done = np.ones_like(done, dtype=bool)
        step += 1
    return {
        "reward": np.stack(rewards, axis=1),
        "success": np.any(np.array(successes), axis=0).tolist(),
        "task": tasks[0],
        "frames": np.stack(frames, axis=1),
        "fps": fps,
    }


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_evaluation_loop(publish, mode):
    ref = publish(ASSETS / "told_after_reset")
    envs = make_env(ref, n_envs=2, trust_remote_code=True, autoreset_mode=mode)
    results = {}
    for group, tasks in envs.items():
        for task_id, env in tasks.items():
            shape = env.single_action_space.shape

            def policy(observation, shape=shape, env=env):
                assert set(observation["task"]) <= TEXTS
                return np.zeros((env.num_envs, *shape), np.float32)

            batches = [rollout(env, policy, seeds=[start, start + 1]) for start in (0, 2)]
            results[group, task_id] = batches
    close_envs(envs)
    [batches] = results.values()
    assert [batch["success"] for batch in batches] == [[True, True]] * 2
    assert [batch["reward"].tolist() for batch in batches] == [[[1.0] * 3] * 2] * 2
    assert batches[0]["frames"].shape == (2, 3, 4, 6, 3)
    assert batches[0]["fps"] == 5
    assert {text for batch in batches for text in batch["task"]} <= TEXTS


def test_the_loop_of_the_first_pages(publish):
    ref = publish(ASSETS / "told_after_reset")
    envs_dict = make_env(ref, n_envs=2, use_async_envs=True, trust_remote_code=True)
    suite_name = next(iter(envs_dict))
    env = envs_dict[suite_name][0]
    obs, _ = env.reset()
    assert obs["observation.state"].shape == (2, 2)
    done = np.zeros(env.num_envs, dtype=bool)
    total_reward = np.zeros(env.num_envs)
    while not done.all():
        action = env.action_space.sample()
        _, reward, terminated, truncated, _ = env.step(action)
        total_reward += reward
        done = terminated | truncated
    assert total_reward.tolist() == [3.0, 3.0]
    env.close()


def test_the_loop_over_a_single_env(publish):
    ref = publish(ASSETS / "told_after_reset")
    envs_dict = make_env(ref, n_envs=1, trust_remote_code=True)
    env = envs_dict[next(iter(envs_dict))][0].envs[0].unwrapped
    env.reset()
    for _ in range(2):
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            ended = terminated or truncated
        assert info["is_success"]
        obs, _ = env.reset()
        assert obs["observation.state"].tolist() == [0, 0]
    env.close()


def test_tasks_by_number(publish):
    envs = make_env(publish(ASSETS / "mapping"), trust_remote_code=True)
    goals = {suite: [envs[suite][number].call("goal")[0] for number in (0, 1)] for suite in envs}
    close_envs(envs)
    assert goals == {"near": [3, 5], "far": [30, 50]}
    with pytest.raises(KeyError):
        envs["near"][2]


def test_a_declared_benchmark_offers_the_same(publish):
    envs = make_env(publish(DOCS / "examples" / "reach"), n_envs=2, trust_remote_code=True)
    env = envs["near"][0]
    env.reset(seed=0)
    assert env.call("task_description") == ("move the point to the red goal",) * 2
    assert env.get_attr("task") == ("reach-red",) * 2
    assert env.call("_max_episode_steps") == (60, 60)
    still = np.zeros((2, *env.single_action_space.shape), env.single_action_space.dtype)
    ends = [env.step(still)[2:4] for _ in range(60)]
    assert not any(terminated.any() for terminated, _ in ends)
    assert [truncated.tolist() for _, truncated in ends] == [[False] * 2] * 59 + [[True] * 2]
    close_envs(envs)


def stored(task="once", n_envs=2, **options):
    """The envs of a benchmark with stored initial states."""
    return make_env(ASSETS / "stored_states", n_envs, tasks=task, **options)["any"][task]


def still(env):
    return np.zeros((env.num_envs, 2), np.float32)


def states_of(env, **options):
    return env.reset(**options)[0]["agent_pos"][:, 0].tolist()


def test_stored_states_are_counted_per_env_and_can_be_set():
    with stored() as env:
        assert [states_of(env, seed=5) for _ in range(3)] == [[0, 1], [2, 0], [1, 2]]
        assert env.get_attr("init_state_id") == (6, 7)
        env.set_attr("init_state_id", [1, 1])
        assert states_of(env) == [1, 1]
        assert states_of(env, options={"init_state": 2}) == [2, 2]
        assert [env.envs[1].reset()[0]["agent_pos"][0], env.envs[1].init_state_id] == [0, 5]
        with pytest.raises(ValueError, match="init_state_id must be a whole number"):
            env.set_attr("init_state_id", [0, 1.5])
        ends = [env.step(still(env)) for _ in range(4)]
        assert ends[2][2].tolist() == [True, True]
        assert ends[3][0]["agent_pos"][:, 0].tolist() == [0, 2]  # states 3 and 5 of 3
    with stored("ever") as env:
        assert states_of(env) == [-1, -1]
        with pytest.raises(AttributeError, match="no stored initial states"):
            env.set_attr("init_state_id", [0, 1])
        assert states_of(env) == [-1, -1]


def test_the_first_success_ends_an_episode_as_in_eval(tmp_path):
    ends = {}
    for task, options in (("once", {}), ("once", {"end_at_success": False}), ("ever", {})):
        with stored(task, **options) as env:
            env.reset()
            steps = [env.step(still(env)) for _ in range(9)]
            ends[task, *options] = [bool(terminated[0]) for _, _, terminated, *_ in steps]
            successes = [info["is_success"].tolist() for *_, info in steps[:3]]
            assert successes == [[False, False], [False, False], [True, True]]
            assert [info["success"].tolist() for *_, info in steps[:3]] == successes
    assert ends["once",] == [False, False, True, False] * 2 + [False]
    assert ends["once", "end_at_success"] == ends["ever",] == [False] * 9
    run = envhub.evaluate(
        ASSETS / "stored_states", "zero", tasks="once", episodes=3, workers=1, out=tmp_path / "run"
    )
    assert [record.steps for record in run.records()] == [3, 3, 3]


def test_a_horizon_that_is_given_or_set():
    with stored("ever", max_steps=4) as env:
        env.reset()
        assert env.call("_max_episode_steps") == (4, 4)
        assert [env.step(still(env))[3].tolist() for _ in range(4)][2:] == [[False] * 2, [True] * 2]
        env.set_attr("_max_episode_steps", [2, 6])
        env.reset()
        assert env.call("_max_episode_steps") == (2, 6)
        assert env.envs[0]._max_episode_steps == 2
        assert [env.step(still(env))[3].tolist() for _ in range(2)][1] == [True, False]
        with pytest.raises(ValueError, match="_max_episode_steps must be a whole number from 1 to"):
            env.set_attr("_max_episode_steps", 0)
    with pytest.raises(envhub.UsageError, match="max_steps must be a whole number from 1 to"):
        stored(max_steps=0)


def test_what_nobody_reads_is_not_drawn():
    with stored(needs=["agent_pos", "parts/b"]) as env:
        assert list(env.single_observation_space) == ["agent_pos", "parts"]
        observation, _ = env.reset()
        observation = [observation, *(env.step(still(env))[0] for _ in range(2))][-1]
        assert observation.keys() == {"agent_pos", "parts"}
        assert observation["parts"].keys() == {"b"}
        assert observation["agent_pos"][:, 2].tolist() == [0, 0]
        assert env.observation_space.contains(observation)
    with stored(needs="parts") as env:
        assert env.reset()[0]["parts"]["a"].tolist() == [1, 1]
    with pytest.raises(envhub.UsageError, match="No part of the observation is called 'pixel'"):
        stored(needs=["pixel"])


def test_observations_as_the_benchmark_converts_them():
    with stored(format="lerobot") as env:
        observation, _ = env.reset()
        assert observation.keys() == {"observation.images.top", "observation.state"}
        assert observation["observation.images.top"][:, -1, 0].tolist() == [[1] * 3] * 2
        assert env.step(still(env))[0]["observation.state"].tolist() == [[0, 1, 2], [1, 1, 2]]
        assert env.single_observation_space["observation.state"].shape == (3,)
    with pytest.raises(envhub.UsageError, match="leave it or format out"):
        stored(format="lerobot", needs=["agent_pos"])


def test_a_config_of_lerobots_is_the_reference_and_the_files_cfg(publish, tmp_path):
    class Kind(Enum):
        BIG = "big"

    @dataclass
    class HubEnv:
        hub_path: str
        kind: Kind = Kind.BIG
        sizes: tuple[int, ...] = (3, 4)

    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "env.py").write_text(
        "import gymnasium as gym\n"
        "def make_env(**kwargs):\n"
        "    cfg = kwargs['cfg']\n"
        "    env = gym.make('CartPole-v1', max_episode_steps=cfg.sizes[1])\n"
        "    env.unwrapped.task_description = cfg['kind']\n"
        "    return env\n"
    )
    ref, cache = publish(tmp_path / "asks"), tmp_path / "cache"
    envs = make_env(HubEnv(ref), 1, False, str(cache), trust_remote_code=True)
    env = envs["asks"][0]
    assert env.call("_max_episode_steps") == (4,)
    assert env.call("task_description") == ("big",)
    close_envs(envs)
    assert [path.name for path in (cache / "sources").iterdir()] == ["user--asks"]
    assert not (tmp_path / "home" / "sources").exists()
    envs = make_env(ref, cfg={"kind": "own", "sizes": [0, 7]}, trust_remote_code=True)
    assert envs["asks"][0].call("_max_episode_steps") == (7,)
    close_envs(envs)


def test_an_env_without_a_horizon_says_how_to_give_one(tmp_path):
    (tmp_path / "env.py").write_text(
        "import gymnasium as gym\n"
        "def make_env(n_envs=1):\n"
        "    return gym.make('CartPole-v1').unwrapped\n"
    )
    [[env]] = [tasks.values() for tasks in make_env(tmp_path).values()]
    with env, pytest.raises(AttributeError, match=r"has no horizon: give make_env\(max_steps"):
        env.call("_max_episode_steps")
    [[env]] = [tasks.values() for tasks in make_env(tmp_path, max_steps=5).values()]
    with env:
        assert env.call("_max_episode_steps") == (5,)


def test_instructions_that_replace_the_benchmarks():
    with stored("ever", instructions={"ever": "Run.", "once": "Stop."}) as env:
        env.reset()
        assert env.call("task_description") == ("Run.", "Run.")
        assert env.envs[1].task_description == "Run."
    with pytest.raises(envhub.UsageError, match="No task is called 'eve'"):
        stored(instructions={"eve": "Run."})
    with pytest.raises(envhub.UsageError, match="'ever' must be one text"):
        stored(instructions={"ever": ["Run.", "Go."]})


def test_an_unknown_suite_names_those_there_are():
    with pytest.raises(envhub.UsageError) as caught:
        make_env(DOCS / "examples" / "reach", suites="nea")
    assert str(caught.value) == (
        "No suite is called 'nea'. Did you mean 'near'? The suites are near, far, all."
    )


@pytest.mark.parametrize(
    ("reference", "options"),
    [
        ("user/told_after_reset@{commit}", {}),
        ("user/told_after_reset", {}),
        ("user/told_after_reset@main", {"trust_remote_code": True}),
    ],
)
def test_nothing_runs_without_consent_or_a_pin(publish, reference, options):
    commit = publish(ASSETS / "told_after_reset").partition("@")[2].partition(":")[0]
    with pytest.raises(RuntimeError, match="Refusing to execute remote code"):
        make_env(reference.format(commit=commit), **options)


class Reader:
    """A policy that takes LeRobot's names."""

    format = "lerobot"

    def __init__(self):
        self.seen = []

    def act(self, obs, episodes):
        self.seen.append(obs)
        return np.zeros((len(episodes), 2), np.float32)


@needs_torch
def test_names_that_are_lerobots_already_are_kept(publish, tmp_path):
    policy = Reader()
    ref = publish(ASSETS / "told_after_reset")
    run = envhub.evaluate(
        ref, policy, trust_remote_code=True, episodes=1, workers=1, out=tmp_path / "run"
    )
    assert [record.status for record in run.records()] == ["ok"]
    for step, obs in enumerate(policy.seen):
        assert set(obs) == {"observation.state", "observation.images.top", "task"}
        assert obs["observation.state"].tolist() == [[step, step]]
        image = obs["observation.images.top"]
        assert tuple(image.shape) == (1, 3, 4, 6)
        assert abs(float(image.max()) - 0.2 * step) < 1e-6
        assert obs["task"][0] in TEXTS
