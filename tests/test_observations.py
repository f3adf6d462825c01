import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector.utils import batch_space
from hypothesis import assume, given
from hypothesis import strategies as st
from support.needs import needs_torch

from envhub import observations
from envhub.errors import ContractError, InvalidObservation
from envhub.observations import Feature, features, to_lerobot

IMAGES = "uint8 of shape ([rows,] height, width, channels) with 1, 3 or 4 channels"


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    observations._torch.cache_clear()
    yield
    observations._torch.cache_clear()


def frames(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def vectors(*shape, dtype=np.float64):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def image_space(height=6, width=5, channels=3):
    return Box(0, 255, (height, width, channels), np.uint8)


def find(batch, name):
    """The value of a feature in a batch, which may be nested where the name has dots."""
    if name in batch:
        return batch[name]
    for key, value in batch.items():
        if name.startswith(key + ".") and isinstance(value, dict):
            return find(value, name.removeprefix(key + "."))
    raise KeyError(name)


# Names


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"pixels": frames(2, 6, 5, 3)}, {"observation.image"}),
        (
            {"pixels": {"image": frames(2, 6, 5, 3), "image2": frames(2, 4, 4, 1)}},
            {"observation.images.image", "observation.images.image2"},
        ),
        ({"agent_pos": vectors(2, 7)}, {"observation.state"}),
        ({"state": vectors(2, 7)}, {"observation.state"}),
        ({"environment_state": vectors(2, 16)}, {"observation.environment_state"}),
        ({"robot_state": {"eef": {"pos": vectors(2, 3)}}}, {"observation.robot_state"}),
        ({"robot_state": vectors(2, 3)}, {"observation.robot_state"}),
        ({"policy": vectors(2, 9)}, {"observation.state"}),
        ({"policy": {"joints": vectors(2, 9)}}, {"observation.state"}),
        (
            {"policy": {"actions": vectors(2, 4), "robot_joint_pos": vectors(2, 9)}},
            {"observation.state", "observation.policy"},
        ),
        ({"policy": {"a": vectors(2, 4), "b": vectors(2, 9)}}, {"observation.policy"}),
        (
            {"camera_obs": {"pov_cam_rgb": frames(2, 6, 5, 3), "wrist": frames(2, 6, 5, 3)}},
            {"observation.images.pov_cam", "observation.images.wrist"},
        ),
        ({"pixels": {"pov_rgb": frames(2, 6, 5, 3)}}, {"observation.images.pov_rgb"}),
        ({"image": frames(2, 6, 5, 3)}, {"observation.image"}),
        ({"images": {"front": frames(2, 6, 5, 3)}}, {"observation.images.front"}),
        ({"goal": vectors(2, 3)}, {"observation.goal"}),
        ({"mission": ("go", "stay")}, {"observation.mission"}),
        (vectors(2, 4), {"observation.state"}),
        (frames(2, 6, 5, 3), {"observation.image"}),
    ],
)
def test_names(raw, names):
    assert to_lerobot(raw, ["push", "pull"]).keys() == names | {"task"}


def test_the_parts_of_a_robot_state_stay_nested():
    pos, qpos = vectors(2, 3), vectors(2, 2)
    batch = to_lerobot({"robot_state": {"eef": {"pos": pos}, "gripper": {"qpos": qpos}}}, ["", ""])
    state = batch["observation.robot_state"]
    np.testing.assert_array_equal(state["eef"]["pos"], pos)
    np.testing.assert_array_equal(state["gripper"]["qpos"], qpos)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("front", "observation.images.front"),
        ("robot_state/wrist_rgb", "observation.images.robot_state.wrist_rgb"),
        ("sensor_data/base/rgb", "observation.images.sensor_data.base.rgb"),
        ("observation.front", "observation.front"),
    ],
)
def test_pictures_are_images_under_any_name(path, name):
    raw, space = frames(2, 5, 6, 3), Box(0, 255, (5, 6, 3), np.uint8)
    for key in reversed(path.split("/")):
        raw, space = {key: raw}, Dict({key: space})
    batch = to_lerobot(raw, ["", ""])
    assert batch[name].shape == (2, 3, 5, 6)
    assert float(batch[name].max()) <= 1
    assert features(space) == (Feature(name, path, (3, 5, 6), "image"),)


