"""LIBERO through EnvHub's workers, against bare processes of LIBERO's own loop.

python tests/perf/libero.py [--json] [--seconds 240] [--episodes 2] [--steps 60] [--size 256]

Two workers, two bare processes, two cameras, one thread of software GL each. Episodes include reset
and settling; the first one of each process does not count. Every case is measured once, and again
in turns until the seconds are over; the figures are medians. The archive of the meshes lies next to
the project, or ENVHUB_TEST_LIBERO names it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import report

TESTS = Path(__file__).parent.parent
sys.path[0] = str(TESTS)

from support import libero_setup as libero  # noqa: E402

import envhub  # noqa: E402

FOLDER = "libero_spatial"
TASK = "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate"
SPEED = TESTS / "support" / "libero_speed.py"
WORKERS = 2
RESET_LIMIT = 8.0
RESETS = {"own": 3, "ours": 10}
"""How many are timed in a process; the median counts."""
FRAMES = frozenset({"pixels/image", "pixels/image2"})
STATE = frozenset({"robot_state/eef/pos"})
POLICIES = {
    "chunks of 10": (FRAMES, 10, 5.0),
    "one step": (FRAMES, 1, 1.2),
    "state only": (STATE, 1, 9.0),
}
"""What each reads, its chunk, and how many times the bare env-steps a second it must reach."""


class Still:
    """Reads some leaves, and does nothing."""

    def __init__(self, needs: frozenset[str], chunk: int) -> None:
        self.needs = needs
        self.ends: list[float] = []
        self.memory_mb = 0
        self._chunk = chunk

    def act(self, obs: Any, episodes: Any) -> np.ndarray:
        return np.zeros((len(episodes), self._chunk, 7), np.float32)

    def finish(self, episode: Any) -> None:
        self.ends.append(time.perf_counter())
        self.memory_mb = max(self.memory_mb, peak_mb())


def peak_mb() -> int:
    """The most memory that a worker of this process had."""
    found = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command, text = status.with_name("cmdline").read_bytes(), status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"envhub.worker" in command and str(os.getpid()).encode() in command.split(b"\0"):
            found.append(int(text.split("VmHWM:")[1].split()[0]) // 1024)
    return max(found)


def ours(options: argparse.Namespace, policy: Still) -> float:
    """Env-steps a second of two workers, from when each has played an episode."""
    count = WORKERS * (options.episodes + 1)
    policy.ends.clear()
    with tempfile.TemporaryDirectory() as place:
        envhub.evaluate(
            "libero", policy, tasks=[TASK], episodes=count, max_steps=options.steps,
            workers=WORKERS, env_args={"assets": str(libero.assets()), "size": options.size},
            runtime="isolated", out=f"{place}/run",
        )  # fmt: skip
    first, last = policy.ends[WORKERS - 1], policy.ends[-1]
    return (count - WORKERS) * options.steps / (last - first)


def own(options: argparse.Namespace) -> float:
    """Env-steps a second of two bare processes together."""
    arguments = (SPEED, libero.assets(), FOLDER, TASK, options.size, options.steps)
    children = [start(*arguments, options.episodes) for _ in range(WORKERS)]
    return sum(options.episodes * options.steps / sum(seconds_of(child)) for child in children)


def start(*arguments: object) -> subprocess.Popen[str]:
    interpreter = libero.runtime()
    variables = libero.variables_of(interpreter)
    command = [interpreter.python, *map(str, arguments)]
    return subprocess.Popen(
        command, env=os.environ | variables, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def seconds_of(child: subprocess.Popen[str]) -> list[float]:
    told, _ = child.communicate()
    assert child.returncode == 0
    return list(json.loads(told.splitlines()[-1]))


def reset(options: argparse.Namespace, kind: str) -> float:
    """Seconds of a reset, in a process of its own."""
    place = (SPEED, libero.assets(), FOLDER, TASK, options.size, "--resets", RESETS[kind])
    return median(seconds_of(start(*place, kind)))


def measure(options: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Run all cases in turns, each at least once, until the time is over."""
    policies = {name: Still(needs, chunk) for name, (needs, chunk, _) in POLICIES.items()}
    cases: dict[str, Callable[[], float]] = {
        "bare reset": lambda: reset(options, "own"),
        "our reset": lambda: reset(options, "ours"),
        "bare": lambda: own(options),
        **{name: lambda p=policy: ours(options, p) for name, policy in policies.items()},
    }
    measured: dict[str, list[float]] = {name: [] for name in cases}
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends or not all(measured.values()):
        # One that was measured least often; of those, the first.
        name = min(measured, key=lambda name: len(measured[name]))
        begin = time.monotonic()
        measured[name].append(cases[name]())
        took = time.monotonic() - begin
        print(f"  {name}: {measured[name][-1]:.3f} ({took:.0f} s)", file=sys.stderr, flush=True)
    values = {name: median(found) for name, found in measured.items()}
    return _rows(values), max(policy.memory_mb for policy in policies.values())


def _rows(rates: dict[str, float]) -> list[dict[str, Any]]:
    pair = {"bare": rates["bare reset"], "EnvHub": rates["our reset"]}
    rows = [_row("reset, s", pair, pair["bare"] / pair["EnvHub"], RESET_LIMIT)]
    for name, (_, _, limit) in POLICIES.items():
        pair = {"bare": rates["bare"], "EnvHub": rates[name]}
        rows.append(_row(f"{name}, env-steps/s", pair, rates[name] / rates["bare"], limit))
    return rows


def _row(what: str, of: dict[str, float], ratio: float, limit: float) -> dict[str, Any]:
    numbers = {name: round(value, 2) for name, value in of.items()}
    return {"what": what, **numbers, "ratio": round(ratio, 2), "at least": limit}


def describing() -> float:
    begin = time.perf_counter()
    envs = envhub.make_env("libero", suites=["all"])
    assert sum(map(len, envs.values())) == 130
    return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=240.0, help="for all cases together")
    parser.add_argument("--episodes", type=int, default=2, help="of each process")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=256)
    options = parser.parse_args()
    if not libero.archive().is_file():
        print(f"LIBERO: not measured, because {libero.archive()} does not exist")
        return 0
    os.environ["ENVHUB_HOME"] = str(libero.home())
    reset(options, "ours")  # builds the runtime, and compiles what numba compiles
    rows, memory_mb = measure(options)
    report("LIBERO: two workers, two bare processes", rows, json=options.json)
    facts = {"peak memory of a worker, MB": memory_mb, "make_env, s": round(describing(), 2)}
    report("LIBERO: all 130 tasks described", [facts], json=options.json)
    return 0 if all(row["ratio"] >= row["at least"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
