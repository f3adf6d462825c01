"""Whether close gives back what an env took, and a new env works afterwards. In the worker."""

import ctypes
import gc
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from envhub.wire.normalize import AnyEnv
from envhub.worker.check.notes import Notes, describe
from envhub.worker.check.subject import Subject
from envhub.worker.envcalls import take_reset, take_step

_WARM_UP = 2
"""Cycles in which caches may fill."""
_LEAK_MB = 1.0
"""Growth per cycle; allocators return less than that late or never."""
_PATIENCE = 2.0
"""Seconds in which processes and threads that were told to end do so; in vain only once."""
_CONTEXTS = frozenset({"GLContext", "EGLGLContext", "OSMesaGLContext", "GLFWGLContext"})
"""The classes that MuJoCo and robosuite draw with; a freed one has no `_context`."""


@dataclass(frozen=True, slots=True)
class _Usage:
    """What this process holds."""

    memory_mb: float
    descriptors: int
    processes: int
    threads: int
    contexts: int


_CHECKS = {
    "close-frees-memory": ("memory_mb", _LEAK_MB, "MB of memory"),
    "close-frees-descriptors": ("descriptors", 1, "open files"),
    "close-frees-processes": ("processes", 1, "processes"),
    "close-frees-threads": ("threads", 1, "threads"),
    "close-frees-gl": ("contexts", 1, "GL contexts"),
}
"""What is measured, what growth per cycle is a leak, and its name."""


def inspect_closing(subject: Subject, notes: Notes) -> None:
    """Make, use and close envs, and look at what each cycle leaves behind."""
    held: list[_Usage] = []
    contexts, patience = 0, _PATIENCE
    for number in range(subject.cycles):
        try:
            contexts = max(contexts, _cycle(subject, notes, number))
        except (Exception, SystemExit) as exc:
            check = "reopens" if number else "close-works"
            said = f"Cycle {number} of make, reset, step, render and close: {describe(exc)}."
            notes.judge(check, said)
            return
        start = time.monotonic()
        held.append(_settled(held[-1] if held else None, patience))
        if time.monotonic() - start > _PATIENCE:
            patience = 0.0  # what ends later than that is of an earlier cycle, and no growth
    notes.judge("close-works", None)
    notes.judge("reopens", None)
    for check, (name, least, noun) in _CHECKS.items():
        if check == "close-frees-gl" and not contexts:
            notes.skip(check, "No GL context of MuJoCo or robosuite was seen.")
        else:
            notes.judge(check, _growth([getattr(each, name) for each in held], least, noun))


def _cycle(subject: Subject, notes: Notes, number: int) -> int:
    """Use one env; returns the GL contexts that it had."""
    env = subject.make()
    start = time.perf_counter()
    take_reset(env, subject.seed + number, subject.options(number))
    notes.figures["reset_s"] = time.perf_counter() - start
    take_step(env, subject.actions(env).sample())
    if env.render_mode == "rgb_array":
        env.render()
    contexts = _contexts()
    env.close()
    _close_again(env, notes)
    return contexts


def _close_again(env: AnyEnv, notes: Notes) -> None:
    try:
        env.close()
    except (Exception, SystemExit) as exc:
        notes.judge("close-twice", f"The second close() raised {describe(exc)}.")
    else:
        notes.judge("close-twice", None)


def _growth(values: list[float], least: float, noun: str) -> str | None:
    """Say how much each cycle leaves behind; None unless every cycle does."""
    steps = [after - before for before, after in pairwise(values)]
    grown = min(steps[_WARM_UP - 1 :], default=0)
    if grown < least:
        return None
    shown = ", ".join(f"{value:.0f}" for value in values)
    return f"{noun} after each of {len(values)} cycles: {shown}."


def _settled(before: _Usage | None, patience: float) -> _Usage:
    """Measure; wait a little for processes and threads that are about to end."""
    deadline = time.monotonic() + patience
    while True:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        held = _Usage(
            _resident_mb(),
            len(list(Path("/proc/self/fd").iterdir())),
            _children(),
            len(list(Path("/proc/self/task").iterdir())),
            _contexts(),
        )
        if before is None or time.monotonic() > deadline:
            return held
        if held.processes <= before.processes and held.threads <= before.threads:
            return held
        time.sleep(0.05)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _children() -> int:
    files = Path("/proc/self/task").glob("*/children")
    return sum(len(file.read_text().split()) for file in files)


def _contexts() -> int:
    """GL contexts that were made and not freed."""
    objects = gc.get_objects()
    # There are many objects and few classes: looking at the classes takes half the time.
    kinds = {kind for kind in set(map(type, objects)) if _is_context(kind)}
    found = [each for each in objects if type(each) in kinds] if kinds else []
    return sum(getattr(each, "_context", None) is not None for each in found)


def _is_context(kind: type[Any]) -> bool:
    named = kind.__name__ in _CONTEXTS
    return named and kind.__module__.startswith(("mujoco", "robosuite"))
