"""Checkpoints that are made once for all tests, in LeRobot's environment, and runs with them."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envhub
from support.needs import lerobot_python
from support.paths import ASSETS, TESTS

WALK = f"{ASSETS}/lerobot_walk"
PATIENT = envhub.Limits(start=600, act=600)
"""Importing LeRobot takes 16 s on a free machine."""


def made_once(factory: pytest.TempPathFactory, script: str, *arguments: object) -> Path:
    """Run a script of `support/` in LeRobot's environment, once for all processes that run tests.

    Args:
        factory: Of temporary directories.
        script: It is given the directory, and writes `answer.json` there at its end.
        arguments: Further ones.

    Returns:
        The directory.
    """
    top = factory.getbasetemp()
    parent = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top
    name = "-".join((Path(script).stem, *(Path(str(each)).name for each in arguments)))
    place = parent / name
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "answer.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            command = [lerobot_python(), TESTS / "support" / script, place, *arguments]
            plugin = TESTS.parent / "plugins/lerobot"
            paths = os.pathsep.join(map(str, (TESTS.parent, plugin, TESTS)))
            variables = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
            subprocess.run(command, env=variables, check=True, capture_output=True)
    return place


def evaluate(checkpoint: Path | str, out: Path, ref: str = WALK, **more: Any) -> envhub.Run:
    """Evaluate a checkpoint in LeRobot's environment."""
    return envhub.evaluate(
        ref,
        f"lerobot:{checkpoint}",
        out=out,
        policy_python=lerobot_python(),
        limits=PATIENT,
        **{"episodes": 6, "seeding": "shared", **more},
    )


def actions(run: envhub.Run) -> list[bytes]:
    """The actions of all episodes, in the order of the plan."""
    names = sorted((run.directory / "actions").glob("*.npy"), key=lambda path: int(path.stem))
    return [np.load(path).tobytes() for path in names]


def lerobots_own(file: Path) -> list[bytes]:
    """The actions of LeRobot's own loop, which `lerobot_cases.py` has kept."""
    with np.load(file) as own:
        return [own[key].tobytes() for key in own.files]
