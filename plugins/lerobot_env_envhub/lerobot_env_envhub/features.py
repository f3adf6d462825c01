"""What LeRobot is told of a benchmark's observations and actions."""

from typing import Any

from gymnasium import spaces
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.utils.constants import ACTION

from envhub import UsageError
from lerobot_env_envhub.view import LeRobotView

_TYPES = {
    "image": FeatureType.VISUAL,
    "state": FeatureType.STATE,
    "environment_state": FeatureType.ENV,
}
_KEYS = {
    "observation.image": "pixels",
    "observation.state": "agent_pos",
    "observation.environment_state": "environment_state",
}
"""The keys of the env where they are not those of the policy."""


def features_of(env: LeRobotView) -> tuple[dict[str, PolicyFeature], dict[str, str]]:
    """Return the features by the env's keys, and the policy's name of each key.

    Other leaves than images and states reach the policy too, but LeRobot has no type for them.

    Raises:
        UsageError: No LeRobot policy gives such actions.
    """
    action = env.single_action_space
    if not isinstance(action, spaces.Box) or len(action.shape) != 1:
        raise UsageError(f"LeRobot's policies give a row of numbers; actions here are {action}.")
    found: dict[str, Any] = {ACTION: PolicyFeature(FeatureType.ACTION, action.shape)}
    names = {ACTION: ACTION}
    for feature in env.features:
        if feature.kind in _TYPES:
            key = _KEYS.get(feature.name, feature.name)
            shape = feature.shape
            if feature.kind == "image":  # as the env has it, which is what LeRobot expects here
                channels, *size = shape
                shape = (*size, channels)
            found[key] = PolicyFeature(_TYPES[feature.kind], shape)
            names[key] = feature.name
    return found, names
