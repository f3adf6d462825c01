"""What it costs to move observations and actions, against Gymnasium's AsyncVectorEnv.

    python tests/perf/transport.py [--json] [--rounds 5]

A free env with two 256x256x3 images and 39 numbers, 8 workers; the policy reads every key. The bare
loop of one-byte wake-ups over the same memory is the limit; beside it the same loop without its one
copy, to show what is the machine's memory and what the waking.

Then the same env in evaluations, whose policy has a process of its own: one row per call, as a
policy without a batch gets it, and declared batches. For a network the difference is larger, since
its call costs more than a message: a multilayer perceptron of 3 x 256.
"""

import argparse
import mmap
import os
import runpy
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv
from measure import alternate, report

import envhub
from envhub.wire.messages import Stepped

ENVS = 8
FILE = Path(__file__).parent / "assets" / "free" / "env.py"
LIMITS = {"with copies": 1.7, "without copies": 3.0, "chunks of 10": 10.0}


POLICY = """
import numpy as np

class Reader:
    def __init__(self, batch, network):
        self.batch = batch
        rng, sizes = np.random.default_rng(0), (39, 256, 256, 256, 4)
        shapes = zip(sizes, sizes[1:])
        self._weights = [rng.normal(size=s).astype(np.float32) for s in shapes if network]

    def act(self, obs, episodes):
        for value in obs.values():
            value.reshape(len(episodes), -1)[:, ::1024].sum()
        values = obs["state"]
        for weights in self._weights:
            values = np.tanh(values @ weights)
        return values if self._weights else np.zeros((len(episodes), 4), np.float32)

def make_policy(benchmark, observation_space, action_space, batch=None, network=False):
    return Reader(batch, network)
"""


def read(observation: dict[str, Any]) -> float:
    """A policy that looks at every row of every key."""
    return sum(float(v.reshape(ENVS, -1)[:, ::1024].sum()) for v in observation.values())


def async_env(ms: float, *, copy: bool) -> AsyncVectorEnv:
    free = runpy.run_path(str(FILE))["Free"]
    return AsyncVectorEnv([partial(free, ms)] * ENVS, shared_memory=True, copy=copy)


def our_env(ms: float, *, copy: bool) -> Any:
    return envhub.make_env(f"{FILE}", ENVS, env_args={"ms": ms}, copy=copy)["free"]["free"]


def loop(env: Any, steps: int) -> Callable[[], float]:
    """Env-steps a second of the plain loop."""
    actions = np.zeros((ENVS, 4), np.float32)

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            read(env.step(actions)[0])
        return ENVS * steps / (time.perf_counter() - start)

    env.reset(seed=0)
    measure()
    return measure


def chunk_loop(env: Any, steps: int) -> Callable[[], float]:
    """Env-steps a second when ten actions are sent at once."""
    env.reset(seed=0)
    crew, buffers = env._ready()

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            buffers.actions[:, :10] = 0.0
            crew.ask_all(lambda _, remote: remote.step(10, scored=True), Stepped)
            read(buffers.observations)
        return ENVS * steps * 10 / (time.perf_counter() - start)

    measure()
    return measure


def bare_loop(steps: int, *, copying: bool = True) -> Callable[[], float]:
    """One byte each way and one copy into shared memory: what no framework can beat."""
    size = 2 * 256 * 256 * 3 + 39 * 4
    memory = mmap.mmap(-1, ENVS * size)
    rows = np.frombuffer(memory, np.uint8).reshape(ENVS, size)
    ends = []
    for row in range(ENVS):
        here, there = socket.socketpair()
        if os.fork() == 0:
            here.close()
            source = np.ones(size, np.uint8)
            while there.recv(1):
                if copying:
                    rows[row] = source
                there.send(b"x")
            os._exit(0)
        there.close()
        ends.append(here)

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            for end in ends:
                end.send(b"x")
            for end in ends:
                end.recv(1)
            float(rows[:, ::1024].sum())
        return ENVS * steps / (time.perf_counter() - start)

    measure()
    return measure


def evaluation(steps: int, *, batch: int | str | None, network: bool) -> Callable[[], float]:
    """Env-steps a second of an evaluation, from its first episode's end on."""

    def measure() -> float:
        ends: list[float] = []
        with tempfile.TemporaryDirectory() as place:
            Path(place, "policy.py").write_text(POLICY)
            envhub.evaluate(
                FILE, f"{place}/policy.py", episodes=4 * ENVS, workers=ENVS, max_steps=steps,
                policy_args={"batch": batch, "network": network}, out=f"{place}/run",
                on_episode=lambda record: ends.append(time.perf_counter()),
            )  # fmt: skip
        return (len(ends) - ENVS) * steps / (ends[-1] - ends[ENVS - 1])

    return measure


def evaluations(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per call beside declared batches."""
    batches: dict[str, int | str | None] = {"one row": None, f"batch={ENVS}": ENVS, "any": "any"}
    rows = []
    for network in (False, True):
        cases = {
            name: evaluation(options.steps, batch=batch, network=network)
            for name, batch in batches.items()
        }
        rounds = min(options.rounds, 2)
        found = {name: median(each) for name, each in alternate(cases, rounds).items()}
        what = "a network" if network else "reads only"
        rows.append({"policy": what, **{name: round(rate) for name, rate in found.items()}})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ms", type=float, nargs="*", default=[0.0, 1.0, 5.0, 20.0])
    options = parser.parse_args()
    bare, waking = bare_loop(options.steps), bare_loop(options.steps, copying=False)
    rows, good = [], True
    for ms in options.ms:
        steps = options.steps if ms == 0.0 else max(10, int(options.steps / (1 + ms)))
        ours = {copy: our_env(ms, copy=copy) for copy in (True, False)}
        theirs = {copy: async_env(ms, copy=copy) for copy in (True, False)}
        chunked = our_env(ms, copy=False)
        cases = {
            "async copies": loop(theirs[True], steps),
            "ours copies": loop(ours[True], steps),
            "async views": loop(theirs[False], steps),
            "ours views": loop(ours[False], steps),
            "ours chunks": chunk_loop(chunked, max(10, steps // 10)),
            "bare": bare,
            "waking": waking,
        }
        rates = {name: median(values) for name, values in alternate(cases, options.rounds).items()}
        for name, mine, other in (
            ("with copies", "ours copies", "async copies"),
            ("without copies", "ours views", "async views"),
            ("chunks of 10", "ours chunks", "async copies"),
        ):
            limit = LIMITS[name] if ms == 0.0 else None
            ratio = rates[mine] / rates[other]
            good = good and (limit is None or ratio >= limit)
            rows.append(
                {
                    "ms a step": ms,
                    "what": name,
                    "AsyncVectorEnv": round(rates[other]),
                    "EnvHub": round(rates[mine]),
                    "bare limit": round(rates["bare"]),
                    "no copy": round(rates["waking"]),
                    "ratio": round(ratio, 2),
                    "at least": limit,
                }
            )
        envhub.close_envs([*ours.values(), *theirs.values(), chunked])
    report("Transport: env-steps a second, 8 workers", rows, json=options.json)
    title = "Evaluations: env-steps a second, 8 workers, by the rows of a call"
    report(title, evaluations(options), json=options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
