"""Pictures: what `render` returns, and what the cameras of the observation show. In the worker."""

import time
from typing import Any

import numpy as np

from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import leaf_keys, leaves
from envhub.worker.check.notes import Notes, describe
from envhub.worker.check.subject import Subject
from envhub.worker.envcalls import take_reset, take_step
from envhub.worker.leaves import observers

RENDER_LEAF = "render_leaf"
"""The key of `metadata` with which an env says which leaf of the observation `render` shows."""
_FRAMES = ("frame-format", "frame-size", "frame-not-black", "render-matches-camera")
_STEPS = 5


def inspect_drawing(subject: Subject, notes: Notes) -> None:
    """Reset, take a few steps, and look at every picture."""
    with subject.open(notes) as env:
        cameras = _cameras(env.observation_space)
        drawn: dict[str, list[Any]] = {path: [] for path in cameras}
        frames: list[Any] = []
        for observation in _observations(subject, env):
            for path, keys in cameras.items():
                drawn[path].append(_leaf(observation, keys))
            if not _add_frame(env, notes, frames):
                break
            _compare_camera(env, observation, frames[-1], notes)
    _judge_cameras(drawn, notes)
    _judge_frames(frames, notes)


def _observations(subject: Subject, env: AnyEnv) -> Any:
    """Yield the observations of the first steps of an episode."""
    every = frozenset(leaf.path for leaf in leaves(env.observation_space))
    for observer in observers(env):
        observer.observing = every
    actions = subject.actions(env)
    yield take_reset(env, subject.seed, subject.options())[0]
    for _ in range(min(_STEPS, subject.length, subject.horizon(env))):
        observation, _, terminated, truncated, _ = take_step(env, actions.sample())
        yield observation
        if terminated or truncated:
            return


def _add_frame(env: AnyEnv, notes: Notes, frames: list[Any]) -> bool:
    """Render; returns whether there is a picture to look at."""
    if env.render_mode != "rgb_array":
        notes.judge("renders", f"The env's render_mode is {env.render_mode!r}.")
        for check in _FRAMES:
            notes.skip(check, "The env renders no pictures.")
        frames.append(None)
        return True
    start = time.perf_counter()
    try:
        frame = env.render()
    except (Exception, SystemExit) as exc:
        notes.judge("renders", f"render() raised {describe(exc)}.")
        return False
    seconds = 1000 * (time.perf_counter() - start)
    notes.figures["frame_ms"] = min(seconds, notes.figures.get("frame_ms", seconds))
    notes.judge("renders", None)
    frames.append(frame)
    return _is_picture(frame, notes)


def _is_picture(frame: Any, notes: Notes) -> bool:
    if not isinstance(frame, np.ndarray):
        return notes.judge("frame-format", f"render() returned a {type(frame).__name__}.")
    good = frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype == np.uint8
    found = f"render() returned {_size(frame)} of {frame.dtype}."
    return notes.judge("frame-format", None if good else found)


def _judge_frames(frames: list[Any], notes: Notes) -> None:
    pictures = [frame for frame in frames if isinstance(frame, np.ndarray)]
    if not pictures or "frame-format" in notes.failed:
        return
    sizes = list(dict.fromkeys(_size(frame) for frame in pictures))
    notes.judge("frame-size", f"Frames of {' and '.join(sizes)}." if len(sizes) > 1 else None)
    blank = all(frame.min() == frame.max() for frame in pictures)
    value = int(pictures[0].flat[0]) if pictures[0].size else 0
    found = f"Every pixel of {len(pictures)} frames is {value}."
    notes.judge("frame-not-black", found if blank else None)


def _judge_cameras(drawn: dict[str, list[Any]], notes: Notes) -> None:
    if not drawn:
        notes.skip("camera-not-black", "The observation has no pictures.")
        return
    blank = [path for path, images in drawn.items() if images and all(_is_blank(i) for i in images)]
    found = f"Every pixel of {', '.join(blank)} is the same in all frames." if blank else None
    notes.judge("camera-not-black", found)


def _compare_camera(env: AnyEnv, observation: Any, frame: Any, notes: Notes) -> None:
    """Compare the frame with the camera that the env says it shows."""
    claimed = (env.metadata or {}).get(RENDER_LEAF)
    keys = leaf_keys(env.observation_space).get(str(claimed))
    if claimed is None or frame is None:
        notes.skip("render-matches-camera", f"The env's metadata has no {RENDER_LEAF!r}.")
    elif keys is None:
        notes.judge("render-matches-camera", f"The observation has no leaf {claimed!r}.")
    else:
        same = np.array_equal(frame, _leaf(observation, keys))
        found = f"render() differs from the observation {claimed!r}."
        notes.judge("render-matches-camera", None if same else found)


def _cameras(space: Any) -> dict[str, tuple[str | int, ...]]:
    """The leaves that are pictures, with the keys that lead to them."""
    keys = leaf_keys(space)
    return {
        leaf.path: keys[leaf.path]
        for leaf in leaves(space)
        if leaf.dtype == np.uint8 and len(leaf.shape) == 3 and min(leaf.shape[:2]) > 1
    }


def _leaf(observation: Any, keys: tuple[str | int, ...]) -> Any:
    for key in keys:
        observation = observation[key]
    return np.array(observation, copy=True)


def _is_blank(image: Any) -> bool:
    return bool(image.size == 0 or image.min() == image.max())


def _size(array: Any) -> str:
    return "x".join(map(str, array.shape)) or "a single number"
