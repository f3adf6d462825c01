"""What actions and observations mean: the closed lists of conventions, and how two sides compare.

A benchmark says what its actions and observations mean, and a policy what it was trained with.
`docs/conventions.md` has every key and value in words. Pure.
"""

import math
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from envhub.errors import ContractError

Convention = str | float
Conventions = Mapping[str, Convention]
"""Values by key: texts of the lists below, and a number for `control_hz`."""

HZ = "control_hz"
"""The key whose value is a number. Of a benchmark it is `Benchmark.control_hz`."""

VALUES: Mapping[str, tuple[str, ...]] = {
    "control": (
        "ee_delta_pose", "ee_delta_position", "ee_pose", "ee_position", "ee_velocity",
        "joint_delta", "joint_position", "joint_velocity", "joint_torque", "base_velocity",
        "discrete",
    ),
    "rotation": (
        "none", "axis_angle", "euler_xyz", "quaternion_xyzw", "quaternion_wxyz", "rotation_6d",
        "matrix",
    ),
    "gripper": (
        "none", "positive_closes", "positive_opens", "one_closes", "one_opens", "width",
    ),
    "frame": ("world", "base", "ee"),
    "images": ("upright", "upside_down"),
    "state": (
        "ee_position", "ee_position_gripper", "ee_axis_angle_gripper", "ee_euler_gripper",
        "ee_quaternion_xyzw_gripper", "ee_quaternion_wxyz_gripper", "ee_rotation_6d_gripper",
        "joints", "joints_gripper", "planar_position",
    ),
}  # fmt: skip
"""The values of each key."""

KEYS = (*VALUES, HZ)

STATE_SIZES: Mapping[str, tuple[int, ...]] = {
    "ee_position": (3,),
    "ee_position_gripper": (4, 5),
    "ee_axis_angle_gripper": (7, 8),
    "ee_euler_gripper": (7, 8),
    "ee_quaternion_xyzw_gripper": (8, 9),
    "ee_quaternion_wxyz_gripper": (8, 9),
    "ee_rotation_6d_gripper": (10, 11),
    "planar_position": (2,),
}
"""How many numbers a state has in each layout; a gripper is one number, or one per finger."""


def find_problem(declared: object, keys: tuple[str, ...] = KEYS) -> str | None:
    """Return what is wrong with declared conventions, with the nearest that is allowed.

    Args:
        declared: What somebody declares.
        keys: The keys that are allowed.
    """
    if not isinstance(declared, Mapping):
        return f"conventions must be a mapping of keys to values, found {reprlib.repr(declared)}"
    for key, value in declared.items():
        if type(key) is not str or key not in keys:
            return f"conventions has the key {reprlib.repr(key)}, {_instead(key, keys)}"
        problem = _find_wrong_value(key, value)
        if problem is not None:
            return problem
    return None


def check_conventions(owner: str, declared: object) -> dict[str, Convention]:
    """Return the conventions that a policy declares.

    Raises:
        ContractError: A key or a value is not one of the lists.
    """
    problem = find_problem(declared)
    if problem is not None:
        raise ContractError(f"{owner}: {problem}.")
    return _sorted(declared)


def read_conventions(given: object) -> dict[str, Convention]:
    """Read the conventions of `--policy-arg`: `key=value,...`, or a mapping.

    Raises:
        ContractError: They are something else.
    """
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.split(",")] if given.strip() else []
        if not all(equals for _, equals, _ in pairs):
            raise ContractError(
                f"conventions must be written key=value,key=value; found {given!r}."
            )
        given = {key.strip(): _number_or_text(key.strip(), value) for key, _, value in pairs}
    return check_conventions("--policy-arg", given)


def differing(ours: Conventions, theirs: Conventions) -> tuple[str, ...]:
    """Return the keys for which both sides declare something, and not the same."""
    return tuple(key for key in KEYS if key in ours and key in theirs and ours[key] != theirs[key])


def contrast(name: str, ours: Conventions, theirs: Conventions, keys: Iterable[str]) -> str:
    """Return both sides of some conventions in words.

    Args:
        name: The benchmark's name.
        ours: The benchmark's conventions.
        theirs: The policy's.
        keys: Those to speak of.
    """
    return "; ".join(
        f"{key} is {_shown(ours.get(key))} in {name} and {_shown(theirs.get(key))} in the policy"
        for key in keys
    )


def describe(conventions: Conventions) -> str:
    """Return conventions in words: `control ee_pose, control_hz 20`."""
    return ", ".join(f"{key} {_shown(value)}" for key, value in conventions.items())


def _shown(value: Convention | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sorted(declared: Any) -> dict[str, Convention]:
    return {
        key: float(declared[key]) if key == HZ else declared[key] for key in KEYS if key in declared
    }


def _find_wrong_value(key: str, value: object) -> str | None:
    if key == HZ:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and 0 < value < math.inf:  # type: ignore[operator]
            return None
        return f"the convention {HZ} must be a positive number, found {reprlib.repr(value)}"
    if type(value) is str and value in VALUES[key]:  # no subclass, which cannot be sent
        return None
    return f"the convention {key} is {reprlib.repr(value)}, {_instead(value, VALUES[key])}"


def _instead(found: object, allowed: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # commands must start fast

    nearest = get_close_matches(str(found)[:100], allowed, n=1, cutoff=0.0)[0]
    return f"which is not one of {', '.join(allowed)}; the nearest is {nearest!r}"


def _number_or_text(key: str, text: str) -> Convention:
    text = text.strip()
    try:
        return float(text) if key == HZ else text
    except ValueError:
        return text
