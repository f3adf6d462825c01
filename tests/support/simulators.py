"""The env files of `docs/benchmarks.md`, evaluated on a machine without a display."""

import os
from pathlib import Path

import pytest

import envhub
from envhub.results.run import Run
from support.paths import DOCS

SIMULATORS = DOCS / "examples" / "simulators"


def evaluate(name: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Evaluate two short episodes of each task, with no variable set."""
    for variable in list(os.environ):
        if variable.startswith(("MUJOCO_", "PYOPENGL_", "SDL_", "DISPLAY", "WAYLAND_")):
            monkeypatch.delenv(variable)
    return envhub.evaluate(str(SIMULATORS / name), episodes=2, max_steps=10, workers=1, out=out)


def check(run: Run) -> None:
    """Every episode was played, in a runtime."""
    assert run.info["runtime"]["kind"] == "isolated"
    records = run.records()
    assert [(record.status, record.error) for record in records] == [("ok", None)] * len(records)
    assert all(record.steps for record in records)
