"""A LeRobot checkpoint through EnvHub, against LeRobot's own rollout of the same checkpoint.

python tests/perf/policies.py [--json] [--rounds 3] [--episodes 3] [--steps 60] [--threads 1]

LeRobot's side is `rollout` of its `lerobot_eval` over its own vector env, in one process: all envs
wait for each other, every step is drawn, the network sees two rows at once. EnvHub's side is
`evaluate` with two workers and one process for the policy, at its default of one row per call;
beside it with batch=2, for whose second row the first waits.

Equal on both sides: the checkpoint (ACT, chunks of ten actions, a picture and the hand's
position), Meta-World's task, two envs, pictures of 480 x 480 of the camera corner2, the GL backend,
the kernels of OpenBLAS, torch's threads and its version, the CPU, the interpreter that runs the
policy. LeRobot may draw with as many threads as software GL likes; a worker of EnvHub has one.

A checkpoint with random weights never solves the task, so all episodes have the same length. Resets
count, imports and constructors do not: of EnvHub the first episode of each worker is left out, and
the time begins when the first of these ends. With start-up everything counts.

The interpreter is that of .venv-lerobot, or ENVHUB_TEST_LEROBOT names another one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from measure import report

TESTS = Path(__file__).parent.parent
sys.path[0] = str(TESTS)  # else this script would be what `import policies` finds

from support.needs import lerobot_python, reason_to_skip  # noqa: E402

import envhub  # noqa: E402
from envhub.machine.gl import choose_backend  # noqa: E402
from envhub.records import EpisodeRecord  # noqa: E402
from envhub.sandbox.variables import kernel_variables  # noqa: E402

LIMIT = 4.0
ENVS = 2
TASK = "push-v3"
SPEED = TESTS / "support" / "lerobot_speed.py"


class Own:
    """A process with LeRobot, its envs and its policy, which is started once."""

    def __init__(self, checkpoint: Path, steps: int, threads: int) -> None:
        command = [lerobot_python(), SPEED, checkpoint, TASK, steps, ENVS, threads]
        begin = time.perf_counter()
        self._child = subprocess.Popen(
            list(map(str, command)),
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.missing = self._answer().get("missing")
        self.start = time.perf_counter() - begin

    def __call__(self, rollouts: int) -> float:
        """Return the env-steps per second of some rollouts."""
        assert self._child.stdin is not None
        print(rollouts, file=self._child.stdin, flush=True)
        answer = self._answer()
        return float(answer["steps"] / answer["seconds"])

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, f"LeRobot's process ended: {self._child.wait()}"
        return dict(json.loads(line))


def ours(
    checkpoint: Path, episodes: int, steps: int, threads: int, batch: int = 1
) -> tuple[float, float]:
    """Return the env-steps per second of an evaluation, without its start, and the whole time."""
    ends: list[float] = []

    def on_episode(record: EpisodeRecord) -> None:
        assert (record.status, record.steps) == ("ok", steps), record
        ends.append(time.perf_counter())

    count = ENVS * (episodes + 1)
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        envhub.evaluate(
            "metaworld", f"lerobot:{checkpoint}", tasks=[TASK], episodes=count, max_steps=steps,
            workers=ENVS, policy_python=lerobot_python(),
            policy_args={"threads": threads, "batch": batch},
            limits=envhub.Limits(start=600, act=600), out=f"{place}/run", on_episode=on_episode,
        )  # fmt: skip
        whole = time.perf_counter() - begin
    return (count - ENVS) * steps / (ends[-1] - ends[0]), whole


def measure(options: argparse.Namespace, own: Own, checkpoint: Path) -> list[dict[str, Any]]:
    """Run both sides in turns."""
    sizes = (options.episodes, options.steps, options.threads)
    own(1)  # the first drawing compiles shaders
    rates: dict[str, list[float]] = {"LeRobot": [], "EnvHub": []}
    wholes, batched = [], []
    for _ in range(options.rounds):
        rates["LeRobot"].append(own(options.episodes))
        rate, whole = ours(checkpoint, *sizes)
        rates["EnvHub"].append(rate)
        wholes.append(whole)
        batched.append(ours(checkpoint, *sizes, batch=ENVS)[0])
        print(f"  {[round(found[-1], 2) for found in rates.values()]}", file=sys.stderr, flush=True)
    middle = {name: median(found) for name, found in rates.items()}
    steps = ENVS * (options.episodes + 1) * options.steps
    whole = {"LeRobot": own.start + steps / middle["LeRobot"], "EnvHub": median(wholes)}
    started = {"LeRobot": own.start, "EnvHub": whole["EnvHub"] - steps / middle["EnvHub"]}
    with_start = {name: steps / seconds for name, seconds in whole.items()}
    total = options.rounds * ENVS * options.episodes * options.steps
    in_pairs = {"LeRobot": middle["LeRobot"], "EnvHub": median(batched)}
    return [
        _row(f"env-steps/s, of {total} steps", middle) | {"at least": LIMIT},
        _row(f"with batch={ENVS}", in_pairs) | {"at least": ""},
        _row(f"with start-up, of {steps} steps", with_start) | {"at least": ""},
        _row("start-up, s", started) | {"ratio": "", "at least": ""},
    ]


def _row(what: str, of: dict[str, float]) -> dict[str, Any]:
    numbers = {name: round(value, 2) for name, value in of.items()}
    return {"what": what, **numbers, "ratio": round(of["EnvHub"] / of["LeRobot"], 2)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=3, help="of each env, in a round")
    parser.add_argument("--steps", type=int, default=60, help="of an episode")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on both sides")
    options = parser.parse_args()
    lacking = [reason_to_skip(name) for name in ("lerobot", "metaworld")]
    if any(lacking):
        print(f"LeRobot's rollout: not measured, because {next(filter(None, lacking))}")
        return 0
    os.environ.update({**kernel_variables(), **os.environ})  # LeRobot computes as workers do
    os.environ["MUJOCO_GL"] = choose_backend()
    with tempfile.TemporaryDirectory() as place:
        checkpoint = Path(place, "checkpoint")
        own = Own(checkpoint, options.steps, options.threads)
        try:
            if own.missing:
                print(f"LeRobot's rollout: not measured, because {own.missing}")
                return 0
            rows = measure(options, own, checkpoint)
        finally:
            own.close()
    report("An ACT checkpoint on Meta-World, chunks of ten, two envs", rows, json=options.json)
    return 0 if rows[0]["ratio"] >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
