"""The suites and their tasks: what is to be done, and for how long."""

from envhub import Task

from {{cookiecutter.__package}}.init_states import INIT_STATES

HORIZON = 100
"""Steps of an episode: ten seconds."""

_SIDES = {
    "push-left": ("push the red puck onto the green disc on the left", (-0.3, 0.0)),
    "push-right": ("push the red puck onto the green disc on the right", (0.3, 0.0)),
    "push-up": ("push the red puck onto the green disc at the top", (0.0, 0.3)),
    "push-down": ("push the red puck onto the green disc at the bottom", (0.0, -0.3)),
}
_CORNERS = {
    "push-up-left": ("push the red puck onto the green disc at the top left", (-0.28, 0.28)),
    "push-down-right": ("push the red puck onto the green disc at the bottom right", (0.28, -0.28)),
}
"""The names of tasks, their instructions, and the goals in metres."""


def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    return {"sides": _tasks(_SIDES), "corners": _tasks(_CORNERS)}


def _tasks(declared: dict[str, tuple[str, tuple[float, float]]]) -> tuple[Task, ...]:
    return tuple(
        Task(
            name=name,
            description=instruction,
            horizon=HORIZON,
            init_states=len(INIT_STATES),
            args={"goal_x": goal[0], "goal_y": goal[1]},
        )
        for name, (instruction, goal) in declared.items()
    )
