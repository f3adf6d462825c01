"""Meta-World's experts through `envhub eval`, against two bare processes with the same episodes.

python tests/perf/metaworld.py [--json] [--rounds 3] [--episodes 10] [--tasks 50] [--steps 20]

The command's start and its journal count; so do both sides' imports and constructors. A bare
process takes the next task when it is free. Records must be equal. Then a policy that sees pixels
and plans ten actions, against a bare loop that draws every step.
"""

import argparse
import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import alternate, report

TESTS = Path(__file__).parent.parent
sys.path[0] = str(TESTS)  # else this script would be what `import metaworld` finds

import envhub_metaworld  # noqa: E402
from envhub_metaworld.tasks import suites  # noqa: E402
from support import metaworld_bare  # noqa: E402

import envhub  # noqa: E402
from envhub.sandbox.variables import kernel_variables  # noqa: E402

os.environ.update({**kernel_variables(), **os.environ})  # bare processes compute as workers do

WALL_LIMIT = 1.10
CPU_LIMIT = 1.08
VISION_LIMIT = 7.0
VISION_TASK = "push-v3"
CHUNK = 10

Records = dict[tuple[str, int], tuple[bool, int, float]]


class Tens:
    """Sees pixels, plans ten actions that reach nothing."""

    needs = frozenset({"pixels"})

    def act(self, obs: Any, episodes: Any) -> np.ndarray:
        return np.zeros((len(episodes), CHUNK, 4), np.float32)


class Side:
    """Runs one side, and keeps what it found and used."""

    def __init__(self, run: Callable[[], list[dict[str, Any]]]) -> None:
        self._run = run
        self.cpu: list[float] = []
        self.records: Records = {}

    def __call__(self) -> float:
        begin, used = time.perf_counter(), _children()
        lines = self._run()
        wall = time.perf_counter() - begin
        self.cpu.append(_children() - used)
        self.records = {
            (r["task"], r["seed"]): (r["success"], r["steps"], r["return"]) for r in lines
        }
        return wall


def bare(names: list[str], episodes: int) -> list[dict[str, Any]]:
    start = [sys.executable, str(TESTS / "support" / "metaworld_bare.py"), str(episodes)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    reading, writing = os.pipe()
    os.write(writing, metaworld_bare.cells(names))
    os.close(writing)
    with tempfile.TemporaryDirectory() as place:
        outs = [Path(place, which) for which in "ab"]
        files = [out.open("w") for out in outs]
        children = [
            subprocess.Popen(start, stdin=reading, stdout=f, stderr=f, env=os.environ | threads)
            for f in files
        ]
        os.close(reading)
        for child in children:
            assert child.wait() == 0
        for file in files:
            file.close()
        text = "".join(out.read_text() for out in outs)
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def ours(names: list[str], episodes: int) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).with_name("envhub")), "eval", "metaworld", "--quiet"]
    command += [
        "--policy",
        "expert",
        "--seeding",
        "shared",
        "--episodes",
        str(episodes),
        "--workers",
        "2",
    ]
    if len(names) < 50:
        command += ["--task", ",".join(names)]
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "run")
        subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def experts(options: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    names = [task.name for task in suites()["mt50"]][: options.tasks]
    sides = {
        "bare": Side(lambda: bare(names, options.episodes)),
        "EnvHub": Side(lambda: ours(names, options.episodes)),
    }
    wall = {name: median(v) for name, v in alternate(sides, options.rounds).items()}
    cpu = {name: median(side.cpu[1:]) for name, side in sides.items()}
    records = sides["EnvHub"].records
    same = records == sides["bare"].records
    rate = sum(success for success, _, _ in records.values()) / len(records)
    common = {"episodes": len(records), "success": round(rate, 3), "records equal": same}
    rows = [
        _row("wall s", wall, WALL_LIMIT) | common,
        _row("CPU s", cpu, CPU_LIMIT) | common,
    ]
    return rows, same and all(row["ratio"] <= row["at most"] for row in rows)


def _row(what: str, of: dict[str, float], limit: float) -> dict[str, Any]:
    numbers = {name: round(value, 2) for name, value in of.items()}
    return {"what": what, **numbers, "ratio": round(of["EnvHub"] / of["bare"], 3), "at most": limit}


def drawing_loop(steps: int) -> float:
    """Env-steps a second of a loop that draws every step; its start does not count."""
    os.environ["LP_NUM_THREADS"] = "1"  # as in a worker
    os.environ.setdefault("MUJOCO_GL", "egl")
    env = metaworld_bare.quick(VISION_TASK, render_mode="rgb_array", camera_name="corner2")
    env.seed(0)
    env.reset()
    env.render()
    begin = time.perf_counter()
    for _ in range(steps):
        env.step(np.zeros(4, np.float32))
        env.render()
    rate = steps / (time.perf_counter() - begin)
    env.close()
    return rate


def chunks() -> float:
    """Env-steps a second of a whole evaluation with chunks; its start counts."""
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        run = envhub.evaluate(
            "metaworld", Tens(), tasks=[VISION_TASK], episodes=1, workers=1, out=f"{place}/run"
        )
        seconds = time.perf_counter() - begin
        return sum(record.steps for record in run.records()) / seconds


def vision(steps: int, rounds: int) -> tuple[dict[str, Any], bool]:
    cases = {"bare": lambda: drawing_loop(steps), "EnvHub": chunks}
    rates = {name: median(values) for name, values in alternate(cases, rounds).items()}
    ratio = rates["EnvHub"] / rates["bare"]
    numbers = {name: round(rate, 2) for name, rate in rates.items()}
    row = {"what": "env-steps/s", **numbers, "ratio": round(ratio, 2), "at least": VISION_LIMIT}
    return row, ratio >= VISION_LIMIT


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20, help="of the loop that draws each one")
    options = parser.parse_args()
    for package in (envhub, envhub_metaworld):
        compileall.compile_dir(Path(package.__file__).parent, quiet=1)  # as installing does
    rows, fast = experts(options)
    report("Meta-World's experts: two workers, two bare processes", rows, json=options.json)
    row, skipping = vision(options.steps, options.rounds)
    report("Pixels for every tenth step, against every step", [row], json=options.json)
    return 0 if fast and skipping else 1


if __name__ == "__main__":
    sys.exit(main())
