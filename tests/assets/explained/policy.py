"""A network of two layers that reads the picture; what one may change of a policy are arguments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envhub import Benchmark, Context


class Network:
    needs = frozenset({"pixels", "place"})

    def __init__(self, weights: Any, rows: int, n_action_steps: int, *, turn: bool) -> None:
        self.batch = rows
        self._weights, self._count, self._turn = weights, n_action_steps, turn

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Context]) -> np.ndarray:
        pixels = obs["pixels"][:, ::-1, ::-1] if self._turn else obs["pixels"]
        # What matters is that the size of the batch is in the last bits, as in a matrix product.
        seen = np.asarray(pixels, np.float32).reshape(len(pixels), -1) / 255
        hidden = (seen @ self._weights["seen"]) * np.float32(1 + 1e-7 * (len(pixels) - 1))
        told = 1 + 0.01 * np.array([len(e.description) for e in episodes])[:, None]
        aim = np.tanh(told * (np.array([0.6, 0.4]) - obs["place"] + hidden))
        plan = [aim * (1 - 0.1 * step) for step in range(self._count)]
        return np.stack(plan, axis=1).astype(np.float32)


def make_policy(
    benchmark: Benchmark,
    observation_space: Any,
    action_space: Any,
    weights: str | None = None,
    rows: int = 1,
    n_action_steps: int = 2,
    turn: bool = False,
) -> Network:
    size = int(np.prod(observation_space["pixels"].shape))
    seed = int(Path(weights).read_text()) if weights else 0
    seen = np.random.default_rng(seed).normal(0, 0.05 / size**0.5, (size, 2)).astype(np.float32)
    return Network({"seen": seen}, rows, n_action_steps, turn=turn)