def test_what_only_resembles_a_picture_is_none():
    raw = {
        "mask": frames(2, 5, 6, 1),
        "depth": np.zeros((2, 5, 6, 3), np.uint16),
        "colors": frames(2, 6, 3),
        "video": frames(2, 4, 5, 6, 3),
    }
    batch = to_lerobot(raw, ["", ""])
    assert {name: batch[f"observation.{name}"].shape for name in raw} == {
        name: value.shape for name, value in raw.items()
    }


def test_isaaclab_joints_are_the_state_and_the_rest_is_kept():
    raw = {"policy": {"actions": vectors(2, 4), "robot_joint_pos": vectors(2, 9)}}
    batch = to_lerobot(raw, ["", ""])
    np.testing.assert_array_equal(batch["observation.state"], vectors(2, 9))
    assert batch["observation.policy"].keys() == {"actions"}


def test_the_descriptions_are_the_task():
    assert to_lerobot({"agent_pos": vectors(2, 7)}, ("push", "pull"))["task"] == ["push", "pull"]


def test_text_is_a_list_of_rows():
    assert to_lerobot({"mission": ("go", "stay")}, ["", ""])["observation.mission"] == [
        "go",
        "stay",
    ]
    assert to_lerobot({"mission": "go"}, [""])["observation.mission"] == ["go"]


# Layout and dtype


def test_images_become_channels_first_in_zero_to_one():
    raw = frames(2, 6, 5, 3)
    image = np.asarray(to_lerobot({"pixels": raw}, ["", ""])["observation.image"])
    assert (image.dtype, image.shape, image.flags.c_contiguous) == (np.float32, (2, 3, 6, 5), True)
    for row, channel in np.ndindex(2, 3):
        expected = raw[row, :, :, channel].astype(np.float32) / np.float32(255)
        np.testing.assert_array_equal(image[row, channel], expected)


def test_an_image_goes_there_and_back_for_every_value():
    raw = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    image = np.asarray(to_lerobot({"pixels": raw}, [""])["observation.image"])
    assert (image.min(), image.max()) == (0.0, 1.0)
    np.testing.assert_array_equal((image * 255).round().astype(np.uint8), raw.reshape(1, 1, 16, 16))


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float16, np.float32, np.float64])
def test_numbers_become_float32(dtype):
    state = to_lerobot({"agent_pos": vectors(2, 3, dtype=dtype)}, ["", ""])["observation.state"]
    assert np.asarray(state).dtype == np.float32
    np.testing.assert_array_equal(state, vectors(2, 3, dtype=dtype).astype(np.float32))


@pytest.mark.parametrize(
    ("value", "rows", "shape"),
    [
        (vectors(7), 1, (1, 7)),
        (vectors(1), 1, (1, 1)),
        (np.float64(3), 1, (1, 1)),
        (3.5, 1, (1, 1)),
        (vectors(4), 4, (4, 1)),
        (vectors(4, 7), 4, (4, 7)),
        (vectors(1, 3, 3), 1, (1, 3, 3)),
        (vectors(0, 7), 0, (0, 7)),
    ],
)
def test_a_missing_batch_dimension_is_added(value, rows, shape):
    batch = to_lerobot({"agent_pos": value}, [""] * rows)
    assert tuple(batch["observation.state"].shape) == shape


def test_batched_and_unbatched_leaves_may_mix():
    batch = to_lerobot({"pixels": frames(6, 5, 3), "agent_pos": vectors(1, 7)}, [""])
    assert tuple(batch["observation.image"].shape) == (1, 3, 6, 5)
    assert tuple(batch["observation.state"].shape) == (1, 7)


@pytest.mark.parametrize("writeable", [True, False])
def test_the_batch_shares_no_memory_with_the_observation(writeable):
    raw = {"agent_pos": np.ones((2, 3), np.float32), "pixels": np.full((2, 6, 5, 3), 255, np.uint8)}
    for array in raw.values():
        array.flags.writeable = writeable
    batch = to_lerobot(raw, ["", ""])
    for array in raw.values():
        array.flags.writeable = True
        array[:] = 0
    arrays = [np.asarray(value) for name, value in batch.items() if name != "task"]
    assert len(arrays) == 2
    assert all(array.all() for array in arrays)


