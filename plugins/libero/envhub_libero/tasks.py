"""The suites of LIBERO: names, descriptions and horizons of their 130 tasks."""

import re
from pathlib import Path

from envhub import Task

INIT_STATES = 50
"""Each task has so many stored initial states."""

HORIZONS = {
    "libero_spatial": 280,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""Those of published evaluations: OpenVLA's, and LeRobot's after it."""

_SCENE = re.compile(r"[A-Z_]+_SCENE[0-9]+_")
"""The tasks of LIBERO-100 begin with their scene, which is not part of the instruction."""


def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    return {suite: tuple(_task(suite, name) for name in names) for suite, names in _names().items()}


def _task(suite: str, name: str) -> Task:
    description = _SCENE.sub("", name).replace("_", " ")
    return Task(name, description, HORIZONS[suite], init_states=INIT_STATES, args={"folder": suite})


def _names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {suite: [] for suite in HORIZONS}
    suite = ""
    text = Path(__file__).with_name("tasks.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            suite = line.strip("[]")
        elif not line.startswith("#"):
            names[suite].append(line)
    return names
