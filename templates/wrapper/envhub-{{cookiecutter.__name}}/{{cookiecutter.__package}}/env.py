"""The env of the task, and when an episode of it is a success."""

from typing import Any

import gymnasium as gym
from envhub import Task
{%- if cookiecutter.__import %}

from {{cookiecutter.__package}}.{{cookiecutter.__module}} import {{cookiecutter.__import}}
{%- endif %}

AnyEnv = gym.Env[Any, Any]


def make(task: Task) -> AnyEnv:
    """Make the env of a task."""
{%- if cookiecutter.success == "none" %}
    return {{cookiecutter.__call}}
{%- elif cookiecutter.success == "survived" %}
    return Judged({{cookiecutter.__call}}, task.horizon)
{%- else %}
    return Judged({{cookiecutter.__call}})
{%- endif %}
{%- if cookiecutter.success != "none" %}


class Judged(gym.Wrapper[Any, Any, Any, Any]):
    """Says in every step's info whether it is a success, as `is_success`."""
{%- if cookiecutter.success == "survived" %}

    def __init__(self, env: AnyEnv, horizon: int) -> None:
        super().__init__(env)
        self._horizon = horizon
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._steps = 0
        return self.env.reset(seed=seed, options=options)
{%- endif %}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
{%- if cookiecutter.success == "survived" %}
        self._steps += 1
        info["is_success"] = self._steps >= self._horizon and not terminated
{%- elif cookiecutter.success == "terminated" %}
        info["is_success"] = bool(terminated)
{%- else %}
        info["is_success"] = bool(info.get("{{cookiecutter.success}}", False))
{%- endif %}
        return observation, reward, terminated, truncated, info
{%- endif %}
