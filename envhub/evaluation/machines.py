"""How the machine of a run differs from this one. Pure."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from envhub.run_info import BenchmarkInfo, MachineInfo, PolicyRuntimeInfo, RunInfo


def compare_machines(recorded: RunInfo, here: RunInfo) -> Iterable[str]:
    """Yield what the last bits of a result can depend on, and differs from the run's machine."""
    told = (_compare_machine(machine, here.machine) for machine in recorded.all_machines)
    yield from dict.fromkeys(chain.from_iterable(told))
    yield from _compare_plugins(recorded.benchmark, here.benchmark)
    packages, ours = recorded.runtime.packages, here.runtime.packages
    for name in sorted({*packages, *ours}):
        if packages.get(name) != ours.get(name):
            yield f"{name} {packages.get(name, 'none')} recorded, {ours.get(name, 'none')} here"
    yield from _compare_policy(recorded.policy.runtime, here.policy.runtime)
    if recorded.runtime.python != here.runtime.python:
        yield f"Python {recorded.runtime.python} recorded, {here.runtime.python} here"


def _compare_machine(recorded: MachineInfo | None, here: MachineInfo | None) -> Iterable[str]:
    if recorded is None:
        yield "the run does not say what machine it was made on"
        return
    for name in ("arch", "cpu", "flags", "libc", "openblas", "gl"):
        old, new = getattr(recorded, name), getattr(here, name)
        if old != new and None not in (old, new):
            yield f"{name} {_words(old)} recorded, {_words(new)} here"


def _compare_policy(
    recorded: PolicyRuntimeInfo | None, here: PolicyRuntimeInfo | None
) -> Iterable[str]:
    """Compare the packages of the policy's process, if the policy itself acts."""
    if recorded is None or here is None:
        return
    for name in sorted({*recorded.packages, *here.packages}):
        old, new = (runtime.packages.get(name, "none") for runtime in (recorded, here))
        if old != new:
            yield f"{name} of the policy {old} recorded, {new} here"


def _compare_plugins(recorded: BenchmarkInfo, here: BenchmarkInfo) -> Iterable[str]:
    if recorded.kind == here.kind == "plugin" and recorded.files != here.files:
        old, new = recorded.files, here.files
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        yield f"{recorded.package} recorded, {here.package} here ({shown})"


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
