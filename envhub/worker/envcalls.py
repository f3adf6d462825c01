"""Calling a foreign env, and checking what it returns. Runs in the worker."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.worker.normalize import AnyEnv
from envhub.worker.randomness import seed_shared_generators


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
    return observation, *outcome_of(reward, terminated, truncated), info


def outcome_of(reward: Any, terminated: Any, truncated: Any) -> tuple[float, bool, bool]:
    """Read a step's reward and flags: numbers, or arrays, tensors and lists of one number.

    Raises:
        ContractError: The reward is not a number, or a flag is not a bool, 0 or 1.
    """
    number, flags = _number(reward), (_number(terminated), _number(truncated))
    if number is None or any(flag not in (0, 1) for flag in flags):
        raise ContractError(
            "step() must return a number as reward and two flags, found "
            f"{reward!r}, {terminated!r}, {truncated!r}."
        )
    return float(number), bool(flags[0]), bool(flags[1])


def success_of(info: Any) -> bool | None:
    """Read the success from `info`: a bool, 0 or 1, or an array of one of them.

    Published environments report `is_success`, many others `success`.

    Returns:
        None if the env reports neither.
    """
    if type(info) is not dict and not isinstance(info, Mapping):
        raise ContractError(f"info must be a mapping, found {type(info).__name__}.")
    value = info.get("is_success", info.get("success"))
    if value is None or isinstance(value, bool):
        return value
    number = _number(value)
    if number not in (0, 1):
        raise ContractError(f"info['is_success'] must be a bool, 0 or 1, found {value!r}.")
    return bool(number)


def _number(value: Any) -> float | None:
    """Return the only number of a value, else None."""
    if isinstance(value, bool | int | float):
        return value
    # Tensors may be on another device or part of a graph, where numpy cannot read them.
    detached = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = np.asarray(detached)
    except (TypeError, ValueError):  # e.g. a list whose rows differ in length
        return None
    return array.item() if array.size == 1 and array.dtype.kind in "biuf" else None
