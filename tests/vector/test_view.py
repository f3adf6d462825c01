"""`env.envs[i]`: one env of a vector environment, which steps and resets alone."""

import copy

import numpy as np
import pytest
from support.paths import ASSETS

import envhub


@pytest.fixture
def vector():
    [env] = envhub.make_env(str(ASSETS / "told_after_reset"), 2)["told_after_reset"].values()
    with env:
        yield env


def test_one_env_alone(vector):
    vector.reset(seed=[1, 2])
    first, second = vector.envs
    observation, info = second.reset(seed=5)
    assert observation["observation.state"].tolist() == [0, 0]
    assert info == {}
    assert first.observation_space == vector.single_observation_space
    observation, reward, terminated, truncated, info = second.step(second.action_space.sample())
    assert observation["observation.state"].tolist() == [1, 1]
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"is_success": False})
    assert second.render().tolist() == observation["observation.images.top"].tolist()
    batch, _, terminated, *_ = vector.step(np.zeros((2, 2), np.float32))
    assert batch["observation.state"][:, 0].tolist() == [1, 2]
    assert first.unwrapped.metadata["render_fps"] == 5
    assert first.render_mode == "rgb_array"


def test_attributes_are_those_of_the_env(vector):
    vector.reset(seed=[1, 2])
    texts = [env.task_description for env in vector.envs]
    assert texts == list(vector.call("task_description"))
    assert [env._max_episode_steps for env in vector.envs] == [5, 5]
    assert vector.envs[1].color in texts[1]
    assert not hasattr(vector.envs[0], "nothing")
    assert vector.reset()[0]["observation.state"].shape == (2, 2)  # the workers are still there
    copied = copy.copy(vector.envs[0])
    assert copied.count == 0


def test_one_env_is_truncated_at_the_horizon():
    envs = envhub.make_env(str(ASSETS / "many_tasks"), 1)
    env = envs["count"]["2"].envs[0]
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    env.close()
    assert envs["count"]["2"].closed
