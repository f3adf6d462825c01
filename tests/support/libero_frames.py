"""Frames of LIBERO's own loop, in any version of MuJoCo, to compare the plugin's frames with.

    python tests/support/libero_frames.py ASSETS DIRECTORY [TASK ...]

draws the first frames after settling, of seed 0 and initial state 0, in the interpreter that runs
it. It needs the packages of the plugin's lock, with any MuJoCo, and nothing of EnvHub.
`tests/assets/libero_frames` was drawn with MuJoCo 3.2.3. A file there has the means of the frames'
blocks, and each suite has a picture. Frames are upright: turned by 180 degrees, as policies of
LeRobot's format see them.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from support.libero_loops import CAMERAS, SETTLING, import_own, own_files, own_init_states
from support.paths import ASSETS

SUITES = {
    "libero_spatial": "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_"
    "and_place_it_on_the_plate",
    "libero_object": "pick_up_the_alphabet_soup_and_place_it_in_the_basket",
    "libero_goal": "open_the_middle_drawer_of_the_cabinet",
    "libero_10": "LIVING_ROOM_SCENE2_put_both_the_alphabet_soup_and_the_tomato_sauce_in_the_basket",
    "libero_90": "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_front_compartment_of_the_caddy",
}
"""A task of each suite. They have four of the five scene files that LIBERO's tasks use."""
SCENES = (
    "KITCHEN_SCENE1_open_the_bottom_drawer_of_the_cabinet",
    "KITCHEN_SCENE2_open_the_top_drawer_of_the_cabinet",
    "KITCHEN_SCENE3_put_the_frying_pan_on_the_stove",
    "KITCHEN_SCENE4_close_the_bottom_drawer_of_the_cabinet",
    "KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet",
    "KITCHEN_SCENE6_close_the_microwave",
    "KITCHEN_SCENE7_open_the_microwave",
    "KITCHEN_SCENE8_put_the_right_moka_pot_on_the_stove",
    "KITCHEN_SCENE9_put_the_frying_pan_on_the_cabinet_shelf",
    "KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet",
    "LIVING_ROOM_SCENE1_pick_up_the_alphabet_soup_and_put_it_in_the_basket",
    "LIVING_ROOM_SCENE2_pick_up_the_alphabet_soup_and_put_it_in_the_basket",
    "LIVING_ROOM_SCENE3_pick_up_the_alphabet_soup_and_put_it_in_the_tray",
    "LIVING_ROOM_SCENE4_pick_up_the_black_bowl_on_the_left_and_put_it_in_the_tray",
    "LIVING_ROOM_SCENE5_put_the_red_mug_on_the_left_plate",
    "LIVING_ROOM_SCENE6_put_the_chocolate_pudding_to_the_left_of_the_plate",
    "STUDY_SCENE2_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy",
    "STUDY_SCENE3_pick_up_the_book_and_place_it_in_the_front_compartment_of_the_caddy",
    "STUDY_SCENE4_pick_up_the_book_in_the_middle_and_place_it_on_the_cabinet_shelf",
)
"""A task of each of the other 19 scenes of libero_90; the kitchen's have the fifth scene file."""
TASKS = {task: suite for suite, task in SUITES.items()} | dict.fromkeys(SCENES, "libero_90")
SIZE = 256
NAMES = ("image", "image2")
"""The names of the cameras' frames in the plugin."""
REFERENCES = ASSETS / "libero_frames"
BLOCKS = 16
"""A frame is compared as 16 x 16 blocks."""


def block_means(frame: Any) -> Any:
    """The mean colours of a frame's blocks."""
    side = frame.shape[0] // BLOCKS
    blocks = frame.reshape(BLOCKS, side, BLOCKS, side, 3).mean((1, 3), dtype=np.float64)
    return blocks.astype(np.float16)


class Looker:
    """A policy that keeps the first frames it is shown, as LeRobot's policies see them."""

    format = "lerobot"

    def __init__(self) -> None:
        self.seen: dict[str, list[Any]] = {}

    def act(self, obs: Any, episodes: Any) -> Any:
        for row, episode in enumerate(episodes):
            frames = [np.asarray(obs[f"observation.images.{name}"][row]) for name in NAMES]
            self.seen.setdefault(episode.task, [frame.transpose(1, 2, 0) * 255 for frame in frames])
        return np.zeros((len(episodes), 7), np.float32)


def differences(frames: dict[str, list[Any]]) -> dict[str, list[float]]:
    """How much each task's frames differ from the references, in levels, on average by camera."""
    with np.load(REFERENCES / "means.npz") as means:
        return {
            task: [
                float(np.abs(block_means(frame) - mean.astype(np.float64)).mean())
                for frame, mean in zip(shown, means[task], strict=True)
            ]
            for task, shown in frames.items()
        }


def own_frames(task: str, make: Any) -> list[Any]:
    """The upright frames of both cameras after settling, in LIBERO's own loop."""
    bddl, states = own_files(TASKS[task], task)
    env = make(
        bddl_file_name=bddl,
        camera_heights=SIZE,
        camera_widths=SIZE,
        camera_names=list(CAMERAS),
    )
    env.seed(0)
    env.reset()
    env.set_init_state(own_init_states(states)[0])
    for _ in range(SETTLING):
        seen, *_ = env.step([0, 0, 0, 0, 0, 0, -1])
    env.close()
    return [np.ascontiguousarray(np.rot90(seen[f"{camera}_image"], 2)) for camera in CAMERAS]


def draw(assets: str, directory: Path, tasks: list[str]) -> None:
    """Draw the frames of tasks, and keep them in files."""
    from PIL import Image

    make, means = import_own(assets), {}
    for task in tasks:
        frames = own_frames(task, make)
        means[task] = np.stack([block_means(frame) for frame in frames])
        print(task, [frame.mean((0, 1)).round(1).tolist() for frame in frames], flush=True)
        if SUITES[TASKS[task]] == task:
            picture = Image.fromarray(np.concatenate(frames, axis=1))
            picture.save(directory / f"{TASKS[task]}.jpg", quality=85)
    np.savez_compressed(directory / "means.npz", **means)


if __name__ == "__main__":
    draw(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(TASKS))
