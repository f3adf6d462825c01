"""Turning the value that an env file returns into `{suite: {task: VectorEnv}}`.

`arrange` sorts the value by suite and task without making an env; `vectorize` makes the VectorEnv
of one task; `normalize` does both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorEnv

from envhub.declarations import NAME
from envhub.errors import InvalidEnvs
from envhub.wire.tasks import Tasks

AnyEnv = gym.Env[Any, Any]

AnyVectorEnv = VectorEnv[Any, Any, Any]

Maker = Callable[[], Any]

Entry = AnyEnv | AnyVectorEnv | Maker | Sequence[Maker]
"""What an env file may return for one task."""

Key = tuple[str, ...]


def normalize(
    returned: object, n_envs: int, *, name: str
) -> dict[str | int, dict[str | int, AnyVectorEnv]]:
    """Turn the value that `make_env` returned into vector environments of `n_envs` envs each.

    The keys stay as they are. Tasks can be looked up by number too, as LeRobot's are.

    Args:
        returned: An env, a callable or list of callables that make envs, `{task: ...}` or
            `{suite: {task: ...}}` with any of these as values.
        n_envs: The number of envs that was asked for.
        name: The name of the suite, and of the task for a single env, if the value has no names.

    Raises:
        InvalidEnvs: The value is something else, or has another number of envs.
    """
    arranged = arrange(returned, name=name)
    suites = _keys(returned) if any(map(_is_mapping, _values(returned))) else {}
    vectors: dict[str | int, dict[str | int, AnyVectorEnv]] = {}
    for suite, entries in arranged.items():
        own = suites.get(suite, suite)
        tasks = _keys(returned[own] if suites else returned)  # type: ignore[index]
        vectors[own] = Tasks(
            {
                tasks.get(task, task): vectorize(entry, n_envs, key=(suite, task))
                for task, entry in entries.items()
            }
        )
    return vectors


def arrange(returned: object, *, name: str) -> dict[str, dict[str, Entry]]:
    """Sort a returned value by suite and task, without calling or making anything."""
    if not isinstance(returned, Mapping):
        return {name: {name: _entry(returned, ())}}
    items = _named(returned, ())
    suites = {key: value for key, value in items.items() if isinstance(value, Mapping)}
    if not suites:
        return {name: {task: _entry(value, (task,)) for task, value in items.items()}}
    for key, value in items.items():
        if key not in suites:
            raise InvalidEnvs(
                f"key {key!r} holds {_describe(value)}, while other keys hold mappings.", (key,)
            )
    return {suite: _tasks(tasks, suite) for suite, tasks in suites.items()}


def vectorize(entry: Entry, n_envs: int, *, key: Key) -> AnyVectorEnv:
    """Make the vector environment of one task, with exactly `n_envs` envs."""
    if isinstance(entry, VectorEnv):
        return _sized(entry, n_envs, key)
    if isinstance(entry, gym.Env):
        if n_envs != 1:
            problem = f"{_at(key)}one Env where {n_envs} envs were asked for; return a callable."
            raise InvalidEnvs(problem, key)
        return _join([entry], key)
    makers = [entry] * n_envs if callable(entry) else list(entry)
    if len(makers) != n_envs:
        problem = f"{_at(key)}a list of {len(makers)} callables where {n_envs} were asked for."
        raise InvalidEnvs(problem, key)
    first = makers[0]()
    if isinstance(first, VectorEnv) and callable(entry):
        return _sized(first, n_envs, key)
    made = [_env(env, key) for env in (first, *(maker() for maker in makers[1:]))]
    return _join(made, key)


def _tasks(tasks: Mapping[object, object], suite: str) -> dict[str, Entry]:
    named = _named(tasks, (suite,))
    return {task: _entry(value, (suite, task)) for task, value in named.items()}


def _named(mapping: Mapping[Any, object], where: Key) -> dict[str, object]:
    """Return the mapping with its keys as valid names."""
    if not mapping:
        raise InvalidEnvs(f"{_at(where)}an empty mapping.", where)
    named: dict[str, object] = {}
    for key, value in mapping.items():
        if isinstance(key, bool) or not isinstance(key, str | int):
            problem = f"{_at(where)}the key {key!r}, which is neither text nor a whole number."
            raise InvalidEnvs(problem, (*where, key))
        name = str(key)
        if not NAME.fullmatch(name):
            problem = (
                f"{_at(where)}the key {key!r}, which cannot be a name; names start with a letter "
                "or digit and hold at most 200 letters, digits and . _ + -"
            )
            raise InvalidEnvs(problem, (*where, name))
        if name in named:
            raise InvalidEnvs(f"{_at(where)}two keys that read {name!r}.", (*where, name))
        named[name] = value
    return named


def _keys(returned: object) -> dict[str, str | int]:
    """Return the keys of a mapping by their names."""
    return {str(key): key for key in returned} if isinstance(returned, Mapping) else {}


def _values(returned: object) -> Iterable[object]:
    return returned.values() if isinstance(returned, Mapping) else ()


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _entry(value: object, key: Key) -> Entry:
    match value:
        case VectorEnv() | gym.Env():
            return value
        case Mapping():
            raise InvalidEnvs(f"{_at(key)}a mapping nested deeper than suite and task.", key)
        case str() | bytes():
            raise InvalidEnvs(f"{_at(key)}{_describe(value)}.", key)
        case Sequence():
            wrong = [_describe(item) for item in value if not _is_maker(item)]
            if wrong or not value:
                content = f"a list with {wrong[0]}" if wrong else "an empty list"
                problem = f"{_at(key)}{content}; it must hold callables that each make an Env."
                raise InvalidEnvs(problem, key)
            return value
        case _ if _is_maker(value):
            return value  # type: ignore[return-value]
        case _:
            raise InvalidEnvs(f"{_at(key)}{_describe(value)}.", key)


def _is_maker(value: object) -> bool:
    return callable(value) and not isinstance(value, gym.Env | VectorEnv)


def _sized(env: AnyVectorEnv, n_envs: int, key: Key) -> AnyVectorEnv:
    size = getattr(env, "num_envs", None)
    if size != n_envs:
        problem = f"{_at(key)}a VectorEnv of {size} where {n_envs} envs were asked for."
        raise InvalidEnvs(problem, key)
    return env


def _join(envs: list[AnyEnv], key: Key) -> AnyVectorEnv:
    if len({id(env) for env in envs}) < len(envs):
        raise InvalidEnvs(f"{_at(key)}callables that make the same Env again.", key)
    try:
        return SyncVectorEnv([partial(_itself, env) for env in envs])
    except Exception as exc:
        problem = f"{_at(key)}envs that cannot be a VectorEnv: {type(exc).__name__}: {exc}"
        raise InvalidEnvs(problem, key) from exc


def _itself(env: AnyEnv) -> AnyEnv:
    return env


def _env(made: object, key: Key) -> AnyEnv:
    if not isinstance(made, gym.Env):
        raise InvalidEnvs(f"{_at(key)}a callable that made {_describe(made)}.", key)
    return made


def _describe(value: object) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    name = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    if isinstance(value, gym.Env | VectorEnv) or not hasattr(value, "step"):
        return name
    if hasattr(value, "num_envs"):
        return f"{name}, which is like a VectorEnv but is not a subclass of gymnasium's"
    if hasattr(value, "reset"):
        return f"{name}, which is like an Env but is not a subclass of gymnasium's"
    return name


def _at(key: Key) -> str:
    return f"at {' / '.join(key)}: " if key else "found "
