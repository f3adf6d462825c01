"""One task as a Gymnasium env.

MuJoCo is imported by the first reset, OpenGL by the first frame, and neither of them before.
"""

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from envhub import Task
from envhub.errors import ContractError
from gymnasium import spaces

from {{cookiecutter.__package}}.init_states import INIT_STATES
from {{cookiecutter.__package}}.simulator import Simulator

Array = np.ndarray[Any, Any]
Observation = dict[str, Array]

CLOSE = 0.05
"""Metres between the centres of puck and goal that are a success."""
_MAX_SIZE = 1024


def make(task: Task, size: int = 96) -> "Push":
    """Make the env of a task.

    Args:
        task: One of the tasks in `suites.py`.
        size: Width and height of `pixels`.
    """
    _check(size)
    return Push(task, size)


def spaces_of(task: Task, size: int = 96) -> tuple[Any, Any]:
    """Return the observation space and the action space of a task, without making its env."""
    _check(size)
    return _declared_spaces(size)


@cache
def _declared_spaces(size: int) -> tuple[Any, Any]:
    """The same objects for all tasks, which have the same spaces."""
    return _observation_space(size), _action_space()


def _check(size: object) -> None:
    if type(size) is not int or not 16 <= size <= _MAX_SIZE:
        raise ContractError(f"size must be a whole number from 16 to {_MAX_SIZE}, found {size!r}.")


def _observation_space(size: int) -> Any:
    return spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (size, size, 3), np.uint8),
            "agent_pos": spaces.Box(-1.0, 1.0, (2,), np.float32),
            "environment_state": spaces.Box(-1.0, 1.0, (4,), np.float32),
        }
    )


def _action_space() -> Any:
    return spaces.Box(-1.0, 1.0, (2,), np.float32)


class Push(gym.Env[Observation, Array]):
    """A tip pushes a puck onto a goal.

    The action is the velocity of the tip, 1 being half a metre per second. `agent_pos` is the
    position of the tip, `environment_state` the positions of puck and goal.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "render_leaf": "pixels",  # what `render` draws
    }
    render_mode = "rgb_array"
    observing: frozenset[str] = frozenset({"pixels", "agent_pos", "environment_state"})

    def __init__(self, task: Task, size: int) -> None:
        # Copies, because each env's spaces have a random generator of their own.
        self.observation_space = _observation_space(size)
        self.action_space = _action_space()
        self._goal = np.array([task.args["goal_x"], task.args["goal_y"]], np.float64)
        self._size = size
        self._blank = np.zeros((size, size, 3), np.uint8)
        self._simulator: Simulator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the first reset builds the simulator.

        The option `init_state` is the index of an initial state. Without it the seed chooses one.
        """
        super().reset(seed=seed)
        if self._simulator is None:
            self._simulator = Simulator(self._goal, self._size)
        given = (options or {}).get("init_state")
        index = int(self.np_random.integers(len(INIT_STATES))) if given is None else int(given)
        puck, tip = np.array(INIT_STATES[index]).reshape(2, 2)
        self._simulator.reset(puck + self.np_random.uniform(-0.01, 0.01, 2), tip)
        return self._observe(), {"is_success": self._is_success(), "init_state": index}

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step; the host ends the episode at the first success, or at the horizon."""
        self._running().step(np.clip(np.asarray(action, np.float64), -1.0, 1.0))
        info = {"is_success": self._is_success()}
        return self._observe(), -self._gap(), False, False, info

    def render(self) -> Array:
        """Draw the frame that `pixels` would hold now."""
        return self._running().draw()

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data, for perturbations and for the state at the end."""
        return self._running().mujoco()

    def observe(self) -> Observation:
        """Look again, after a perturbation has changed the scene."""
        return self._observe()

    def close(self) -> None:
        """Free the simulator and the GL context; the next reset builds new ones."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            simulator.close()

    def _observe(self) -> Observation:
        simulator = self._running()
        state = np.concatenate([simulator.puck(), self._goal])
        return {
            "pixels": simulator.draw() if "pixels" in self.observing else self._blank,
            "agent_pos": simulator.tip().astype(np.float32),
            "environment_state": state.astype(np.float32),
        }

    def _gap(self) -> float:
        return float(np.linalg.norm(self._running().puck() - self._goal))

    def _is_success(self) -> bool:
        return self._gap() < CLOSE

    def _running(self) -> Simulator:
        if self._simulator is None:
            raise gym.error.ResetNeeded("Call reset() first.")
        return self._simulator
