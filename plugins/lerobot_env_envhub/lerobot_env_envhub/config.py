"""The config of the environment: what `--env.NAME` options there are, and the envs that it makes.

Consent, pins, sandbox and runtime are EnvHub's: the options are those of `envhub.make_env`.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from envhub_lerobot.sentences import sentences_for
from lerobot.envs.configs import EnvConfig

from envhub import UsageError, make_env
from envhub.options import SandboxChoice
from envhub.wire.tasks import Tasks
from lerobot_env_envhub.features import features_of
from lerobot_env_envhub.view import LeRobotView


@EnvConfig.register_subclass("envhub")
@dataclass
class EnvHubEnv(EnvConfig):  # type: ignore[misc]
    """A benchmark of EnvHub: `--env.type=envhub --env.ref=REF`."""

    ref: str = ""
    """An installed benchmark's name, a local `./directory` or `./file.py`, or
    `owner/repo@<commit>:env.py` on the Hub."""
    suite: str | None = None
    """Names of suites, with commas; none: the benchmark's default; `all`: every suite."""
    task: str | None = None
    """Names of tasks, with commas; none: all tasks of the suites."""
    max_steps: int | None = None
    """A horizon that replaces the tasks' own."""
    env_args: dict[str, Any] = field(default_factory=dict)
    """Arguments of the benchmark's function that makes envs."""
    trust_remote_code: bool = False
    """Agree to run code from the Hub at exactly the commit that `ref` names."""
    private: bool = False
    """Send your token, for a private repository."""
    locked: bool = False
    """Refuse files and packages that differ from `envhub.lock`."""
    sandbox: str = "auto"
    """The sandbox for code from the Hub: `auto`, `bubblewrap`, `landlock` or `none`."""
    sandbox_allow_network: bool = False
    """Let code from the Hub use the network."""
    runtime: str = "auto"
    """Where the benchmark's code runs: `auto`, `here`, `isolated`, or a further runtime's name."""

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """Nothing: the envs are not made by `gym.make`."""
        return {}

    def create_envs(
        self,
        n_envs: int,
        use_async_envs: bool = False,  # noqa: FBT001, FBT002 - as LeRobot calls it
    ) -> dict[str, Tasks[str, LeRobotView]]:
        """Make the envs, each in a process of its own, and note the features of their task.

        Raises:
            UsageError: `ref` is missing, or names no benchmark.
            InvalidObservation: A LeRobot policy cannot take the observations.
        """
        if not self.ref:
            raise UsageError("--env.type=envhub needs --env.ref, the benchmark, as in metaworld.")
        made = make_env(
            self.ref,
            n_envs,
            suites=self.suite or (),
            tasks=self.task or (),
            env_args=self.env_args,
            max_steps=self.max_steps,
            instructions=sentences_for(self.ref) or None,
            format="lerobot",
            trust_remote_code=self.trust_remote_code,
            private=self.private,
            locked=self.locked,
            sandbox=cast("SandboxChoice", self.sandbox),
            sandbox_allow_network=self.sandbox_allow_network,
            runtime=self.runtime,
        )
        envs = {
            suite: Tasks({task: LeRobotView(env, self.fps) for task, env in tasks.items()})
            for suite, tasks in made.items()
        }
        first = next(env for tasks in envs.values() for env in tasks.values())
        self.features, self.features_map = features_of(first)
        return envs
