"""A directory that is a package already, and imports its own env file."""

from .env import STEPS  # noqa: TID252

TWICE = 2 * STEPS
