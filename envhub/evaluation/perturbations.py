"""`--perturb`: what a run changes of its benchmark, by how much, and whose code does it."""

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace as changed

from envhub.arguments import check_instructions
from envhub.declarations import Perturbation
from envhub.discovery import Installed, find_perturbation, installed_perturbations
from envhub.errors import ContractError, UnknownName, UsageError
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import close_workers
from envhub.options import Limits
from envhub.run_info import PerturbationInfo
from envhub.sources.fingerprint import digest_of, hash_installed
from envhub.types import PluginSource, WorkerSpec
from envhub.wire.messages import PerturbationsLoaded

Strength = float | Mapping[str, tuple[str, ...]]
"""A number, or texts by task."""


def check_perturbations(name: str, value: object) -> dict[str, Strength]:
    """Return strengths by the names of perturbations; those of strength 0 change nothing.

    Args:
        name: Of the argument, for errors.
        value: A mapping of names to numbers, or to texts by task.

    Raises:
        UsageError: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} must be a mapping such as {{'camera': 0.05}}, found {value!r}.")
    found: dict[str, Strength] = {}
    for key, strength in value.items():
        if isinstance(strength, Mapping):
            found[str(key)] = check_instructions(f"{name}, {key}", strength)
        elif type(strength) in (int, float) and 0 <= strength < math.inf:
            found[str(key)] = float(strength)
        else:
            raise UsageError(
                f"{name}, {key}: a strength is a number from 0 on, found {strength!r}."
            )
    return {key: found[key] for key in sorted(found)}


def find_perturbations(strengths: Mapping[str, Strength]) -> dict[str, Installed]:
    """Return the plugins of perturbations that change something.

    Raises:
        UnknownName: One is not installed, also if its strength is 0.
    """
    found = {name: find_perturbation(name) for name in strengths}
    return {name: plugin for name, plugin in found.items() if strengths[name] != 0}


def effective(strengths: Mapping[str, Strength]) -> dict[str, float | dict[str, list[str]]]:
    """Return the strengths that workers are told: those that change something."""
    return {
        name: strength if isinstance(strength, float) else {t: [*s] for t, s in strength.items()}
        for name, strength in strengths.items()
        if strength != 0
    }


def plan_perturbations(
    strengths: Mapping[str, Strength], declared: Iterable[Perturbation]
) -> dict[str, PerturbationInfo]:
    """Return what `run.json` says of perturbations.

    Args:
        strengths: What is asked for.
        declared: What a worker has found that they declare.

    Raises:
        UsageError: A strength is too great, or texts are given where there are none.
        ContractError: The worker left one out.
    """
    known = {each.name: each for each in declared}
    for name in effective(strengths):
        if name not in known:  # its code runs beside the benchmark's, which may be hostile
            raise ContractError(f"The worker does not say what the perturbation {name} is.")
    return {
        name: _plan(known[name], strengths[name], plugin)
        for name, plugin in find_perturbations(strengths).items()
    }


def foresee_perturbations(
    strengths: Mapping[str, Strength], before: Mapping[str, PerturbationInfo]
) -> dict[str, PerturbationInfo]:
    """Return the same as far as it is known before any code is executed.

    Args:
        strengths: What is asked for.
        before: What `run.json` says; what is not known yet is as it was.

    Raises:
        UnknownName: One is not installed; says of which package it was, if that is recorded.
    """
    found: dict[str, PerturbationInfo] = {}
    for name, strength in effective(strengths).items():
        was = before.get(name)
        try:
            plugin = find_perturbation(name)
        except UnknownName as exc:
            if was is None:
                raise
            raise UsageError(f"The run was perturbed by {name} of {was.package}. {exc}") from exc
        info = _describe(strength, plugin)
        found[name] = info if was is None else changed(
            info, version=was.version, changes=was.changes
        )  # fmt: skip
    return found


def list_perturbations() -> list[tuple[Installed, Perturbation]]:
    """Return the installed perturbations with what they declare, which a worker reads.

    Raises:
        WorkerError: The code of one cannot be used.
    """
    every = installed_perturbations()
    names = tuple(each.name for each in every)
    if not names:
        return []
    spec = WorkerSpec(PluginSource("perturbations"), {}, Limits(), makes_envs=False, alone=True)
    remote = RemoteEnv("the worker", spec)
    try:
        remote.load_perturbations(names)
        loaded = remote.answer(PerturbationsLoaded).perturbations
    finally:
        close_workers([remote.worker], limit=spec.limits.close)
    declared = {each.name: each for each in loaded}
    return [(plugin, declared[plugin.name]) for plugin in every if plugin.name in declared]


def strengths_of(recorded: Mapping[str, PerturbationInfo]) -> dict[str, Strength]:
    """Return what a run asked for."""
    return check_perturbations("perturb", {name: info.strength for name, info in recorded.items()})


def _plan(declared: Perturbation, strength: Strength, plugin: Installed) -> PerturbationInfo:
    if isinstance(strength, Mapping):
        if not declared.texts:
            raise UsageError(
                f"--perturb {declared.name} takes a number from 0 to {declared.most:g}, not texts."
            )
    elif strength > declared.most:
        raise UsageError(
            f"--perturb {declared.name} is a number from 0 to {declared.most:g}, found "
            f"{strength:g}: {declared.description}"
        )
    info = _describe(effective({declared.name: strength})[declared.name], plugin)
    return changed(info, version=declared.version, changes=list(declared.changes))


def _describe(strength: float | dict[str, list[str]], plugin: Installed) -> PerturbationInfo:
    return PerturbationInfo(
        strength=strength,
        version="",
        package=f"{plugin.distribution} {plugin.version}",
        code=digest_of(hash_installed(plugin)),
        changes=[],
    )
