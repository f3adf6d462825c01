"""Whether what a benchmark requires is installed here."""

import platform
from collections.abc import Iterable, Iterator
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from envhub.errors import ContractError
from envhub.runtime.pins import Pins
from envhub.sources.requirements import Requirements

OWN = "envhub-core"
"""EnvHub's own distribution. Runtimes get a copy of it, whatever an index has of that name."""

_ANOTHER = "envhub"
"""A name on the index that is someone else's, whose package would stand where EnvHub's does."""

_NEEDS = ("gymnasium", "msgspec", "numpy", "pluggy")
"""What a worker imports besides EnvHub itself."""


def worker_needs() -> tuple[str, ...]:
    """What every runtime must hold, in the versions that EnvHub itself requires."""
    declared = [Requirement(text) for text in metadata.requires(OWN) or ()]
    return tuple(f"{r.name}{r.specifier}" for r in declared if r.name in _NEEDS and not r.marker)


def refuse_another(names: Iterable[str], where: str) -> None:
    """Refuse the package on the index that is not ours, though it is called so.

    Raises:
        ContractError: It is among the names.
    """
    if any(canonicalize_name(name) == _ANOTHER for name in names):
        raise ContractError(
            f"{where} requires {_ANOTHER!r}, which is another project's package; EnvHub's own is "
            f"{OWN}, and need not be required."
        )


def unmet_requirements(requirements: Requirements) -> tuple[str, ...]:
    """What is required and is not so here, each with what was found."""
    python = _unmet_python(requirements.python)
    found = [one for text in requirements.packages for one in _unmet(Requirement(text), ())]
    return (*python, *dict.fromkeys(found))


def unmet_pins(pins: Pins) -> tuple[str, ...]:
    """What is pinned and is not so here, each with what was found."""
    wanted = (Requirement(f"{pin.name}=={pin.version}") for pin in pins.here().pins)
    return tuple(one for requirement in wanted for one in _unmet(requirement, ()))


def meets_python(specifier: str | None) -> bool:
    """Whether this interpreter has the version that is required."""
    version = platform.python_version()
    return specifier is None or SpecifierSet(specifier).contains(version, prereleases=True)


def _unmet_python(specifier: str | None) -> tuple[str, ...]:
    if meets_python(specifier):
        return ()
    return (f"Python {specifier} (here is {platform.python_version()})",)


def _unmet(wanted: Requirement, seen: tuple[str, ...], extra: str = "") -> Iterator[str]:
    """One requirement, and what its extras require in turn."""
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
        return
    try:
        found = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        yield f"{wanted.name}{wanted.specifier} (not installed)"
        return
    if not wanted.specifier.contains(found.version, prereleases=True):
        yield f"{wanted.name}{wanted.specifier} (here is {found.version})"
        return
    if wanted.name in seen:
        return
    for extra in sorted(wanted.extras):
        for text in found.requires or ():
            try:
                further = Requirement(text)
            except InvalidRequirement:  # of an old package; what it means nobody knows
                continue
            if further.marker is not None and "extra" in str(further.marker):
                yield from _unmet(further, (*seen, wanted.name), extra)