def test_flipped_views_are_taken():
    raw = frames(2, 6, 5, 3)[:, ::-1, ::-1]
    built_in = to_lerobot({"pixels": raw}, ["", ""])["observation.image"]
    np.testing.assert_array_equal(built_in, np.moveaxis(raw, 3, 1).astype(np.float32) / 255)


# Errors


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (
            {"pixels": vectors(2, 6, 5, 3, dtype=np.float32)},
            "pixels",
            f"found float32 of shape (2, 6, 5, 3); expected {IMAGES}.",
        ),
        (
            {"pixels": {"front": frames(2, 3, 64, 64)}},
            "pixels/front",
            f"shape (2, 3, 64, 64), which has its channels first; expected {IMAGES}.",
        ),
        ({"pixels": frames(3, 64, 64)}, "pixels", "(3, 64, 64), which has its channels first"),
        ({"pixels": frames(64, 64)}, "pixels", "found uint8 of shape (64, 64); expected"),
        ({"pixels": frames(2, 4, 6, 5, 3)}, "pixels", "found uint8 of shape (2, 4, 6, 5, 3);"),
        ({"camera_obs": {"a": frames(2, 6, 5, 2)}}, "camera_obs/a", "of shape (2, 6, 5, 2);"),
        (frames(2, 4, 84, 84), "observation", "(2, 4, 84, 84), which has its channels first"),
        (
            {"agent_pos": np.array([None, {}])},
            "agent_pos",
            "found ndarray of object; expected an array of numbers or booleans.",
        ),
        ({"agent_pos": None}, "agent_pos", "found ndarray of object"),
        ({"agent_pos": "left"}, "agent_pos", "found ndarray of <U4"),
        ({"pixels": "left"}, "pixels", "found ndarray of <U4"),
        ({"blob": b"left"}, "blob", "found ndarray of |S4"),
        ({"agent_pos": [0.0, 1.0]}, "agent_pos", "found a list; expected an array."),
        ((vectors(2), vectors(2)), "observation", "found a tuple; expected an array."),
        (None, "observation", "found ndarray of object"),
        ({}, "observation", "found an empty mapping; expected at least one array."),
        ({"pixels": {}}, "observation", "found an empty mapping"),
        (
            {"pixels": frames(2, 6, 5, 3), "agent_pos": vectors(3, 7)},
            "agent_pos",
            "found a batch of size 3; expected 2, one row per description.",
        ),
        (
            {"robot_state": {"eef": {"pos": vectors(3, 7)}}, "agent_pos": vectors(2, 7)},
            "robot_state/eef/pos",
            "found a batch of size 3; expected 2",
        ),
        ({"pixels": frames(6, 5, 3), "agent_pos": vectors(2, 7)}, "pixels", "batch of size 1;"),
        ({"agent_pos": vectors(2, 7), "robot_state": vectors(3, 3)}, "robot_state", "of size 3;"),
        (
            {"agent_pos": vectors(3, 7), "environment_state": vectors(3, 7)},
            "task",
            "found 2 descriptions and a batch of size 3; expected one description per row.",
        ),
        (vectors(4), "task", "found 2 descriptions and a batch of size 1;"),
        ({"mission": ("a", "b", "c")}, "task", "found 2 descriptions and a batch of size 3;"),
        (
            {"agent_pos": vectors(2, 7), "policy": vectors(2, 9)},
            "policy",
            "found 'agent_pos', which is called 'observation.state' as well; expected one part",
        ),
        ({"agent_pos": vectors(2, 7), "state": {"a": vectors(2, 1)}}, "state/a", "'agent_pos'"),
        (
            {"camera_obs": {"a": frames(2, 6, 5, 3), "a_rgb": frames(2, 6, 5, 3)}},
            "camera_obs/a_rgb",
            "found 'camera_obs/a', which is called 'observation.images.a' as well",
        ),
    ],
)
def test_what_does_not_fit_is_named(raw, path, message):
    with pytest.raises(InvalidObservation) as caught:
        to_lerobot(raw, ["push", "pull"])
    assert caught.value.path == path
    assert str(caught.value).startswith(f"Observation {path!r}: ")
    assert message in str(caught.value)
    assert isinstance(caught.value, ContractError)


