"""Seeding the random numbers that all code of a process shares. Runs in the worker.

Many envs draw from `random`, `numpy.random` or torch and not from their own `np_random`: their
episodes would depend on whatever ran in the worker before.
"""

import random
import sys
from typing import Any

import numpy as np


def seed_shared_generators(seed: int) -> None:
    """Seed `random`, `numpy.random` and torch, which is only seeded if it is imported already."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    # A module that is being imported, or one of the benchmark's own, may lack the function.
    if hasattr(torch, "manual_seed"):
        torch.manual_seed(seed % 2**63)
