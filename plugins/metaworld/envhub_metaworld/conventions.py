"""What Meta-World's actions and observations mean."""

from envhub_metaworld.simulator import PUBLISHED_CAMERA


def conventions_of(camera: str = PUBLISHED_CAMERA, **_others: object) -> dict[str, str]:
    """Return the conventions; of the cameras only the published one is known to be upright."""
    return {
        "control": "ee_delta_position",
        "rotation": "none",
        "gripper": "positive_closes",
        "frame": "world",
        **({"images": "upright"} if camera == PUBLISHED_CAMERA else {}),
        "state": "ee_position_gripper",
    }