# Observations by LeRobot's names, as a benchmark's own conversion gives them


def test_lerobots_names_are_kept_and_images_converted():
    raw = {
        "observation.images.wrist": frames(2, 6, 5, 3),
        "observation.image": frames(2, 4, 4, 1),
        "observation.state": vectors(2, 8),
        "observation.environment_state": vectors(2, 3),
        "observation.extra": vectors(2, 2),
    }
    batch = to_lerobot(raw, ["push", "pull"])
    assert {name: tuple(np.shape(value)) for name, value in batch.items() if name != "task"} == {
        "observation.images.wrist": (2, 3, 6, 5),
        "observation.image": (2, 1, 4, 4),
        "observation.state": (2, 8),
        "observation.environment_state": (2, 3),
        "observation.extra": (2, 2),
    }
    assert batch["task"] == ["push", "pull"]
    np.testing.assert_array_equal(
        batch["observation.images.wrist"],
        np.moveaxis(raw["observation.images.wrist"], 3, 1).astype(np.float32) / 255,
    )


def test_an_image_by_lerobots_name_has_the_layout_of_images():
    with pytest.raises(InvalidObservation, match=r"channels first"):
        to_lerobot({"observation.images.wrist": frames(2, 3, 60, 50)}, ["", ""])


# The table of features


def test_the_table_of_a_benchmark():
    space = Dict(
        {
            "pixels": Dict({"image": image_space(), "image2": image_space(8, 8, 1)}),
            "robot_state": Dict({"eef": Dict({"mat": Box(-1, 1, (3, 3))})}),
            "agent_pos": Box(-1, 1, (7,)),
            "environment_state": Box(-1, 1, (16,), np.float64),
            "phase": Discrete(4),
            "mission": Text(20),
        }
    )
    assert set(features(space)) == {
        Feature("observation.images.image", "pixels/image", (3, 6, 5), "image"),
        Feature("observation.images.image2", "pixels/image2", (1, 8, 8), "image"),
        Feature("observation.robot_state.eef.mat", "robot_state/eef/mat", (3, 3), "robot_state"),
        Feature("observation.state", "agent_pos", (7,), "state"),
        Feature("observation.environment_state", "environment_state", (16,), "environment_state"),
        Feature("observation.phase", "phase", (1,), "other"),
        Feature("observation.mission", "mission", (), "text"),
    }


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(-1, 1, (4,)), Feature("observation.state", "", (4,), "state")),
        (Discrete(16), Feature("observation.state", "", (1,), "state")),
        (image_space(), Feature("observation.image", "", (3, 6, 5), "image")),
        (Box(0, 255, (6, 5), np.uint8), Feature("observation.state", "", (6, 5), "state")),
    ],
)
def test_a_bare_space_has_one_feature(space, expected):
    assert features(space) == (expected,)


@pytest.mark.parametrize(
    ("space", "path", "message"),
    [
        (Dict({"pixels": Box(0, 1, (6, 5, 3))}), "pixels", "found float32 of shape (6, 5, 3);"),
        (Dict({"pixels": Box(0, 255, (2, 6, 5, 3), np.uint8)}), "pixels", "shape (2, 6, 5, 3);"),
        (Tuple([Discrete(3), Discrete(2)]), "observation", "found Tuple; expected an array"),
        (Dict({"hand": Tuple([Discrete(3)])}), "hand", "found Tuple; expected an array"),
        (Text(3), "observation", "found Text of <U0; expected an array of numbers"),
        (Dict({}), "observation", "found an empty mapping"),
        (Dict({"agent_pos": Discrete(3), "policy": Discrete(3)}), "policy", "found 'agent_pos'"),
    ],
)
def test_a_space_that_cannot_be_converted_is_named(space, path, message):
    with pytest.raises(InvalidObservation) as caught:
        features(space)
    assert caught.value.path == path
    assert message in str(caught.value)


