"""Perturbations of how a MuJoCo scene is seen: they change no physics."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_WORLD = 0
"""The body that does not move: cameras on a robot's hand are on another one, and stay."""


class CameraPose:
    """Moves and turns the cameras that stand in the scene."""

    def __init__(self, strength: float) -> None:
        self._strength = strength

    def begin(self, scene: Any) -> None:
        """Draw a place and a direction for each camera."""
        model, data = scene.mujoco()
        positions = scene.changing(model.cam_pos)
        directions = scene.changing(model.cam_quat)
        for camera in range(model.ncam):
            shift, axis = (_direction(scene.rng) for _ in range(2))
            if model.cam_bodyid[camera] != _WORLD:
                continue
            positions[camera] += self._strength * shift
            directions[camera] = _turned(directions[camera], axis, self._strength)
        _place_cameras_and_lights(model, data)


class Light:
    """Makes lights brighter or darker, tints and turns them."""

    def __init__(self, strength: float) -> None:
        self._strength = strength

    def begin(self, scene: Any) -> None:
        """Draw brightness, colour and direction."""
        model, data = scene.mujoco()
        rng, strength = scene.rng, self._strength
        brightness = 1 + strength * rng.choice((-1.0, 1.0))
        tint = 1 + strength / 2 * rng.uniform(-1.0, 1.0, 3)
        axis = _direction(rng)
        headlight = model.vis.headlight
        for light in (model.light_ambient, model.light_diffuse, model.light_specular):
            scene.changing(light)[...] *= (brightness * tint).astype(light.dtype)
        for light in (headlight.ambient, headlight.diffuse, headlight.specular):
            scene.changing(light)[...] *= (brightness * tint).astype(light.dtype)
        directions = scene.changing(model.light_dir)
        for number in range(model.nlight):
            directions[number] = _rotate(directions[number], axis, strength)
        _place_cameras_and_lights(model, data)


def _place_cameras_and_lights(model: Any, data: Any) -> None:
    """Compute where they are in the world; nothing that physics starts from changes."""
    import mujoco

    mujoco.mj_camlight(model, data)


def _direction(rng: np.random.Generator) -> Array:
    """Draw a direction, each as likely as any other."""
    drawn = rng.standard_normal(3)
    return drawn / np.linalg.norm(drawn)


def _rotate(vector: Array, axis: Array, angle: float) -> Array:
    """Turn a vector about an axis (Rodrigues' formula)."""
    along = axis * (axis @ vector) * (1 - np.cos(angle))
    return vector * np.cos(angle) + np.cross(axis, vector) * np.sin(angle) + along  # type: ignore[no-any-return]


def _turned(quaternion: Array, axis: Array, angle: float) -> Array:
    """Turn a direction, a quaternion with its scalar first, about an axis of its own."""
    w, v = np.cos(angle / 2), np.sin(angle / 2) * axis
    scalar, vector = quaternion[0], quaternion[1:]
    product = [scalar * w - vector @ v, *(scalar * v + w * vector + np.cross(vector, v))]
    return np.array(product)
