"""What LIBERO's actions and observations mean."""

_CONTROL = {"relative": "ee_delta_pose", "absolute": "ee_pose"}


def conventions_of(control: str = "relative", **_others: object) -> dict[str, str]:
    """Return the conventions; the argument `control` decides what actions set.

    A value of it that does not exist is refused where envs are made.
    """
    return {
        **({"control": _CONTROL[control]} if control in _CONTROL else {}),
        "rotation": "axis_angle",
        "gripper": "positive_closes",
        "frame": "world",
        "images": "upside_down",
    }


def hold_of(control: str = "relative", **_others: object) -> tuple[float, ...]:
    """Return the action that does nothing; there is none of absolute positions."""
    return (*[0.0] * 6, -1.0) if control == "relative" else ()