sizes = st.integers(1, 9)
images = st.builds(image_space, st.integers(2, 9), sizes, st.sampled_from([1, 3, 4]))
numbers = st.one_of(
    st.builds(
        lambda shape, dtype: Box(-1, 1, tuple(shape), dtype),
        st.lists(sizes, max_size=2),
        st.sampled_from([np.float32, np.float64, np.int8]),
    ),
    st.builds(Discrete, sizes),
    st.builds(MultiBinary, sizes),
    st.builds(lambda counts: MultiDiscrete(counts), st.lists(sizes, min_size=1, max_size=3)),
)
names = st.text("abc_", min_size=1, max_size=3)
parts = st.fixed_dictionaries(
    {"agent_pos": numbers},
    optional={
        "pixels": images | st.dictionaries(names, images, min_size=1, max_size=2).map(Dict),
        "robot_state": st.recursive(
            numbers, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=2).map(Dict)
        ),
        "environment_state": numbers,
        "camera": numbers,
        "mission": st.builds(Text, sizes),
    },
)
spaces = numbers | images | parts.map(Dict)


@given(space=spaces, rows=st.integers(1, 5))
def test_the_table_says_what_a_batch_becomes(space, rows):
    batch = to_lerobot(batch_space(space, rows).sample(), [""] * rows)
    table = features(space)
    assert len({feature.name for feature in table}) == len(table)
    for feature in table:
        value = find(batch, feature.name)
        if feature.kind == "text":
            assert len(value) == rows
        else:
            assert tuple(value.shape) == (rows, *feature.shape)
            assert np.asarray(value).dtype == np.float32


@given(space=images | parts.map(Dict))
def test_one_env_is_a_batch_of_one(space):
    table = features(space)
    # A matrix without its batch dimension looks like a batch of vectors.
    assume(all(feature.kind == "image" or len(feature.shape) < 2 for feature in table))
    batch = to_lerobot(space.sample(), ["push"])
    for feature in table:
        value = find(batch, feature.name)
        assert feature.kind == "text" or tuple(value.shape) == (1, *feature.shape)


def test_a_vector_env_of_gymnasium():
    envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    raw, _ = envs.reset(seed=0)
    batch = to_lerobot(raw, ["balance"] * 3)
    (feature,) = features(envs.single_observation_space)
    envs.close()
    np.testing.assert_array_equal(batch[feature.name], raw)


# Torch


def test_importing_the_module_does_not_import_torch():
    code = "import sys, envhub.observations; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.usefixtures("without_torch")
def test_without_torch_there_are_numpy_arrays():
    raw = {"pixels": frames(2, 6, 5, 3), "robot_state": {"eef": vectors(2, 3)}}
    batch = to_lerobot(raw, ["", ""])
    image, state, task = batch.values()
    assert type(image) is type(state["eef"]) is np.ndarray
    assert task == ["", ""]


@needs_torch
def test_with_torch_there_are_tensors_with_the_bits_of_lerobot():
    import torch

    raw = {"pixels": frames(4, 32, 48, 3), "robot_state": {"eef": vectors(4, 3)}}
    batch = to_lerobot(raw, [""] * 4)
    image, state = batch["observation.image"], batch["observation.robot_state"]["eef"]
    expected = torch.from_numpy(raw["pixels"]).permute(0, 3, 1, 2).contiguous().float()
    expected /= 255
    assert torch.equal(image, expected)
    assert image.is_contiguous()
    assert torch.equal(state, torch.from_numpy(raw["robot_state"]["eef"]).float())


@needs_torch
def test_observations_may_be_tensors_already():
    import torch

    raw = {"policy": torch.ones(2, 9, requires_grad=True), "camera_obs": torch.zeros(2, 6, 5, 3)}
    raw["camera_obs"] = raw["camera_obs"].to(torch.uint8)
    batch = to_lerobot(raw, ["", ""])
    assert batch["observation.state"].shape == (2, 9)
    assert batch["observation.image"].shape == (2, 3, 6, 5)
