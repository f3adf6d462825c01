"""Move objects in the simulator's state until the goal of a task holds, and take a step.

    python tests/support/libero_goals.py ASSETS < [[folder, task], ...]

Prints a line per task: its name, the kinds of its predicates, what the step before said, what the
last step said.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from envhub_libero.env import make
from envhub_libero.tasks import suites

STILL = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
HEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, -0.02)
STEPS = 6


def reach(folder: str, name: str, assets: str) -> list[Any]:
    (task,) = (task for task in suites()[folder] if task.name == name)
    env = make(task, assets=assets, size=16)
    env.observing = frozenset()
    env.reset(seed=0, options={"init_state": 0})
    before = env.step(STILL)
    problem = env._simulator._env.env
    goals = problem.parsed_problem["goal_state"]
    after = before
    for height in HEIGHTS:
        for _ in range(STEPS):
            if after[4]["is_success"]:
                break
            for goal in goals:
                establish(problem, goal, height)
            problem.sim.forward()
            after = env.step(STILL)
    env.close()
    kinds = sorted({goal[0].lower() for goal in goals})
    return [name, kinds, outcome(before), outcome(after)]


def outcome(step: Any) -> list[bool]:
    _, reward, terminated, truncated, info = step
    return [reward == 1.0, terminated, truncated, info["is_success"]]


def establish(problem: Any, goal: list[str], height: float) -> None:
    """Make one predicate hold, unless it does."""
    if problem._eval_predicate(goal):
        return
    if len(goal) == 2:
        for value in joint_values(problem, goal[1]):
            problem.object_states_dict[goal[1]].set_joint(value)
            problem.sim.forward()
            if problem._eval_predicate(goal):
                return
    else:
        moved, target = goal[1:]
        place = np.array(problem.object_states_dict[target].get_geom_state()["pos"])
        joint = problem.get_object(moved).joints[-1]
        pose = np.array(problem.sim.data.get_joint_qpos(joint))
        pose[:3] = place + np.array([0, 0, height])
        problem.sim.data.set_joint_qpos(joint, pose)
        problem.sim.data.set_joint_qvel(joint, np.zeros(6))


def joint_values(problem: Any, name: str) -> Iterator[float]:
    """The positions that the joints of an object can have."""
    owner = problem.object_sites_dict.get(name) or problem.get_object(name)
    model = problem.sim.model
    ranges = [model.jnt_range[model.joint_name2id(joint)] for joint in owner.joints]
    for low, high in ranges:
        yield from np.linspace(low - 0.01, high + 0.01, 25)


if __name__ == "__main__":
    for folder, name in json.load(sys.stdin):
        print(json.dumps(reach(folder, name, sys.argv[1])), flush=True)
