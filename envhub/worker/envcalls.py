"""Calling a foreign env, and checking what it returns. Runs in the worker."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.worker.normalize import AnyEnv


def take_reset(env: AnyEnv, seed: int | None, options: Any) -> tuple[Any, Any]:
    """Reset an env, and return its observation and info."""
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
    try:
        return observation, float(reward), bool(terminated), bool(truncated), info
    except (TypeError, ValueError) as exc:
        raise ContractError(
            "step() must return a number as reward and two flags, found "
            f"{reward!r}, {terminated!r}, {truncated!r}."
        ) from exc


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
    array = np.asarray(value)
    number = array.item() if array.size == 1 and array.dtype.kind in "biuf" else math.nan
    if number not in (0, 1):
        raise ContractError(f"info['is_success'] must be a bool, 0 or 1, found {value!r}.")
    return bool(number)
