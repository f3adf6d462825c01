"""A replay is the recorded episode, bit by bit, whatever the env is."""

import numpy as np
import pytest
from support.forgery import load_arrays, save_arrays
from support.replays import copy_recorded, drawn, make_recorded, states

import envhub
from envhub.errors import ContractError, RunDirectoryError
from envhub.evaluation.replay import first_difference
from envhub.results.arrays import STEP


@pytest.mark.parametrize(
    ("file", "workers"), [("env.py", 1), ("env.py", 2), ("env.py", 0), ("rebuilt.py", 1)]
)
def test_every_state_reward_and_flag_is_the_recorded_one(tmp_path, file, workers):
    """Success rules, stored initial states, a wrapper, and envs that last for one episode."""
    (tmp_path / "log").mkdir()
    run = make_recorded(tmp_path / "run", file, log=tmp_path / "log", workers=workers, episodes=2)
    assert len(run.records()) in (6, 8)
    for record in run.records()[:: 2 if workers == 1 else 3]:
        frames = []
        replay = envhub.replay(run, record.task, record.episode, on_frame=frames.append)
        assert (replay.identical, replay.difference, replay.path) == (True, None, None)
        again, kept = replay.record, replay.recorded
        assert kept == record
        for name in ("success", "success_step", "end", "return_", "steps", "trace", "seed"):
            assert getattr(again, name) == getattr(record, name)
        first, second = states(tmp_path / "log", record)
        assert first == second
        assert len(first.split()) == len(frames) == replay.frames == record.steps + 1
        shown = [
            np.r_[frame[0, :, 0], frame[0, 0, 1]].astype(np.uint8).tobytes() for frame in frames
        ]
        assert [float(np.frombuffer(each)[0]).hex() for each in shown] == first.split()
        assert drawn(tmp_path / "log", record)[1] == 0, "what the policy saw is not drawn again"
        assert drawn(tmp_path / "log", record)[0] > 0


def test_fewer_frames(made, tmp_path):
    run = copy_recorded(made, tmp_path / "run")
    frames = []
    replay = envhub.replay(run, "at-end", 0, every=4, on_frame=frames.append)
    assert replay.identical
    assert len(frames) == replay.frames == 4  # after the reset, and after 4, 8 and 9 steps


def test_an_episode_that_goes_differently(made, tmp_path):
    run = copy_recorded(made, tmp_path / "run")
    actions, steps = load_arrays(tmp_path / "run", 0)
    actions[3] = -actions[3]
    save_arrays(tmp_path / "run", 0, actions, steps)
    replay = envhub.replay(run, "at-end", 0, on_frame=lambda _: None)
    assert (replay.identical, replay.difference) == (False, 4)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        (np.zeros((9, 2), np.float32), "it is another env's"),
        (np.zeros((9, 1), np.float64), "it is another env's"),
        (np.zeros((0, 1), np.float32), "has no actions of this episode"),
        (np.array(["a"] * 9), "not actions"),
        (None, "has no actions of this episode"),
    ],
)
def test_actions_that_cannot_be_taken(made, tmp_path, actions, said):
    run = copy_recorded(made, tmp_path / "run")
    path = tmp_path / "run" / "actions" / "0.npy"
    path.unlink()
    if actions is not None:
        np.save(path, actions)
    with pytest.raises(RunDirectoryError, match=said):
        envhub.replay(run, "at-end", 0, on_frame=lambda _: None)


@pytest.mark.parametrize(
    ("picture", "said"), [("none", "returned a NoneType, not a picture"), ("raises", "no light")]
)
def test_envs_that_draw_no_picture(tmp_path, picture, said):
    run = make_recorded(tmp_path / "run", tasks="once", episodes=1, env_args={"picture": picture})
    with pytest.raises(ContractError, match=said):
        envhub.replay(run, "once", 0, on_frame=lambda _: None)


def test_the_first_difference():
    one = np.zeros(3, STEP)
    other = one.copy()
    assert first_difference(one, other) is None
    other["success"][2] = -1
    assert first_difference(one, other) == 3
    other["reward"][1] = 1e-300
    assert first_difference(one, other) == 2
    assert first_difference(one, one[:2]) == 3
    assert first_difference(None, one) is None
