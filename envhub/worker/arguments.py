"""Calling a published `make_env` with the arguments of `--env-arg`. Runs in the worker.

An argument goes to the parameter of its name, else to `cfg`, else to `**kwargs`, never twice. A
`cfg` is built as its annotation or its default says: a dataclass with its fields checked, nested
ones too; a dict as a dict; anything else as a `Config`, whose values are attributes and items.

A function may need a `cfg` without saying so: it reads `kwargs["cfg"]`, or hides its signature
behind a decorator. It is called once more with one if it asks for it.
"""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from inspect import Parameter
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import msgspec

from envhub.errors import ContractError
from envhub.options import Argument

_CONTRACT: dict[str, Argument] = {"n_envs": 1, "use_async_envs": False}
_SPREAD = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_UNKNOWN_TYPE = (NameError, AttributeError, TypeError, SyntaxError)
"""Raised for annotations that cannot be evaluated, e.g. names imported for type checkers only."""


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
        return _call_with_cfg(make_env, {**_CONTRACT, **env_args})
    bound = _bind(make_env, signature, env_args)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if Parameter.VAR_KEYWORD not in kinds or "cfg" in signature.parameters:
        return make_env(*bound.args, **bound.kwargs)
    return _call_with_cfg(partial(make_env, *bound.args), bound.kwargs)


class Config(SimpleNamespace):
    """A `cfg` of which the function does not say what it is: its values can be read both ways."""

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def keys(self) -> Iterable[str]:
        """Return the names of the values."""
        return vars(self).keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default if there is none of that name."""
        return vars(self).get(name, default)


def _call_with_cfg(make_env: Callable[..., object], arguments: dict[str, Any]) -> object:
    """Call a function that takes any arguments by name, and perhaps needs a `cfg` among them."""
    if "cfg" in arguments:
        cfg = arguments["cfg"]
        return make_env(**{**arguments, "cfg": Config(**cfg) if isinstance(cfg, dict) else cfg})
    own = {name: value for name, value in arguments.items() if name in _CONTRACT}
    others = {name: value for name, value in arguments.items() if name not in _CONTRACT}
    try:
        return make_env(**arguments)
    except (KeyError, TypeError) as exc:
        if not _asks_for_cfg(exc, others):
            raise
        problem = exc
    try:
        return make_env(**own, cfg=Config(**others))
    except TypeError as exc:
        if _unexpected(exc) == "cfg":  # it takes neither
            raise problem from None
        raise


def _asks_for_cfg(error: KeyError | TypeError, others: Container[str]) -> bool:
    """Whether a function was called without the `cfg` that it needs, or with what belongs there."""
    if isinstance(error, KeyError):
        return error.args == ("cfg",)
    missing = re.search(r"missing \d+ required .*'cfg'", str(error))
    return missing is not None or _unexpected(error) in others


def _unexpected(error: TypeError) -> str:
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    return found[1] if found else ""


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
    kind = _cfg_type(make_env, cfg)
    values: dict[str, Any] = dict(given or {})
    for name in [name for name in offered if name not in _CONTRACT]:
        if name in values:
            raise ContractError(f"{name!r} is given twice: in the --env-arg cfg and as --env-arg.")
        if _takes(kind, name) or not others:
            values[name] = offered.pop(name)
    if cfg.kind is Parameter.VAR_POSITIONAL:
        bound.arguments["cfg"] = (_build_cfg(kind, values),) if values or given is not None else ()
    elif values or given is not None or cfg.default is Parameter.empty:
        bound.arguments["cfg"] = _build_cfg(kind, values, cfg.default)


def _cfg_type(make_env: Callable[..., object], cfg: Parameter) -> Any:
    """Return the type to build a `cfg` as: a dataclass, dict or Config."""
    if dataclasses.is_dataclass(cfg.default) and not isinstance(cfg.default, type):
        return type(cfg.default)
    if isinstance(cfg.default, dict):
        return dict
    annotations = SimpleNamespace(__annotations__={"cfg": cfg.annotation})
    try:
        hint = typing.get_type_hints(annotations, _globals_of(make_env))["cfg"]
    except _UNKNOWN_TYPE:
        return Config
    for option in _options(hint):
        if _is_dataclass(option) and not inspect.isabstract(option):
            return option
        if _is_mapping(option):
            return dict
    return Config


def _takes(kind: Any, name: str) -> bool:
    """Whether a `cfg` of this type can have a value of this name."""
    return not _is_dataclass(kind) or name in _fields(kind)


def _build_cfg(kind: Any, values: Mapping[str, Any], default: Any = None) -> Any:
    """Build a `cfg`; values that are not given are those of the default.

    Raises:
        ContractError: The dataclass has no such field, or the value is not of the field's type.
    """
    if _is_dataclass(kind):
        return _build(kind, values, "cfg", default)
    if kind is dict:
        return {**(default if isinstance(default, dict) else {}), **values}
    return Config(**values)


def _build(kind: Any, values: Mapping[str, Any], where: str, default: Any = None) -> Any:
    """Build a dataclass, from another one of its type if there is one."""
    fields = _fields(kind)
    for name in values:
        if name not in fields:
            raise ContractError(
                f"{where} ({kind.__name__}) has no field {name!r}; its fields are "
                f"{', '.join(fields)}."
            )
    try:
        hints = typing.get_type_hints(kind)
    except _UNKNOWN_TYPE:
        hints = {}
    built = {
        name: _convert(value, hints.get(name, Any), f"{where}.{name}")
        for name, value in values.items()
    }
    if isinstance(default, kind):
        return dataclasses.replace(default, **built)
    lacking = [name for name, field in fields.items() if _is_required(field) and name not in built]
    if lacking:
        raise ContractError(f"{where} ({kind.__name__}) needs values for {', '.join(lacking)}.")
    return kind(**built)


def _convert(value: Any, hint: Any, where: str) -> Any:
    nested = next(filter(_is_dataclass, _options(hint)), None)
    if nested is not None and isinstance(value, Mapping):
        return _build(nested, value, where)
    try:
        return msgspec.convert(value, hint, dec_hook=_from_text)
    except msgspec.ValidationError as exc:
        raise ContractError(f"{where} must be {_shown(hint)}, found {value!r}.") from exc
    except TypeError:  # msgspec does not support this type, so that only the author can check it
        return value


def _from_text(kind: Any, value: Any) -> Any:
    """Make a value of a type that JSON does not have."""
    kind = typing.get_origin(kind) or kind  # as of Iterable[str]
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if isinstance(value, kind):
        return value
    raise ValueError(f"not a {kind.__name__}")


def _options(hint: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows: the members of a union, else itself."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    members = typing.get_args(hint) if _is_union(hint) else (hint,)
    yield from members


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, type(int | None))


def _is_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _is_mapping(kind: Any) -> bool:
    origin = typing.get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _fields(kind: Any) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(kind) if field.init}


def _is_required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _shown(hint: Any) -> str:
    """Return an annotation as a user would write it; the modules of types differ with Python's."""
    if hint in (type(None), ...):
        return "..." if hint is ... else "None"
    if _is_union(hint):
        return " | ".join(map(_shown, typing.get_args(hint)))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(origin, type) and arguments:
        return f"{origin.__name__}[{', '.join(map(_shown, arguments))}]"
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _globals_of(make_env: Any) -> dict[str, Any]:
    """Return the names that annotations of a function may use."""
    function = make_env.func if isinstance(make_env, partial) else make_env
    if not inspect.isroutine(function):  # an object that can be called
        function = type(function).__call__
    names: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return names
