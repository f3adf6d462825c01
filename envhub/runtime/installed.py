"""Check whether the requirements of a benchmark are installed in this interpreter."""

import platform
from collections.abc import Iterable, Iterator
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from envhub.errors import ContractError
from envhub.runtime.pins import Pins
from envhub.sources.requirements import Requirements

NOT_INSTALLED = " (not installed)"
"""Ends the text of an unmet requirement whose package is missing altogether."""
OWN = "envhub-core"
"""EnvHub's own distribution. Runtimes get a copy of the installed one, never one from an index."""
_FOREIGN = "envhub"
"""Another project's package on the index, which would replace EnvHub's package of that name."""
_WORKER_PACKAGES = ("gymnasium", "msgspec", "numpy", "pluggy")
"""The packages that a worker imports besides EnvHub itself."""


def worker_needs() -> tuple[str, ...]:
    """Return the requirements of every worker, in the versions that EnvHub itself requires."""
    declared = [Requirement(text) for text in metadata.requires(OWN) or ()]
    return tuple(
        f"{requirement.name}{requirement.specifier}"
        for requirement in declared
        if requirement.name in _WORKER_PACKAGES and not requirement.marker
    )


def refuse_foreign_envhub(names: Iterable[str], where: str) -> None:
    """Refuse another project's package that is called `envhub` too.

    Raises:
        ContractError: The package is among the names.
    """
    if any(canonicalize_name(name) == _FOREIGN for name in names):
        raise ContractError(
            f"{where} requires {_FOREIGN!r}, which is another project's package; EnvHub's own is "
            f"{OWN}, which every runtime has."
        )


def unmet_requirements(requirements: Requirements) -> tuple[str, ...]:
    """Return the requirements that are not met here, each with the installed version."""
    python = _unmet_python(requirements.python)
    packages = [text for package in requirements.packages for text in _unmet(Requirement(package))]
    return (*python, *dict.fromkeys(packages))


def unmet_pins(pins: Pins) -> tuple[str, ...]:
    """Return the pins that are not met here, each with the installed version."""
    requirements = (Requirement(f"{pin.name}=={pin.version}") for pin in pins.here().pins)
    return tuple(text for requirement in requirements for text in _unmet(requirement))


def find_version(versions: str, pins: Pins | None) -> str | None:
    """Return a package with its version if it is one of some versions, such as `mujoco>=3.4`.

    Args:
        versions: The name of the package, and its versions.
        pins: The packages of a runtime; None: those of this interpreter.
    """
    requirement = Requirement(versions)
    if pins is None:
        found = [d.version for d in metadata.distributions(name=requirement.name)][:1]
    else:
        name = canonicalize_name(requirement.name)
        found = [pin.version for pin in pins.here().pins if pin.name == name]
    fits = found and requirement.specifier.contains(found[0], prereleases=True)
    return f"{requirement.name} {found[0]}" if fits else None


def meets_python(specifier: str | None) -> bool:
    """Whether this interpreter has the required version."""
    version = platform.python_version()
    return specifier is None or SpecifierSet(specifier).contains(version, prereleases=True)


def _unmet_python(specifier: str | None) -> tuple[str, ...]:
    if meets_python(specifier):
        return ()
    return (f"Python {specifier} (found {platform.python_version()})",)


def _unmet(requirement: Requirement, seen: tuple[str, ...] = (), extra: str = "") -> Iterator[str]:
    """Check one requirement, and the requirements of its extras."""
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
        return
    try:
        distribution = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        yield f"{requirement.name}{requirement.specifier}{NOT_INSTALLED}"
        return
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        yield f"{requirement.name}{requirement.specifier} (found {distribution.version})"
        return
    if requirement.name in seen:
        return
    for extra in sorted(requirement.extras):
        for text in distribution.requires or ():
            try:
                of_extra = Requirement(text)
            except InvalidRequirement:  # of an old package, in a syntax that was never specified
                continue
            if of_extra.marker is not None and "extra" in str(of_extra.marker):
                yield from _unmet(of_extra, (*seen, requirement.name), extra)
