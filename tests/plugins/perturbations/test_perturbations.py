"""EnvHub's own perturbations: on the example that numpy draws, and on Meta-World's physics."""

import importlib.util

import envhub_perturbations
import numpy as np
import pytest
from envhub_perturbations.words import paraphrases
from support.needs import needs_metaworld
from support.paths import DOCS

import envhub
from envhub import Task
from envhub.discovery import installed_perturbations
from envhub.errors import ContractError
from envhub.plugins import Plugins
from envhub.worker.perturbed import LoadedPerturbations

TASK = Task("reach-red", "Move the point to the red goal.", 60)
WEAK_AND_STRONG = {
    "action": (0.1, 0.5),
    "blur": (0.02, 0.06),
    "instruction": (0.1, 1.0),
    "noise": (0.02, 0.2),
    "occlusion": (0.05, 0.3),
}


def table():
    place = DOCS / "examples" / "reach" / "table.py"
    spec = importlib.util.spec_from_file_location("reach_table", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Table(0.3, 64)


def episode(name=None, strength=0.0, index=0):
    """What an episode of three steps shows and says."""
    env = table()
    told = TASK.description
    if name is not None:
        env = LoadedPerturbations(Plugins(), {name: strength}).wrap(env, TASK)
        env.index = index
    observation, _ = env.reset(seed=4)
    if name is not None:
        told = env.instruction(told)
    shown = [observation]
    for _ in range(3):
        observation, *_ = env.step(np.array([0.5, -0.5], np.float32))
        shown.append(observation)
    return told, [
        (each["pixels"].tobytes(), each["agent_pos"].tobytes(), each["pixels"].dtype)
        for each in shown
    ]


def test_all_of_the_plugin_are_declared_and_found():
    declared = {each.name for each in envhub_perturbations.envhub_perturbations()}
    found = {each.name for each in installed_perturbations()}
    assert declared == {*WEAK_AND_STRONG, "camera", "light"} <= found


@pytest.mark.parametrize("name", WEAK_AND_STRONG)
def test_a_strength_repeats_and_another_differs(name):
    plain = episode()
    weak, strong = ([episode(name, s, i) for i in range(6)] for s in WEAK_AND_STRONG[name])
    assert weak == [episode(name, WEAK_AND_STRONG[name][0], i) for i in range(6)]
    assert plain not in weak
    assert weak != strong
    if name != "blur":  # the others draw in each episode
        assert len({str(each) for each in strong}) > 1
    if name in ("noise", "blur", "occlusion"):  # only what is seen
        assert all(a[1:] == b[1:] for a, b in zip(plain[1], weak[0][1], strict=True))
    assert (plain[0] != weak[0][0]) == (name == "instruction")


def test_occlusion_covers_its_share_and_stays():
    env = LoadedPerturbations(Plugins(), {"occlusion": 0.25}).wrap(table(), TASK)
    first, _ = env.reset(seed=1)
    later, *_ = env.step(np.zeros(2, np.float32))
    for observation in (first, later):
        grey = (observation["pixels"] == 128).all(axis=-1)
        assert grey.sum() == 32 * 32
    assert ((first["pixels"] == 128) == (later["pixels"] == 128)).all()


def test_actions_stay_in_range_and_need_one():
    env = LoadedPerturbations(Plugins(), {"action": 1.0}).wrap(table(), TASK)
    given = []
    env.env.step = lambda action: given.append(action) or ({}, 0.0, False, False, {})
    env.observing = ()
    env.reset(seed=1)
    for _ in range(50):
        env.step(np.array([1.0, -1.0], np.float32))
    assert np.abs(given).max() == 1.0
    assert np.std(given) > 0.3
    assert {action.dtype.name for action in given} == {"float32"}
    env.env.action_space = envhub_space = type(env.action_space)(-np.inf, np.inf, (2,))
    assert envhub_space.high.max() == np.inf
    with pytest.raises(ContractError, match="needs actions that are numbers in a range"):
        env.reset(seed=1)


def test_paraphrases_begin_near_and_end_far():
    found = paraphrases("Pick up the wrench and put it on the peg.")
    assert found[0] == "please pick up the wrench and put it on the peg"
    assert found[-1] == "the robot should grab the wrench and place it on the peg"
    assert len(set(found)) == len(found) == 17
    assert len(paraphrases("Twist.")) == 8


@needs_metaworld
def test_camera_and_light_change_no_physics_of_metaworld(tmp_path):
    """And, as the expert reads no picture, nothing else: to the bit, and without OpenGL."""
    runs = {
        name: envhub.evaluate(
            "metaworld", "expert", tasks=["drawer-close-v3"], episodes=2, workers=1,
            perturb=perturb, out=tmp_path / name,
        )
        for name, perturb in (("none", None), ("moved", {"camera": 0.3, "light": 0.9}))
    }  # fmt: skip
    facts = [
        [(r.trace, r.end_state, r.first_observation, r.success) for r in run.records()]
        for run in runs.values()
    ]
    assert facts[0] == facts[1]
    assert all(state is not None for _, state, *_ in facts[0])
