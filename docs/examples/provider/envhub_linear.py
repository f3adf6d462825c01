"""Linear policies that are stored as JSON: `--policy linear:weights.json`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envhub import Benchmark, Context, UsageError
from envhub.policies.provider import ProvidedPolicy, Wanted


def provide(rest: str, wanted: Wanted) -> ProvidedPolicy:
    """Called in the host, once per run, before any episode is planned."""
    path = (wanted.directory / rest).resolve()
    if not path.is_file():
        raise UsageError(f"linear:{rest} is not a file. Check the path.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ProvidedPolicy(
        place=str(path),
        factory="envhub_linear:make_policy",
        factory_args={"path": str(path), **wanted.args},
        files={path.name: f"sha256:{digest}"},
        details={"bytes": path.stat().st_size},
    )


class Linear:
    """Acts with a matrix."""

    needs = frozenset({"agent_pos", "environment_state"})

    def __init__(self, weights: list[list[float]], gain: float) -> None:
        self._weights = gain * np.array(weights, np.float32)

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Context]) -> np.ndarray:
        """Return one action per row; the rows do not influence each other."""
        rows = np.concatenate([obs["agent_pos"], obs["environment_state"]], axis=1)
        return np.clip(np.einsum("rn,an->ra", rows, self._weights), -1.0, 1.0)


def make_policy(
    benchmark: Benchmark, observation_space: Any, action_space: Any, path: str, gain: float = 1.0
) -> Linear:
    """Called where the policy acts."""
    return Linear(json.loads(Path(path).read_text())["weights"], gain)
