"""The digest of the state that an episode leaves its env in, where the env can say it."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.normalize import AnyEnv
from envhub.wire.values import Array

_BEGIN = b"envhub end state 1\n"
_MUJOCO = ("qpos", "qvel", "act", "mocap_pos", "mocap_quat")


def state_reader(env: AnyEnv) -> Callable[[], bytes] | None:
    """Return what hashes an env's state: `physics_state()`, or what `mujoco()` has; else None."""
    read = _method(env, "physics_state")
    if read is not None:
        return lambda: hash_arrays(read())
    model_and_data = _method(env, "mujoco")
    if model_and_data is None:
        return None
    return lambda: hash_arrays(_state_of(model_and_data()))


def hash_arrays(state: Any) -> bytes:
    """Hash an array, or several in their order, with their types and shapes.

    Raises:
        ContractError: One is none of numbers.
    """
    digest = hashlib.sha256(_BEGIN)
    for value in state if isinstance(state, list | tuple) else [state]:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ContractError(
                f"physics_state() must return arrays of numbers, found {array.dtype}."
            )
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return digest.digest()


def _state_of(found: Any) -> list[Array]:
    _, data = found
    return [np.float64(data.time), *(getattr(data, name) for name in _MUJOCO)]


def _method(env: AnyEnv, name: str) -> Callable[[], Any] | None:
    if not env.has_wrapper_attr(name):
        return None
    found = env.get_wrapper_attr(name)
    return found if callable(found) else None
