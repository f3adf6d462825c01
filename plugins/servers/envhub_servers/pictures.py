"""Pictures as policy servers were trained with them: their size, and which way up they are."""

from typing import Any

import numpy as np

from envhub.wire.values import Array


def is_picture(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether an array is a picture: uint8, height by width by channels."""
    return len(shape) == 3 and shape[2] in (1, 3, 4) and np.dtype(dtype) == np.uint8


def turn(picture: Array) -> Array:
    """Turn a picture by 180 degrees, as openpi's and LeRobot's loops do with LIBERO's."""
    return np.ascontiguousarray(picture[::-1, ::-1])


def resize_with_pad(picture: Array, height: int, width: int) -> Array:
    """Shrink or enlarge a picture without distortion, and add black borders.

    Equal, bit by bit, to `image_tools.resize_with_pad` of openpi-client 0.1.2, which uses Pillow.
    """
    if picture.shape[:2] == (height, width):
        return picture
    from PIL import Image

    ratio = max(picture.shape[1] / width, picture.shape[0] / height)
    inner = int(picture.shape[0] / ratio), int(picture.shape[1] / ratio)
    source = Image.fromarray(picture if picture.shape[2] > 1 else picture[..., 0])
    small = np.asarray(source.resize((inner[1], inner[0]), Image.Resampling.BILINEAR))
    framed = np.zeros((height, width, picture.shape[2]), np.uint8)
    top, left = ((height - inner[0]) // 2, (width - inner[1]) // 2)
    framed[top : top + inner[0], left : left + inner[1]] = small.reshape(*inner, -1)
    return framed
