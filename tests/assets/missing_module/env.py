"""Needs what is not installed."""

import a_simulator_that_nobody_has  # noqa: F401
