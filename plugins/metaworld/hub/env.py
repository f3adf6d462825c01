# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["metaworld==3.1.1", "mujoco==3.3.0"]
# [tool.envhub]
# lock = "runtime.txt"
# ///
"""Meta-World as a Hub repository, which also holds the plugin's package and its lock."""

from envhub_metaworld import envhub_benchmarks

__all__ = ["envhub_benchmarks"]
