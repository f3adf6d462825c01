# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["mujoco==3.3.0"]
# ///
"""The benchmark as a Hub repository, which also holds its package."""

from {{cookiecutter.__package}} import envhub_benchmarks

__all__ = ["envhub_benchmarks"]
