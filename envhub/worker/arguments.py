"""Calling a published `make_env` with the arguments of `--env-arg`. Runs in the worker.

An argument goes to the parameter of its name, else to `cfg`, else to `**kwargs`, never twice.
"""

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from envhub.errors import ContractError
from envhub.options import Argument
from envhub.worker.cfg import build_cfg, cfg_type, takes

_CONTRACT: dict[str, Argument] = {"n_envs": 1, "use_async_envs": False}
_SPREAD = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def call_make_env(make_env: Callable[..., object], env_args: Mapping[str, Argument]) -> object:
    """Call a `make_env` with `n_envs=1`, `use_async_envs=False` and the user's arguments.

    Raises:
        ContractError: It does not take one of the arguments; the error says what it takes.
    """
    for name in _CONTRACT:
        if name in env_args:
            raise ContractError(f"EnvHub sets {name} itself: leave that --env-arg out.")
    try:
        signature = inspect.signature(make_env)
    except (TypeError, ValueError):  # e.g. a function of an extension module
        return make_env(**_CONTRACT, **env_args)
    bound = _bind(make_env, signature, env_args)
    return make_env(*bound.args, **bound.kwargs)


def _bind(
    make_env: Callable[..., object], signature: inspect.Signature, env_args: Mapping[str, Argument]
) -> inspect.BoundArguments:
    parameters = signature.parameters
    offered = {**_CONTRACT, **env_args}
    named = [n for n, p in parameters.items() if p.kind not in _SPREAD and n != "cfg"]
    bound = signature.bind_partial()
    bound.arguments |= {name: offered.pop(name) for name in named if name in offered}
    spread = next((n for n, p in parameters.items() if p.kind is Parameter.VAR_KEYWORD), None)
    cfg = parameters.get("cfg")
    if cfg is not None and spread != "cfg":
        _bind_cfg(make_env, cfg, bound, offered, others=spread is not None)
    left = [name for name in env_args if name in offered]
    if spread is not None:
        bound.arguments[spread] = offered
    elif left:
        raise ContractError(
            f"make_env{signature} takes no argument {left[0]!r}: leave that --env-arg out."
        )
    bound.apply_defaults()  # a positional argument behind one that is left out needs its default
    return bound


def _bind_cfg(
    make_env: Callable[..., object],
    cfg: Parameter,
    bound: inspect.BoundArguments,
    offered: dict[str, Argument],
    *,
    others: bool,
) -> None:
    """Move the arguments that `cfg` takes from `offered` to it.

    Args:
        make_env: The function.
        cfg: The parameter.
        bound: The function's arguments.
        offered: The arguments that no parameter takes by name.
        others: Whether `**kwargs` takes what `cfg` does not.
    """
    given = offered.pop("cfg", None)
    if given is not None and not isinstance(given, Mapping):
        bound.arguments["cfg"] = (given,) if cfg.kind is Parameter.VAR_POSITIONAL else given
        return
    kind = cfg_type(make_env, cfg)
    values: dict[str, Any] = dict(given or {})
    for name in [name for name in offered if name not in _CONTRACT]:
        if name in values:
            raise ContractError(f"{name!r} is given twice: in the --env-arg cfg and as --env-arg.")
        if takes(kind, name) or not others:
            values[name] = offered.pop(name)
    if cfg.kind is Parameter.VAR_POSITIONAL:
        bound.arguments["cfg"] = (build_cfg(kind, values),) if values or given is not None else ()
    elif values or given is not None or cfg.default is Parameter.empty:
        bound.arguments["cfg"] = build_cfg(kind, values, cfg.default)
