"""LIBERO through EnvHub's workers, against bare processes of LIBERO's own loop.

python tests/perf/libero.py [--json] [--seconds 240] [--episodes 2] [--steps 60] [--size 256]
                            [--lerobot PYTHON]

Two workers, two bare processes, two cameras, one thread of software GL each. Episodes include reset
and settling; the first one of each process does not count. Every case is measured once, and again
in turns until the seconds are over; the figures are medians. The archive of the meshes lies next to
the project, or ENVHUB_TEST_LIBERO names it.

With --lerobot, LeRobot's own loop is measured beside: its `rollout` of its LIBERO env in two
processes, with a policy that does nothing. PYTHON is an interpreter that has lerobot, hf-libero and
what both import: LeRobot's, with the packages of plugins/libero/envhub_libero/runtime.txt.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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
LEROBOT = TESTS / "support" / "libero_lerobot.py"
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
            runtime="isolated", seeding="shared", out=f"{place}/run",
        )  # fmt: skip
    first, last = policy.ends[WORKERS - 1], policy.ends[-1]
    return (count - WORKERS) * options.steps / (last - first)


def own(options: argparse.Namespace) -> float:
    """Env-steps a second of two bare processes together."""
    return rate(options, [start(SPEED, *episodes_of(options)) for _ in range(WORKERS)])


def lerobot(options: argparse.Namespace) -> float:
    """Env-steps a second of LeRobot's loop in two processes together."""
    command = [options.lerobot, LEROBOT, *episodes_of(options)]
    variables = dict.fromkeys(libero.THREADS, "1") | {"MUJOCO_GL": "egl"}
    return rate(options, [run(command, variables) for _ in range(WORKERS)])


def episodes_of(options: argparse.Namespace) -> list[object]:
    return [libero.assets(), FOLDER, TASK, options.size, options.steps, options.episodes]


def rate(options: argparse.Namespace, children: list[subprocess.Popen[str]]) -> float:
    return sum(options.episodes * options.steps / sum(seconds_of(child)) for child in children)


def start(*arguments: object) -> subprocess.Popen[str]:
    interpreter = libero.runtime()
    return run([interpreter.python, *arguments], libero.variables_of(interpreter))


def run(command: Sequence[object], variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(map(str, command)), env=os.environ | variables, stdout=subprocess.PIPE, text=True,
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


def measure(options: argparse.Namespace) -> tuple[dict[str, float], int]:
    """Run all cases in turns, each at least once, until the time is over."""
    policies = {name: Still(needs, chunk) for name, (needs, chunk, _) in POLICIES.items()}
    cases: dict[str, Callable[[], float]] = {
        "bare reset": lambda: reset(options, "own"),
        "our reset": lambda: reset(options, "ours"),
        "bare": lambda: own(options),
        **{name: lambda p=policy: ours(options, p) for name, policy in policies.items()},
    }
    if options.lerobot:
        cases["LeRobot"] = lambda: lerobot(options)
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
    return values, max(policy.memory_mb for policy in policies.values())


def _rows(rates: dict[str, float]) -> list[dict[str, Any]]:
    pair = {"bare": rates["bare reset"], "EnvHub": rates["our reset"]}
    rows = [_row("reset, s", pair, pair["bare"] / pair["EnvHub"], RESET_LIMIT)]
    for name, (_, _, limit) in POLICIES.items():
        pair = {"bare": rates["bare"], "EnvHub": rates[name]}
        rows.append(_row(f"{name}, env-steps/s", pair, rates[name] / rates["bare"], limit))
    return rows


def _beside(rates: dict[str, float]) -> list[dict[str, Any]]:
    """The same with LeRobot's loop in the place of LIBERO's, and without limits."""
    return [
        {
            "what": f"{name}, env-steps/s",
            "LeRobot": round(rates["LeRobot"], 2),
            "EnvHub": round(rates[name], 2),
            "ratio": round(rates[name] / rates["LeRobot"], 2),
        }
        for name in POLICIES
    ]


def _row(what: str, of: dict[str, float], ratio: float, limit: float) -> dict[str, Any]:
    numbers = {name: round(value, 2) for name, value in of.items()}
    return {"what": what, **numbers, "ratio": round(ratio, 2), "at least": limit}


def describing() -> float:
    begin = time.perf_counter()
    envs = envhub.make_env("libero", suites=["all"])
    assert sum(map(len, envs.values())) == 130
    return time.perf_counter() - begin


def _missing(python: str) -> str:
    """The modules of LeRobot's loop that an interpreter does not have."""
    code = (
        "import importlib.util as i, sys; print(*[n for n in sys.argv[1:] if not i.find_spec(n)])"
    )
    names = ("lerobot", "torch", "libero", "robosuite", "bddl", "mujoco")
    done = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True)
    return done.stdout.strip().replace(" ", ", ")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=240.0, help="for all cases together")
    parser.add_argument("--episodes", type=int, default=2, help="of each process")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument(
        "--lerobot", metavar="PYTHON", help="an interpreter with lerobot and LIBERO"
    )
    options = parser.parse_args()
    if options.lerobot and (missing := _missing(options.lerobot)):
        parser.error(f"--lerobot: {options.lerobot} cannot import {missing}")
    if not libero.archive().is_file():
        print(f"LIBERO: not measured, because {libero.archive()} does not exist")
        return 0
    os.environ["ENVHUB_HOME"] = str(libero.home())
    reset(options, "ours")  # builds the runtime, and compiles what numba compiles
    rates, memory_mb = measure(options)
    rows = _rows(rates)
    report("LIBERO: two workers, two bare processes", rows, json=options.json)
    if options.lerobot:
        report("LIBERO: two workers, LeRobot's loop twice", _beside(rates), json=options.json)
    facts = {"peak memory of a worker, MB": memory_mb, "make_env, s": round(describing(), 2)}
    report("LIBERO: all 130 tasks described", [facts], json=options.json)
    return 0 if all(row["ratio"] >= row["at least"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
