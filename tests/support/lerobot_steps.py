"""Run in an environment with LeRobot: print its registered processor steps and their fields.

python lerobot_steps.py
"""

import importlib
import inspect
import json
from pathlib import Path

import lerobot
import lerobot.processor
from lerobot.processor.pipeline import ProcessorStepRegistry

POLICIES = ("evo1", "fastwam", "pi0", "pi05", "smolvla", "vla_jepa", "wall_x", "xvla")
"""Those that have steps of their own in EnvHub's list; some are of later versions."""


def main() -> dict[str, list[str]]:
    for name in POLICIES:
        if (Path(lerobot.__file__).parent / f"policies/{name}/processor_{name}.py").exists():
            importlib.import_module(f"lerobot.policies.{name}.processor_{name}")
    names = sorted(ProcessorStepRegistry.list())
    steps = {name: ProcessorStepRegistry.get(name) for name in names}
    return {name: sorted(inspect.signature(step).parameters) for name, step in steps.items()}


if __name__ == "__main__":
    print(json.dumps(main()))
