"""The task that is inspected, and envs of it. Runs in the worker."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from envhub.declarations import Task
from envhub.plugins import Plugins
from envhub.wire.normalize import AnyEnv
from envhub.worker.attributes import description_of
from envhub.worker.benchmark import LoadedBenchmark
from envhub.worker.check.notes import Notes, describe
from envhub.worker.make_env import MakeEnvBenchmark

_ACTIONS = 20_260
"""The seed of the actions, which are the same in every process."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One task, and how thoroughly to inspect it."""

    loaded: LoadedBenchmark
    plugins: Plugins
    suite: str
    task: Task
    seed: int = 0
    steps: int = 1
    """Steps of an episode that are observed whole."""
    length: int = 1
    """The most steps of an episode."""
    cycles: int = 1
    """How often an env is made and closed."""

    @property
    def published(self) -> bool:
        """Whether the file is of the published contract, which declares no tasks."""
        return isinstance(self.loaded, MakeEnvBenchmark)

    def make(self) -> AnyEnv:
        """Make a new env, with the wrappers that a run would add."""
        env = self.loaded.make(self.suite, self.task)
        for wrapper in self.plugins.wrappers(self.task):
            env = wrapper(env)
        return env

    @contextmanager
    def open(self, notes: Notes) -> Iterator[AnyEnv]:
        """A new env, which is closed at the end."""
        env = self.make()
        try:
            yield env
        finally:
            close(env, notes)

    def options(self, index: int = 0) -> dict[str, Any] | None:
        """The options of the reset of an episode."""
        states = self.task.init_states
        return {"init_state": index % states} if states else None

    def horizon(self, env: AnyEnv) -> int:
        """The number of steps after which an episode ends; if nobody says one, the most here."""
        return self.loaded.horizon(env, self.task) or self.length

    def actions(self, env: AnyEnv) -> Any:
        """The env's action space, whose samples are the same each time it is asked for."""
        space = copy.deepcopy(env.action_space)
        space.seed(_ACTIONS)
        return space

    def instruction(self, env: AnyEnv) -> str:
        """The instruction that a policy would read now; empty if nobody says one."""
        said = self.loaded.instruction(env) or description_of(env)
        return said or ("" if self.published else self.task.description)


def close(env: AnyEnv, notes: Notes) -> None:
    """Close an env that was used."""
    try:
        env.close()
    except (Exception, SystemExit) as exc:
        notes.judge("close-works", f"close() raised {describe(exc)}.")
