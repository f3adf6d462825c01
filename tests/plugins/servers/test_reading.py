"""What a request to `envhub serve` holds: presets, joined and turned values, texts."""

import numpy as np
import pytest
from envhub_servers.reading import make_reading

from envhub.errors import UsageError
from envhub.wire.spaces import Leaf

PICTURE = Leaf("observation.images.image", np.dtype(np.uint8), (4, 6, 3))
WRIST = Leaf("observation.images.image2", np.dtype(np.uint8), (4, 6, 3))
STATE = Leaf("observation.state", np.dtype(np.float32), (8,))
LIBERO = (PICTURE, WRIST, STATE)


def test_clients_for_libero_are_served_in_each_protocol():
    assert make_reading("libero", LIBERO, "openpi").keys == [
        "observation/image",
        "observation/wrist_image",
        "observation/state",
        "prompt",
    ]
    assert make_reading("libero", LIBERO, "vla-eval").keys == [
        "images[agentview]",
        "images[wrist]",
        "states",
        "task_description",
    ]
    assert make_reading(None, LIBERO, "vla-eval").keys == [
        "images[image]",
        "images[image2]",
        "states",
        "task_description",
    ]


def test_joined_and_turned_values_are_taken_apart():
    position, gripper = Leaf("pos", np.dtype(np.float64), (3,)), Leaf("grip", np.dtype("f8"), (2,))
    camera = Leaf("cam", np.dtype(np.uint8), (4, 6, 3))
    text = Leaf("note", None, ())
    keys = "pos+grip=state,cam:chw=images[top],note=note,instruction=task"
    reading = make_reading(keys, (position, gripper, camera, text), "openpi")
    memory = {
        "pos": np.zeros((1, 3)),
        "grip": np.zeros((1, 2)),
        "cam": np.zeros((1, 4, 6, 3), np.uint8),
    }
    picture = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    request = {
        "state": np.arange(5.0),
        "images": {"top": picture.transpose(2, 0, 1)},
        "note": "wet",
        "task": "lift",
    }
    assert reading.fill(request, memory) == {"note": "wet"}
    assert reading.instruction(request) == "lift"
    assert memory["pos"].tolist() == [[0, 1, 2]]
    assert memory["grip"].tolist() == [[3, 4]]
    assert (memory["cam"][0] == picture).all()


@pytest.mark.parametrize(
    "keys",
    ["observation.state=state", "observation.images.image:axis_angle=a", "other=a", "aloha"],
)
def test_keys_that_do_not_hold_what_the_policy_reads(keys):
    with pytest.raises(UsageError, match="--keys must hold what the policy reads, and no more"):
        make_reading(keys, LIBERO, "openpi")
