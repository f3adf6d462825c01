"""What checkpoints read, and benchmarks have; `test_lerobot.py` has the rest, with LeRobot."""

from types import SimpleNamespace

import numpy as np
import pytest
from envhub_lerobot.features import compare
from gymnasium import spaces

from envhub.errors import ContractError

SPACE = spaces.Dict(
    {
        "pixels": spaces.Dict({"image": spaces.Box(0, 255, (32, 32, 3), np.uint8)}),
        "agent_pos": spaces.Box(-1, 1, (4,), np.float32),
    }
)


def config(cameras, **more):
    shapes = {"observation.state": (4,), **{f"observation.images.{c}": s for c, s in cameras}}
    inputs = {name: SimpleNamespace(shape=shape) for name, shape in shapes.items()}
    return SimpleNamespace(input_features=inputs, **more)


def test_cameras_that_lerobot_fills_in_are_not_looked_for():
    """SmolVLA and pi0 save them among their inputs."""
    cameras = [("image", (3, 32, 32)), ("empty_camera_0", (3, 480, 640))]
    inputs = compare(config(cameras, empty_cameras=1), SPACE, {}, "walk")
    assert set(inputs.names.values()) == {"observation.images.image", "observation.state"}
    with pytest.raises(ContractError, match=r"observation.images.empty_camera_0 is missing"):
        compare(config(cameras), SPACE, {}, "walk")
