"""Remarks of `info`, `list` and `try` about tasks that a user would stumble over later."""

from collections.abc import Iterable

from envhub.cli.options import excerpt
from envhub.host.loading import Description

_COLUMNS = 300
"""Columns of an error's text."""

_NAMED = 5
"""Tasks that a remark names at most."""


def broken_tasks(description: Description) -> list[str]:
    """Name the tasks whose envs cannot be made, and say why."""
    return [
        f"Task {name!r} cannot be made, the others can: {excerpt(error.problem, _COLUMNS)}"
        for name, error in description.broken.items()
    ]


def undescribed_tasks(described: Iterable[tuple[str, str]], *, after_reset: bool) -> list[str]:
    """Warn of descriptions that are only the task's name.

    Args:
        described: The tasks' names, each with its description.
        after_reset: Whether the descriptions were read after a reset.
    """
    names = [name for name, text in described if text == name or name.endswith(f".{text}")]
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    later = "" if after_reset else " An env may say it after a reset, which envhub try shows."
    listed = ", ".join(names[:_NAMED])
    sentence = (
        f"Only the task's name describes {listed}{more}: a policy that reads instructions is not "
        f"told what to do. Set task_description on the env.{later}"
    )
    return [sentence]
