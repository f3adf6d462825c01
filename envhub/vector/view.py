"""One env of a vector environment, for programs that read `env.envs[0]`."""

from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from envhub.vector.env import LazyVectorEnv


class EnvView(gym.Env[Any, Any]):
    """An env in a worker process, as a Gymnasium Env.

    Attributes are read from the env; its methods are called through the vector environment's
    `call`. It never resets itself: only the vector environment does.
    """

    def __init__(self, vector: "LazyVectorEnv", row: int) -> None:
        self._vector = vector
        self._row = row

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the env."""
        # Python itself looks for names like __deepcopy__; they must not start a process.
        if name.startswith("__") or name in ("_vector", "_row"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._vector.call_row(self._row, name)

    @property
    def observation_space(self) -> gym.Space[Any]:  # type: ignore[override]
        """The observation space of the env."""
        return self._vector.single_observation_space

    @property
    def action_space(self) -> gym.Space[Any]:  # type: ignore[override]
        """The action space of the env."""
        return self._vector.single_action_space

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The env's metadata."""
        return self._vector.metadata

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """The env's render mode."""
        return self._vector.render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the env."""
        return self._vector.reset_row(self._row, seed, options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the env."""
        return self._vector.step_row(self._row, action)

    def render(self) -> Any:
        """Render a frame."""
        return self._vector.call_row(self._row, "render")

    def close(self) -> None:
        """Close the vector environment: its envs are opened and closed together."""
        self._vector.close()

    def __repr__(self) -> str:
        return f"EnvView({self._vector!r}, env {self._row})"
