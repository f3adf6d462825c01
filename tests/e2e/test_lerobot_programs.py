"""Programs written for LeRobot's `make_env`, on envs that come from a Hub.

The programs use `make_env`, the vector environment and plain Python only, as LeRobot's documented
examples and its evaluation loop do.
"""

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
