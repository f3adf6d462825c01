"""EnvHub's benchmarks in LeRobot's own commands: `--env.type=envhub`. Runs in LeRobot's process.

LeRobot imports this package by the prefix of its name; what it registers is in `config`.
"""

from lerobot_env_envhub.config import EnvHubEnv

__all__ = ["EnvHubEnv"]
