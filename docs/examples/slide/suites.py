"""The suites and their tasks: what is to be done, and for how long."""

from envhub import Task

HORIZON = 60
"""Steps of an episode."""
WHERE = {"any": "the green mark", "left": "the mark on the left", "right": "the mark on the right"}


def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    tasks = (
        Task(name=side, description=f"slide the blue cart to {where}", horizon=HORIZON)
        for side, where in WHERE.items()
    )
    return {"slide": tuple(tasks)}
