"""Policy servers: a round trip against a bare echo, and batches against episodes in turn.

python tests/perf/servers.py [--json] [--requests 100] [--rounds 5]

The request is that of LIBERO: two pictures of 224 x 224, a state and an instruction, 301 kB. The
bare echo sends the same bytes over the same library and gets the bytes of the answer, without
reading either. The policy of the second part is a torch network on the CPU.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from envhub_servers.codec import pack
from envhub_servers.policy import ServedPolicy, make_policy
from gymnasium import spaces
from measure import alternate, report
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from envhub import Benchmark, Context, Task

TRIP, BATCHES = 1.5, 3.0
ENV = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark("arm", ":make", {"all": (Task("pick", "pick up the cup", 100),)})


def make(task):
    return Arm()


class Arm(gym.Env):
    observation_space = spaces.Dict({
        "image": spaces.Box(0, 255, (224, 224, 3), np.uint8),
        "wrist": spaces.Box(0, 255, (224, 224, 3), np.uint8),
        "state": spaces.Box(-1, 1, (8,), np.float64),
    })
    action_space = spaces.Box(-1, 1, (7,), np.float32)
"""
POLICY = """
import numpy as np


class Fast:
    def act(self, obs, episodes):
        return np.zeros((len(episodes), 10, 7), np.float32)


class Network:
    needs = {"state"}

    def __init__(self, batch):
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        wide = [m for _ in range(4) for m in (torch.nn.Linear(512, 512), torch.nn.GELU())]
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 512), *wide, torch.nn.Linear(512, 8))
        self.batch = batch

    def act(self, obs, episodes):
        import torch

        with torch.inference_mode():
            flow = torch.from_numpy(obs["state"]).float()
            for _ in range(20):  # as diffusion and flow matching do
                flow = self.net(flow)
            return flow[:, :7].clamp(-1, 1).numpy()


def make_policy(benchmark, observation_space, action_space, batch=0):
    return Network(batch) if batch else Fast()
"""
PICTURES = np.random.default_rng(0).integers(0, 256, (8, 224, 224, 3), dtype=np.uint8)
SPACE = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (224, 224, 3), np.uint8),
        "wrist": spaces.Box(0, 255, (224, 224, 3), np.uint8),
        "state": spaces.Box(-1, 1, (8,), np.float64),
    }
)
BENCHMARK = Benchmark("arm", ":make", {"all": (Task("pick", "pick up the cup", 100),)})
ANSWER = pack({"actions": np.zeros((10, 7), np.float32)})


@contextmanager
def answering(metadata: bytes | None) -> Iterator[int]:
    """A server that reads nothing; without metadata, the bare echo."""

    def handle(link: ServerConnection) -> None:
        if metadata is not None:
            link.send(metadata)
        for _ in link:
            link.send(ANSWER)

    with serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[int]:
    """A running `envhub serve`."""
    command = [sys.executable, "-m", "envhub", "serve", str(folder / "policy.py")]
    command += ["--for", str(folder / "env.py"), "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def client(stack: ExitStack, port: int, keys: str | None = None) -> ServedPolicy:
    made = make_policy(
        BENCHMARK,
        SPACE,
        spaces.Box(-1, 1, (7,), np.float32),
        dialect="openpi",
        transport="ws",
        place=f"//127.0.0.1:{port}",
        keys=keys,
    )
    stack.callback(made.close)
    return made


def observation(rows: slice) -> dict[str, Any]:
    states = np.linspace(-1, 1, 64).reshape(8, 8)[rows]
    return {"image": PICTURES[rows], "wrist": PICTURES[rows], "state": states}


def contexts(rows: slice) -> list[Context]:
    return [Context("all", "pick", "pick up the cup", index, 7) for index in range(8)[rows]]


def play(policy: ServedPolicy, rows: slice, steps: int) -> float:
    """Play episodes that wait for each other at each step."""
    seen, playing = observation(rows), contexts(rows)
    began = time.perf_counter()
    for episode in playing:
        policy.start(episode)
    for step in range(steps):
        for episode in playing:
            episode.step = step
        policy.act(seen, playing)
    for episode in playing:
        policy.finish(episode)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    n = options.requests
    request = pack(
        {
            "observation/image": PICTURES[0],
            "observation/wrist_image": PICTURES[0],
            "observation/state": np.zeros(8),
            "prompt": "pick up the cup",
        }
    )
    keys = "image=observation/image,wrist=observation/wrist_image,state=observation/state,"
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        (folder / "env.py").write_text(ENV)
        (folder / "policy.py").write_text(POLICY)
        bare = stack.enter_context(answering(None))
        link: Any = stack.enter_context(
            connect(f"ws://127.0.0.1:{bare}", compression=None, ping_interval=None)
        )

        def echo() -> float:
            began = time.perf_counter()
            for _ in range(n):
                link.send(request)
                link.recv()
            return time.perf_counter() - began

        theirs = client(
            stack, stack.enter_context(answering(pack({}))), f"{keys}instruction=prompt"
        )
        ours = client(stack, stack.enter_context(serving(folder)))
        trips = alternate(
            {
                "echo": echo,
                "client": lambda: play(theirs, slice(0, 1), n),
                "client and envhub serve": lambda: play(ours, slice(0, 1), n),
            },
            options.rounds,
        )
        many = client(stack, stack.enter_context(serving(folder, "--policy-arg", "batch=8")))
        one = client(stack, stack.enter_context(serving(folder, "--policy-arg", "batch=1")))
        batches = alternate(
            {
                "8 slots, batches of 8": lambda: play(many, slice(0, 8), n // 4),
                "in turn, one row a call": lambda: sum(
                    play(one, slice(row, row + 1), n // 4) for row in range(8)
                ),
            },
            options.rounds,
        )
    # The fastest round: what else runs can only slow one down.
    echo_ms, *rest = [1000 * min(seconds) / n for seconds in trips.values()]
    rows: list[dict[str, Any]] = [
        {"case": name, "ms": value, "of the echo": value / echo_ms}
        for name, value in zip(trips, (echo_ms, *rest), strict=True)
    ]
    report(
        f"A round trip of {len(request):,} bytes; client: at most {TRIP}", rows, json=options.json
    )
    together, turns = (median(seconds) for seconds in batches.values())
    ratio = turns / together
    row = {
        "batches s": together,
        "in turn s": turns,
        "ratio": ratio,
        "at least": BATCHES,
    }
    report("Eight episodes of a torch network on the CPU", [row], json=options.json)
    return 0 if rest[0] <= TRIP * echo_ms and ratio >= BATCHES else 1


if __name__ == "__main__":
    sys.exit(main())
