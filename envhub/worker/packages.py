"""The packages that can change what a simulator computes. Lives in the worker."""

from importlib import metadata

from envhub.plugins import name_and_version

_RELEVANT = (
    "bddl", "dm-control", "genesis-world", "gym-aloha", "gym-pusht", "gymnasium", "hf-libero",
    "isaaclab", "isaacsim", "jax", "libero", "mani-skill", "maniskill", "metaworld", "mujoco",
    "mujoco-mjx", "numpy", "pybullet", "robosuite", "sapien", "scipy", "torch",
)  # fmt: skip


def relevant_packages() -> dict[str, str]:
    """Their versions, of those that are installed here; none is imported."""
    found: dict[str, str] = {}
    for name in _RELEVANT:
        try:
            _, found[name] = name_and_version(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return found
