"""Keys and pictures: what is sent, equal to what openpi's own loops send."""

import hashlib
import math

import numpy as np
import pytest
from envhub_servers.keys import PRESETS, Request, name_leaves, read_keys, read_targets
from envhub_servers.pictures import resize_with_pad, turn
from gymnasium import spaces

from envhub.errors import ContractError

LIBERO = spaces.Dict(
    {
        "pixels": spaces.Dict(
            {name: spaces.Box(0, 255, (8, 8, 3), np.uint8) for name in ("image", "image2")}
        ),
        "robot_state": spaces.Dict(
            {
                "eef": spaces.Dict(
                    {
                        "pos": spaces.Box(-9, 9, (3,), np.float64),
                        "quat": spaces.Box(-1, 1, (4,), np.float64),
                    }
                ),
                "gripper": spaces.Dict({"qpos": spaces.Box(-1, 1, (2,), np.float64)}),
            }
        ),
    }
)


def axis_angle_of_openpi(quaternion):
    """As examples/libero/main.py of openpi says: the axis is what the vector part is along."""
    w = np.clip(quaternion[3], -1.0, 1.0)
    length = np.sqrt(1.0 - w * w)
    return quaternion[:3] * 2.0 * math.acos(w) / length if length > 0 else np.zeros(3)


def test_the_preset_of_libero_sends_what_openpis_loop_sends():
    values = {
        "pixels/image": np.arange(192, dtype=np.uint8).reshape(8, 8, 3),
        "pixels/image2": np.arange(192, dtype=np.uint8).reshape(8, 8, 3)[::-1],
        "robot_state/eef/pos": np.array([0.1, 0.2, 0.3]),
        "robot_state/eef/quat": np.array([0.6, 0.0, 0.0, 0.8]),
        "robot_state/gripper/qpos": np.array([0.04, -0.04]),
    }
    entries = read_keys(PRESETS["libero"].keys)
    request = Request(entries, (8, 8), turned=True)
    request.check(LIBERO, "libero")
    assert request.needs == {*values}
    sent = request.of(values.__getitem__, "turn on the stove")
    angles = axis_angle_of_openpi(values["robot_state/eef/quat"])
    state = np.concatenate(
        (values["robot_state/eef/pos"], angles, values["robot_state/gripper/qpos"])
    )
    assert sent["prompt"] == "turn on the stove"
    assert (sent["observation/state"] == state).all()
    assert sent["observation/state"].dtype == np.float64
    for key, leaf in (("image", "pixels/image"), ("wrist_image", "pixels/image2")):
        assert (sent[f"observation/{key}"] == values[leaf][::-1, ::-1]).all()


@pytest.mark.parametrize(
    ("shape", "size", "digest"),
    [
        ((256, 256, 3), (224, 224), "a1ce26690e92ac09"),
        ((30, 50, 3), (224, 224), "fb6b59d713fb2db3"),
        ((50, 31, 3), (20, 24), "fa9ad41b58a3cbb7"),
        ((224, 224, 3), (224, 224), "5e35972ee234348f"),
    ],
)
def test_pictures_are_resized_as_by_openpi_client(shape, size, digest):
    """The digests are those of `image_tools.resize_with_pad` of openpi-client 0.1.2."""
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    resized = resize_with_pad(picture, *size)
    assert hashlib.sha256(resized.tobytes()).hexdigest()[:16] == digest
    assert (turn(turn(picture)) == picture).all()
    assert resize_with_pad(picture[..., :1], *size).shape == (*size, 1)


def test_keys_lead_into_maps_and_change_pictures():
    space = spaces.Dict({"top": spaces.Box(0, 255, (4, 6, 3), np.uint8)})
    entries = read_keys("top:chw=images[cam_high], instruction=task[text]")
    value = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    Request(entries).check(space, "aloha")
    sent = Request(entries).of(lambda _: value, "lift")
    assert (sent["images"]["cam_high"] == value.transpose(2, 0, 1)).all()
    assert sent["task"] == {"text": "lift"}
    assert read_targets(PRESETS["aloha"].keys) == ["images[cam_high]", "state"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must be one of libero, droid, roboarena, aloha"),
        ("liber", "must be one of"),
        ("pixels/image", "must be one of"),
        ("pixels/image=a,pixels/image2=a", "one of the server's keys twice"),
        ("pixels/image:upside=a", "known are axis_angle, chw"),
        ("pixels/front=a", "'pixels/front', which libero does not have. The keys are"),
        ("pixels/image:axis_angle=a", "quaternion of 4 numbers"),
        ("robot_state/eef/pos:chw=a", "that takes a picture"),
        ("pixels/image+robot_state/eef/pos=a", "only rows of numbers"),
        ("instruction+robot_state/eef/pos=a", "'instruction', which libero does not have"),
    ],
)
def test_keys_that_cannot_be_meant(text, problem):
    with pytest.raises(ContractError) as caught:
        Request(read_keys(text)).check(LIBERO, "libero")
    assert problem in str(caught.value)


def test_both_lists_are_in_the_error():
    with pytest.raises(ContractError) as caught:
        Request(read_keys(PRESETS["droid"].keys)).check(LIBERO, "libero")
    assert "pixels/wrist_image_left=observation/wrist_image_left" in str(caught.value)
    assert "robot_state/gripper/qpos, instruction" in str(caught.value)


def test_an_observation_that_is_a_single_array_has_a_name():
    single = spaces.Box(-1, 1, (2,), np.float32)
    entries = read_keys("observation=observation,instruction=prompt")
    request = Request(name_leaves(entries, single))
    request.check(single, "walk")
    assert request.needs == {""}
    state = np.array([0.1, 0.4], np.float32)
    sent = request.of({"": state}.__getitem__, "walk near")
    assert sent["observation"] is state
    named = spaces.Dict({"observation": single})
    request = Request(name_leaves(entries, named))
    request.check(named, "walk")
    assert request.needs == {"observation"}
    with pytest.raises(ContractError, match="the benchmark has observation, instruction"):
        Request(name_leaves(read_keys("state=state"), single)).check(single, "walk")
