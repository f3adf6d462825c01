"""A policy in torch: a small network that plans five actions at a time.

envhub eval ./docs/examples/reach --policy ./docs/examples/policies/network.py
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from envhub import Benchmark, Context

CHUNK = 5


class Network:
    needs = frozenset({"agent_pos", "environment_state"})  # so that no picture is drawn
    format = "lerobot"  # tensors, under LeRobot's names
    batch = 8  # rows of every call, instead of one: the last bits depend on their number

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    @torch.inference_mode()
    def act(self, obs: Mapping[str, Any], episodes: Sequence[Context]) -> torch.Tensor:
        """Return a chunk of actions per row."""
        inputs = (obs["observation.state"], obs["observation.environment_state"])
        return self._network(torch.cat(inputs, dim=-1)).unflatten(-1, (CHUNK, 2))


def make_policy(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Network:
    torch.set_num_threads(1)
    steer = nn.Linear(4, 2 * CHUNK)
    steer.load_state_dict(weights())
    return Network(nn.Sequential(steer, nn.Hardtanh()))


def weights() -> dict[str, torch.Tensor]:
    """Instead of a checkpoint: every action moves the point (inputs 0, 1) to the goal (2, 3)."""
    ahead = torch.tensor([[-4.0, 0.0, 4.0, 0.0], [0.0, -4.0, 0.0, 4.0]])
    return {"weight": ahead.repeat(CHUNK, 1), "bias": torch.zeros(2 * CHUNK)}
