"""Calling a foreign env with the seeds of its process, and checking what it returns."""

import random
import sys
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.normalize import AnyEnv
from envhub.wire.step_results import number_of


def take_reset(env: AnyEnv, seed: int | None, options: Any) -> tuple[Any, Any]:
    """Reset an env, and return its observation and info.

    Without a seed the process' random numbers go on, as the env's own do.
    """
    if seed is not None:
        seed_shared_generators(seed)
    result = env.reset(seed=seed, options=options)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ContractError("reset() must return (observation, info).")
    return result


def take_step(env: AnyEnv, action: Any) -> tuple[Any, float, bool, bool, Any]:
    """Step an env, and return observation, reward, terminated, truncated and info."""
    result = env.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
        raise ContractError(
            "step() must return (observation, reward, terminated, truncated, info)."
        )
    observation, reward, terminated, truncated, info = result
    if type(reward) is float and type(terminated) is bool and type(truncated) is bool:
        return observation, reward, terminated, truncated, info
    return observation, *step_result_of(reward, terminated, truncated), info


def step_result_of(reward: Any, terminated: Any, truncated: Any) -> tuple[float, bool, bool]:
    """Read a step's reward and flags: numbers, or arrays, tensors and lists of one number.

    Raises:
        ContractError: The reward is not a number, or a flag is not a bool, 0 or 1.
    """
    number, flags = number_of(reward), (number_of(terminated), number_of(truncated))
    if number is None or any(flag not in (0, 1) for flag in flags):
        raise ContractError(
            "step() must return a number as reward and two flags, found "
            f"{reward!r}, {terminated!r}, {truncated!r}."
        )
    return float(number), bool(flags[0]), bool(flags[1])


def seed_shared_generators(seed: int) -> None:
    """Seed `random`, `numpy.random` and torch, which is only seeded if it is imported already.

    Many envs draw from them and not from their own `np_random`: their episodes would depend on
    whatever ran in the worker before.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    # A module that is being imported, or one of the benchmark's own, may lack the function.
    if hasattr(torch, "manual_seed"):
        torch.manual_seed(seed % 2**63)
