"""What is fixed of each dialect, and the arguments of a policy server: for both processes."""

from collections.abc import Mapping

DIALECTS: Mapping[str, tuple[int, str]] = {
    "openpi": (8000, ""),
    "roboarena": (8000, ""),
    "vllm": (8000, "/v1/realtime/robot/openpi"),
    "vla-eval": (8000, ""),
    "gr00t": (5555, ""),
}
"""The port and the path that an address need not name, by dialect."""

ARGUMENTS: Mapping[str, type | tuple[type, ...]] = {
    "actions": str,
    "connect": (int, float),
    "conventions": (str, dict),
    "keys": str,
    "n_action_steps": int,
    "size": int,
}
"""What `--policy-arg` takes for a policy server."""
