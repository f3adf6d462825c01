"""What to inspect, and how thoroughly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from envhub.options import Argument, Limits, Say, SourceKeywords, SourceOptions


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of each task is played."""

    steps: int
    """Steps of an episode that are observed whole and compared."""
    length: int
    """The most steps of the episode that is judged."""
    cycles: int
    """How often an env is made and closed."""
    episodes: int
    """Episodes of each policy."""


QUICK = Effort(steps=10, length=200, cycles=5, episodes=2)
FULL = Effort(steps=50, length=5000, cycles=8, episodes=10)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for."""

    ref: str
    env_args: Mapping[str, Argument]
    limits: Limits
    options: SourceOptions
    effort: Effort
    inline: bool
    """Whether everything runs in this process."""
    message: Say
    seed: int = 0


def keywords_of(options: SourceOptions) -> SourceKeywords:
    """Return options as the keyword arguments of a function."""
    names = SourceKeywords.__annotations__
    return cast("SourceKeywords", {name: getattr(options, name) for name in names})
