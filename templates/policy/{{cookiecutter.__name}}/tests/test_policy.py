"""The policy alone, without a simulator."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from policy import PixelPolicy

from envhub import Context


def frame(**places: tuple[int, int]) -> np.ndarray:
    picture = np.full((96, 96, 3), 220, np.uint8)
    colors = {"puck": (215, 60, 50), "goal": (50, 165, 75), "tip": (50, 90, 205)}
    for name, (row, column) in places.items():
        picture[row - 3 : row + 4, column - 3 : column + 4] = colors[name]
    return picture


def act(picture: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(0)
    episode = Context("sides", "push-right", "push", 0, 0, 0, generator, {})
    return PixelPolicy().act({"pixels": picture[None]}, [episode])[0]


def test_it_pushes_when_it_is_behind_the_puck() -> None:
    action = act(frame(tip=(48, 30), puck=(48, 40), goal=(48, 80)))
    assert action[0] > 0.5
    assert abs(action[1]) < 0.1


def test_it_goes_round_the_puck_first() -> None:
    action = act(frame(tip=(48, 52), puck=(48, 40), goal=(48, 80)))
    assert abs(action[1]) > 0.5
