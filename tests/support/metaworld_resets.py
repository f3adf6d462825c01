"""What differs in Meta-World's simulators when they are reset by the plugin and by themselves.

python tests/metaworld_resets.py SEEDS [TASK ...]

Prints a line for each array that differs, bit by bit, after a reset or after steps of the expert.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from envhub_metaworld.simulator import build, import_metaworld, reset_simulator

STEPS = 20
SCRATCH = re.compile("efc_|.*island|.*timer")
"""What MuJoCo writes within a step and reads in no later one; in part never written at all."""


def arrays(simulator: Any) -> Iterator[tuple[str, Any]]:
    """All numbers that a simulator holds, those of MuJoCo included."""
    for owner in (simulator.data, simulator.model):
        for name in dir(owner):
            if name.startswith("_") or SCRATCH.match(name):
                continue
            if isinstance(value := getattr(owner, name), np.ndarray):
                yield f"{type(owner).__name__}.{name}", value
    for name, value in vars(simulator).items():
        if isinstance(value, np.ndarray | float | int):
            yield name, value


def differing(mine: Any, own: Any) -> set[str]:
    theirs = dict(arrays(own))
    return {name for name, value in arrays(mine) if not _same(value, theirs[name])}


def compare(name: str, seeds: int) -> set[str]:
    from metaworld.policies import ENV_POLICY_MAP

    mine, own, found = build(name), build(name), set[str]()
    for seed in range(seeds):
        for simulator in (mine, own):
            simulator.seed(seed)
        state, other = reset_simulator(mine)[0], own.reset()[0]
        found |= differing(mine, own) | ({"state"} if not _same(state, other) else set())
        expert = ENV_POLICY_MAP[name]()
        for _ in range(STEPS):
            action = expert.get_action(state)
            (state, *outcome), (other, *theirs) = mine.step(action), own.step(action)
            if not _same(state, other) or outcome != theirs:
                found.add("steps")
        found |= differing(mine, own)
    return found


def _same(one: Any, other: Any) -> bool:
    return bool(np.asarray(one).tobytes() == np.asarray(other).tobytes())


if __name__ == "__main__":
    names = sys.argv[2:] or list(import_metaworld().ALL_V3_ENVIRONMENTS)
    for task in names:
        for what in sorted(compare(task, int(sys.argv[1]))):
            print(task, what)
    print("compared", len(names))
