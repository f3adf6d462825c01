"""The env file that `envhub new --from` runs in a worker, to see what an env is like.

A copy of this file is loaded as a LeRobot-style `make_env` file. Each env that it makes has
the attributes `envhub_call`, the expression that makes another one, `envhub_arguments`, what else
its maker takes, and `envhub_modules`, the modules that making it imported.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from envhub.errors import ContractError
from envhub.loader import load_file

AnyEnv = gym.Env[Any, Any]

_DRAWN = "rgb_array"


def make_env(
    n_envs: int = 1,
    use_async_envs: bool = False,  # noqa: FBT001, FBT002 - LeRobot's signature
    origin: str = "",
    name: str = "",
    drawn: bool = True,  # noqa: FBT001, FBT002 - from --env-arg
) -> dict[str, Callable[[], AnyEnv]]:
    """Return what makes the env, under a name for its task.

    Args:
        n_envs: Ignored.
        use_async_envs: Ignored.
        origin: The path of a Python file; empty for an env that Gymnasium knows.
        name: A class or function in the file; empty: the only env class. Or Gymnasium's id.
        drawn: Whether to make it with `render_mode="rgb_array"` if it takes that.
    """
    if not origin:
        return {name.rpartition("/")[2].rpartition(":")[2]: partial(_make_known, name, drawn=drawn)}
    path = Path(origin)
    module = load_file(path.parent, path.name, "envhub_origin")
    target = name or _only_env(module, path.name)
    return {target: partial(_make_from, module, target, path.name, drawn=drawn)}


def _make_known(name: str, *, drawn: bool) -> AnyEnv:
    before = set(sys.modules)
    arguments: dict[str, Any] = {"render_mode": _DRAWN} if drawn else {}
    env = _mark(gym.make(name, **arguments), "gym.make", [f'"{name}"'], arguments)
    inner: Any = env.unwrapped
    inner.envhub_modules = sorted({m.partition(".")[0] for m in sys.modules.keys() - before})
    return env


def _only_env(module: ModuleType, file: str) -> str:
    """Return the name of the env class that a module defines and derives nothing else from."""
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, gym.Env)
        and value.__module__ == module.__name__
    ]
    leaves = {c.__name__ for c in own if not any(o is not c and issubclass(o, c) for o in own)}
    if len(leaves) == 1:
        return leaves.pop()
    found = f"has {', '.join(sorted(leaves))}" if leaves else "defines no gymnasium.Env"
    raise ContractError(f"{file} {found}: name what makes the env, as in --from ./{file}:NAME")


def _make_from(module: ModuleType, target: str, file: str, *, drawn: bool) -> AnyEnv:
    maker = getattr(module, target, None)
    if not callable(maker):
        raise ContractError(f"{file} has no class or function {target!r}.")
    takes = drawn and "render_mode" in inspect.signature(maker).parameters
    arguments = {"render_mode": _DRAWN} if takes else {}
    env = maker(**arguments)
    if not isinstance(env, gym.Env):
        raise ContractError(f"{target} in {file} made a {type(env).__name__}, not a gymnasium.Env.")
    _mark(env, target, [], arguments)
    inner: Any = env.unwrapped
    inner.envhub_arguments = [*_choices(maker)]
    return env


def _choices(maker: Callable[..., Any]) -> Iterator[str]:
    """What a maker takes by name and could tell tasks apart, as `goal='red'`."""
    for name, parameter in inspect.signature(maker).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        default = parameter.default
        if name != "render_mode" and not variadic and isinstance(default, str | int | bool):
            yield f"{name}={default!r}"


def _mark(env: AnyEnv, maker: str, parts: list[str], arguments: dict[str, Any]) -> AnyEnv:
    named = [f'{key}="{value}"' for key, value in arguments.items()]
    inner: Any = env.unwrapped
    inner.envhub_call = f"{maker}({', '.join([*parts, *named])})"
    inner.envhub_modules = []
    inner.envhub_arguments = []
    return env
