"""The packages that can change what a simulator computes. Lives in the worker."""

import re
from importlib import metadata

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
            found[name] = _version(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return found


def _version(distribution: metadata.Distribution) -> str:
    """As the metadata says; to parse all of that takes a millisecond or two."""
    head, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
    line = re.search(r"^Version: *(\S+)$", head, re.MULTILINE)
    return line[1] if line else distribution.version
