import json
from copy import deepcopy

import numpy as np
import pytest
from assets.vector_spaces.env import make
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_spaces import trees

from envhub.envs.crew import Opening
from envhub.envs.vector import LazyVectorEnv
from envhub.references import find_source
from envhub.types import Limits

MODES = list(AutoresetMode)
EVERY_KIND = [
    "pairs",
    [
        ["text", ["text", 0, 9, "zyx ä漢"]],
        ["image", ["box", "|u1", [4, 5, 3], 0, 255]],
        ["point", ["box", "<f4", [], -1, 1]],
        ["flags", ["box", "|b1", [2], 0, 1]],
        ["nested", ["dict", [["b", ["multi_discrete", "<i4", [3, 2], [0, 1]]], ["a", ["tuple", [
            ["discrete", "<i8", 5, -2], ["multi_binary", [2, 2]], ["text", 1, 3, "01"],
        ]]]]]],
        ["half", ["box", "<f2", [3], [-1, -2, 0], [1, 2, 4]]],
    ],
]  # fmt: skip
JOINTS = ["box", "<f4", [3], -1, 1]


@pytest.fixture
def pair(assets):
    """A vector environment of ours, and Gymnasium's of the same envs."""
    made = []

    def open_both(observation, action=JOINTS, n_envs=2, mode=MODES[0], *, copy=True):
        spec = json.dumps({"observation": observation, "action": action})
        source = find_source(str(assets / "vector_spaces"))
        opening = Opening(source, "any", "sample", {"spec": spec}, Limits(), 1000)
        ours = LazyVectorEnv(opening, n_envs, autoreset_mode=mode, copy=copy)
        made.append(ours)
        theirs = SyncVectorEnv([lambda: make(None, spec)] * n_envs, copy, autoreset_mode=mode)
        return ours, theirs

    yield open_both
    for env in made:
        env.close()


def alike(ours, theirs):
    """Equal in value, type, dtype and structure."""
    if isinstance(theirs, str):  # numpy's text crosses as plain text
        assert ours == theirs
        return
    assert type(ours) is type(theirs)
    match theirs:
        case dict():
            assert ours.keys() == theirs.keys()
            for key in theirs:
                alike(ours[key], theirs[key])
        case list() | tuple():
            assert len(ours) == len(theirs)
            for mine, its in zip(ours, theirs, strict=True):
                alike(mine, its)
        case np.ndarray():
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if theirs.dtype == object:
                alike(ours.tolist(), theirs.tolist())
            else:
                np.testing.assert_array_equal(ours, theirs)
        case _:
            np.testing.assert_equal(ours, theirs)


def orders(value):
    """The keys of an observation, in their order."""
    match value:
        case dict():
            return [(key, orders(part)) for key, part in value.items()]
        case tuple():
            return [orders(part) for part in value]
    return None


def drive(ours, theirs, steps, seed):
    """Take the same steps and resets with both, and compare what comes back."""
    rng = np.random.default_rng(seed)
    theirs.action_space.seed(seed)
    first = ours.reset(seed=seed), theirs.reset(seed=seed)
    alike(*first)
    assert orders(first[0][0]) == orders(first[1][0])
    ended = np.zeros(ours.num_envs, bool)
    finals = 0
    for _ in range(steps):
        actions = theirs.action_space.sample()
        expected = theirs.step(actions)
        alike(ours.step(actions), expected)
        finals += "final_obs" in expected[4]
        ended = expected[2] | expected[3]
        disabled = theirs.autoreset_mode is AutoresetMode.DISABLED
        if (disabled and ended.any()) or rng.random() < 0.1:
            mask = (rng.random(ours.num_envs) < 0.4) | ended
            options = {"level": [1, "a"], "target": rng.random(2), "reset_mask": mask}
            seeds = [int(rng.integers(99)) if rng.random() < 0.5 else None for _ in mask]
            if not mask.any():
                del options["reset_mask"]
            alike(
                ours.reset(seed=seeds, options=deepcopy(options)),
                theirs.reset(seed=seeds, options=deepcopy(options)),
            )
    return finals


# The same as Gymnasium's


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_step_is_as_gymnasiums(mode, n_envs, pair):
    ours, theirs = pair(EVERY_KIND, EVERY_KIND, n_envs, mode)
    finals = drive(ours, theirs, 60, seed=3)
    assert (finals > 0) == (mode is AutoresetMode.SAME_STEP)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    observation=trees(),
    action=trees(),
    mode=st.sampled_from(MODES),
    n_envs=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)
def test_every_step_is_as_gymnasiums_for_any_spaces(observation, action, mode, n_envs, seed, pair):
    ours, theirs = pair(observation, action, n_envs, mode)
    with ours:
        drive(ours, theirs, 30, seed)
