"""Whether listing tasks and making an env leave the simulator and OpenGL alone. In the worker."""

import re
import sys
import time
from pathlib import Path
from typing import Any

from envhub.errors import EnvHubError
from envhub.observations import features
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import encode_space
from envhub.worker.attributes import horizon_of
from envhub.worker.check.notes import Notes, describe
from envhub.worker.check.subject import Subject

_SIMULATORS = (
    "bddl", "dm_control", "genesis", "gym_aloha", "gym_pusht", "gymnasium_robotics", "isaaclab",
    "isaacsim", "libero", "mani_skill", "metaworld", "mujoco", "mujoco_py", "omni", "pybullet",
    "pymunk", "robosuite", "sapien",
)  # fmt: skip
"""Packages that take long to import, or draw."""
_GL = re.compile(r"/(lib(?:EGL|OSMesa|GLX|GLdispatch|GL|glfw)\.so[^/\n]*)")
"""The libraries that every way of drawing loads."""


def inspect_listing(subject: Subject, notes: Notes) -> None:
    """Look at what loading the benchmark has imported; no env was made yet."""
    if subject.published:
        notes.skip("listing-light", "A LeRobot-style file is read through its envs.")
        notes.judge(
            "success-declared",
            "The file says nowhere whether an episode may go on after success; EnvHub counts any "
            "step's success.",
        )
        return
    imported = sorted(name for name in _SIMULATORS if name in sys.modules)
    drawing = _mapped_gl()
    problem = None
    if imported:
        problem = f"Loading the benchmark imported {', '.join(imported)}."
    elif drawing:
        problem = f"Loading the benchmark loaded {', '.join(drawing)}."
    notes.judge("listing-light", problem)
    notes.judge("success-declared", None)


def inspect_opening(subject: Subject, notes: Notes) -> None:
    """Make an env, look at it, and close it without a reset."""
    before = _mapped_gl()
    start = time.perf_counter()
    try:
        env = subject.make()
    except (Exception, SystemExit) as exc:
        notes.judge("env-made", f"Making the env raised {describe(exc)}.")
        return
    notes.figures["make_s"] = time.perf_counter() - start
    notes.judge("env-made", None)
    loaded = sorted(set(_mapped_gl()) - set(before))
    problem = f"Making the env loaded {', '.join(loaded)}." if loaded else None
    if before:
        notes.skip("no-gl-before-reset", "OpenGL was loaded with the benchmark.")
    else:
        notes.judge("no-gl-before-reset", problem)
    _check_spaces(subject, env, notes)
    _check_horizon(subject, env, notes)
    try:
        env.close()
        problem = None
    except (Exception, SystemExit) as exc:
        problem = f"close() of an env that was never reset raised {describe(exc)}."
    notes.judge("close-unused", problem)


def _check_spaces(subject: Subject, env: AnyEnv, notes: Notes) -> None:
    for name in ("observation_space", "action_space"):
        try:
            encode_space(getattr(env, name))
        except (Exception, SystemExit) as exc:
            notes.judge("spaces-supported", f"The env's {name}: {describe(exc)}.")
            return
    notes.judge("spaces-supported", None)
    declared = subject.loaded.spaces(subject.task)
    if declared is None:
        notes.skip("spaces-declared", "The benchmark declares no function `spaces`.")
    else:
        notes.judge("spaces-declared", _difference(declared, env))
    notes.judge("action-bounded", _unbounded(env.action_space))
    _check_features(subject, env, notes)


def _difference(declared: tuple[Any, Any], env: AnyEnv) -> str | None:
    made = (env.observation_space, env.action_space)
    for kind, said, found in zip(("observation", "action"), declared, made, strict=True):
        if said != found:
            return f"The declared {kind} space is {said}; that of the env is {found}."
    return None


def _unbounded(space: Any) -> str | None:
    bounded = getattr(space, "is_bounded", None)
    if bounded is None or bounded():
        return None
    return f"The action space is {space}."


def _check_features(subject: Subject, env: AnyEnv, notes: Notes) -> None:
    """Look at the names that a LeRobot policy would find."""
    try:
        if subject.loaded.benchmark.lerobot is None:
            names = [feature.name for feature in features(env.observation_space)]
        else:
            names = [*subject.loaded.converter(env.observation_space).space.spaces]
    except (Exception, SystemExit) as exc:
        text = str(exc) if isinstance(exc, EnvHubError) else describe(exc)
        notes.judge("lerobot-converts", text)
        return
    notes.judge("lerobot-converts", None)
    missing = [] if "observation.state" in names else ["observation.state"]
    if not any(name.startswith("observation.image") for name in names):
        missing.append("observation.image")
    shape = getattr(env.action_space, "shape", None)
    if len(shape or ()) != 1 or getattr(env.action_space.dtype, "kind", "") != "f":
        missing.append("an action of one axis of floats")
    found = f"The features are {', '.join(names)}; missing: {', '.join(missing)}."
    notes.judge("lerobot-complete", found if missing else None)


def _check_horizon(subject: Subject, env: AnyEnv, notes: Notes) -> None:
    horizon, own = subject.loaded.horizon(env, subject.task), horizon_of(env)
    problem = None
    if horizon is None or subject.task.name in subject.loaded.without_horizon:
        problem = "The env says nowhere after how many steps an episode ends."
    elif own is not None and own < horizon:
        problem = f"The task's horizon is {horizon}, but the env ends episodes after {own} steps."
    notes.judge("horizon", problem)


def _mapped_gl() -> list[str]:
    """The GL libraries that this process has loaded."""
    return sorted(set(_GL.findall(Path("/proc/self/maps").read_text())))
