"""Closing all envs that `make_env` returned, at once."""

from collections.abc import Iterator, Mapping, Sequence

import gymnasium as gym
from gymnasium.vector import VectorEnv


def close_envs(envs: object) -> None:
    """Close envs, also in nested mappings and sequences; harmless when repeated.

    If closing one of them fails, the others are closed anyway.

    Raises:
        TypeError: A value is not an env, a mapping or a sequence.
        ExceptionGroup: Closing failed for several envs.
    """
    problems: list[Exception] = []
    for env in {id(leaf): leaf for leaf in _leaves(envs)}.values():
        try:
            if not isinstance(env, gym.Env | VectorEnv):
                raise TypeError(
                    "close_envs takes envs and mappings or sequences of them, "
                    f"found {type(env).__name__}"
                )
            env.close()
        except Exception as exc:
            problems.append(exc)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ExceptionGroup("Some envs did not close", problems)


def _leaves(envs: object) -> Iterator[object]:
    if isinstance(envs, Mapping):
        for value in envs.values():
            yield from _leaves(value)
    elif isinstance(envs, Sequence) and not isinstance(envs, str | bytes):
        for value in envs:
            yield from _leaves(value)
    else:
        yield envs
