"""What the envs of a LeRobot-style file say: instruction, horizon, conventions.

They are attributes, or methods without arguments, of the env or of an env that it wraps. Runs in
the worker.
"""

import inspect
from typing import Any

import numpy as np

from envhub.declarations import MAX_DESCRIPTION, MAX_HORIZON
from envhub.wire.normalize import AnyEnv

_HORIZONS = ("_max_episode_steps", "max_episode_steps", "max_steps", "_max_steps", "horizon")


def instruction_of(env: AnyEnv) -> str | None:
    """Return what the env says that is to be done, now; None if it does not say."""
    return description_of(env) or _text(_read(env, "task")) or None


def description_of(env: AnyEnv) -> str | None:
    """Return the env's `task_description`; None if it has none."""
    return _text(_read(env, "task_description")) or None


def instruction_before_reset(env: AnyEnv) -> str | None:
    """Return the same for an env that was never reset: many can answer only after it."""
    try:
        return instruction_of(env)
    except Exception:
        return None


def horizon_of(env: AnyEnv) -> int | None:
    """Return the number of steps after which the env wants an episode to be truncated."""
    values = [_read(env, name) for name in _HORIZONS]
    values.append(getattr(env.spec, "max_episode_steps", None))
    return next((int(value) for value in values if _is_horizon(value)), None)


def set_attribute(env: AnyEnv, name: str, value: Any) -> None:
    """Set an attribute of the env, as Gymnasium does: also one that it lacks.

    Raises:
        AttributeError: The env lacks it, and nobody would read what was set.
    """
    if not env.has_wrapper_attr(name):
        if name == "_max_episode_steps":  # the host counts the steps
            return
        if name == "init_state_id":
            raise AttributeError(
                "This task has no stored initial states, so init_state_id cannot be set: reset "
                "with a seed instead."
            )
    env.set_wrapper_attr(name, value)


def conventions_of(env: AnyEnv) -> Any:
    """Return the env's `conventions`, whatever they are; None if it has none."""
    return _read(env, "conventions")


def _read(env: AnyEnv, name: str) -> Any:
    """Return an attribute, or what the method of that name returns; None if the env has neither."""
    # Wrappers do not forward attributes, so that each layer has to be asked.
    value = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return value() if inspect.isroutine(value) and _takes_nothing(value) else value


def _takes_nothing(method: Any) -> bool:
    try:
        inspect.signature(method).bind()
    except (TypeError, ValueError):  # it needs arguments, or is without a signature
        return False
    return True


def _text(value: object) -> str:
    """Return a text as it can be sent; nothing else: the repr of an object differs in each run."""
    if not isinstance(value, str) or not value.strip():
        return ""
    # Longer texts are no descriptions of tasks, and lone surrogates cannot be sent.
    return str(value)[:MAX_DESCRIPTION].encode("utf-8", "replace").decode()


def _is_horizon(value: object) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 1 <= value <= MAX_HORIZON  # type: ignore[operator]
