"""Working without a network, as `--offline` and `ENVHUB_OFFLINE` say."""

import os
from collections.abc import Callable
from typing import TypeVar

from envhub.errors import EnvHubError, RuntimeUnavailable, SourceUnavailable

VARIABLE = "ENVHUB_OFFLINE"

T = TypeVar("T")


def is_offline() -> bool:
    """Whether the user says that nothing may be asked of a network."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


class Missing:
    """What is not on this machine, so that a run without a network names all of it at once."""

    def __init__(self) -> None:
        self._errors: list[EnvHubError] = []

    def try_to(self, find: Callable[[], T]) -> T | None:
        """Return what a function finds; None if that is missing, which is noted.

        Where there is a network, its error is raised at once.
        """
        try:
            return find()
        except (SourceUnavailable, RuntimeUnavailable) as exc:
            if not is_offline():
                raise
            self._errors.append(exc)
            return None

    def check(self) -> None:
        """Raise what was noted.

        Raises:
            SourceUnavailable: Several things are missing, or a source is.
            RuntimeUnavailable: A runtime is missing.
        """
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            listed = "".join(f"\n{number}. {exc}" for number, exc in enumerate(self._errors, 1))
            raise SourceUnavailable(
                f"{len(self._errors)} things are not on this machine, and nothing may be asked of "
                f"a network. Where there is one, `envhub fetch` brings them.{listed}"
            )
