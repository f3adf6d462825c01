"""`--latency`: how long a policy thinks while the simulated world goes on."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envhub.conventions import Convention
from envhub.declarations import Benchmark
from envhub.errors import RunDirectoryError, UsageError
from envhub.options import Delays, LatencyMode
from envhub.results.journal import read_run
from envhub.results.latency import Latency
from envhub.results.schema import parse_run
from envhub.run_info import LatencyPlanInfo

MAX_SECONDS = 3600.0

_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s)?")
_MODES: tuple[LatencyMode, ...] = ("wait", "overlap")

_STILL_AT_ZERO = (
    "ee_delta_pose", "ee_delta_position", "ee_velocity", "joint_delta", "joint_velocity",
    "joint_torque", "base_velocity",
)  # fmt: skip
_STILL_WHERE_IT_IS = ("ee_pose", "ee_position", "joint_position")


@dataclass(frozen=True, slots=True)
class LatencyRequest:
    """What `--latency` asks for."""

    seconds: float | None
    """None: as in a run."""
    counts: Mapping[float, int]
    """Of such a run: the durations of its calls, and how many took so long."""
    mode: LatencyMode = "wait"
    hz: float | None = None
    """Actions per second, for a benchmark that declares none."""


def parse_latency(text: str) -> tuple[LatencyRequest, ...]:
    """Return what `--latency` asks for: one latency, or several that are compared.

    Args:
        text: `120ms`, `0,25,50ms` or the directory of a run, then perhaps `,mode=overlap` and
            `,hz=20`.

    Raises:
        UsageError: It is something else.
        RunDirectoryError: The directory has no run, or one whose calls were not measured.
    """
    values = [part.strip() for part in text.split(",")]
    options = [value for value in values if "=" in value and _NUMBER.fullmatch(value) is None]
    values = [value for value in values if value not in options]
    mode, hz = _read_options(text, options)
    if not values or not all(values):
        raise UsageError(f"--latency names no time: {_EXAMPLE}, found {text!r}.")
    numbers = [_NUMBER.fullmatch(value) for value in values]
    if not all(numbers):
        if len(values) > 1:
            wrong = next(v for v, n in zip(values, numbers, strict=True) if n is None)
            raise UsageError(f"--latency: {wrong!r} is no time: {_EXAMPLE}.")
        return (LatencyRequest(None, _read_durations(Path(values[0])), mode, hz),)
    unit = numbers[-1][2] if numbers[-1] else None
    found = [
        _seconds(float(number[1]), number[2] or unit, text)
        for number in numbers
        if number is not None
    ]
    if len(set(found)) != len(found):
        raise UsageError(f"--latency names a time twice: {text!r}.")
    return tuple(LatencyRequest(seconds, {}, mode, hz) for seconds in found)


def plan_latency(
    asked: LatencyRequest | LatencyPlanInfo | None, benchmark: Benchmark
) -> LatencyPlanInfo | None:
    """Return how late the policy's actions are on a benchmark; None: the world waits for it.

    Args:
        asked: What is asked for, or what a run has recorded.
        benchmark: The benchmark.

    Raises:
        UsageError: The benchmark does not say how long a step is, or how its robot holds still.
    """
    if asked is None or isinstance(asked, LatencyPlanInfo):
        return asked
    hz = benchmark.control_hz or asked.hz
    if not hz:
        raise UsageError(
            f"{benchmark.name} declares no control_hz, so nobody knows how many steps a latency "
            "is. Say how many actions a second are taken: --latency 120ms,hz=20."
        )
    if asked.hz and asked.hz != hz:
        raise UsageError(
            f"{benchmark.name} takes {hz:g} actions a second; leave hz={asked.hz:g} out of "
            "--latency."
        )
    counts = asked.counts or {asked.seconds or 0.0: 1}
    steps = Counter[int]()
    for seconds, count in counts.items():
        steps[_steps(seconds, hz)] += count
    if set(steps) == {0}:
        return None
    keeps, hold = _kept_in(benchmark.known_conventions), benchmark.hold
    assert not isinstance(hold, str)  # a worker has asked for it
    if keeps is None and not hold:
        raise UsageError(
            f"{benchmark.name} does not say how its robot holds still while a policy thinks: its "
            "author declares it, as hold=(0, 0, 0, -1) or by the convention control. --latency "
            "cannot be used with it until then."
        )
    if keeps == "all" and not hold:
        raise UsageError(
            f"The actions of {benchmark.name} are positions, and it does not declare the one that "
            "its robot begins at (hold=), so that --latency cannot be used with it."
        )
    return LatencyPlanInfo(
        mode=asked.mode,
        seconds=asked.seconds,
        hz=float(hz),
        steps=sorted(steps.items()),
        hold=[float(number) for number in hold],
        keeps=keeps or "none",
    )


def delays_of(latency: LatencyPlanInfo | None) -> Delays | None:
    """Return the rule that workers and policies follow."""
    if latency is None:
        return None
    return Delays(latency.mode, tuple(latency.steps), tuple(latency.hold), latency.keeps)


_EXAMPLE = "write 120ms, 0.12s, 0,25,50ms or the directory of a run"


def _read_options(text: str, options: list[str]) -> tuple[LatencyMode, float | None]:
    mode: LatencyMode = "wait"
    hz: float | None = None
    for option in options:
        name, _, value = option.partition("=")
        if name == "mode":
            chosen = next((known for known in _MODES if known == value), None)
            if chosen is None:
                raise UsageError(f"--latency: mode is wait or overlap, found {value!r}.")
            mode = chosen
        elif name == "hz":
            try:
                hz = float(value)
            except ValueError:
                hz = math.nan
            if not 0 < hz < math.inf:
                raise UsageError(f"--latency: hz is a positive number, found {value!r}.")
        else:
            raise UsageError(
                f"--latency: {name!r} is none of its options, mode and hz, in {text!r}."
            )
    return mode, hz


def _seconds(number: float, unit: str | None, text: str) -> float:
    if unit is None and number:
        raise UsageError(f"--latency needs a unit: {text}ms, or {text}s.")
    seconds = number / 1000 if unit == "ms" else number
    if seconds > MAX_SECONDS:
        raise UsageError(f"--latency is at most {MAX_SECONDS:g}s, found {text!r}.")
    return seconds


def _steps(seconds: float, hz: float) -> int:
    # 50 ms at 20 Hz is one step, whatever the last bits of 0.05 * 20 are.
    return math.ceil(round(seconds * hz, 9))


def _read_durations(directory: Path) -> dict[float, int]:
    if not (directory / "run.json").is_file():
        raise UsageError(
            f"--latency: {str(directory)!r} is no time and no run's directory: {_EXAMPLE}."
        )
    info = parse_run(read_run(directory), directory)
    durations = Latency(info.policy.latency).durations()
    if not durations:
        raise RunDirectoryError(
            f"The calls of {directory}'s policy were not measured: it acted in the workers, or the "
            "run has not ended. Name a time instead, as in --latency 120ms."
        )
    return {min(seconds, MAX_SECONDS): count for seconds, count in durations.items()}


def _kept_in(conventions: Mapping[str, Convention]) -> Literal["none", "gripper", "all"] | None:
    """Return what of the last action a robot keeps that holds still; None: nobody knows."""
    control = conventions.get("control")
    if control in _STILL_WHERE_IT_IS:
        return "all"
    if control not in _STILL_AT_ZERO:
        return None
    has_gripper = conventions.get("gripper", "none") != "none"
    return "gripper" if has_gripper else "none"
