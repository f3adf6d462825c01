"""A complete list of pins: every package in one version, with the allowed hashes of its files.

    mujoco==3.3.0 ; python_version < "3.13" --hash=sha256:... --hash=sha256:...
    # envhub: build bddl                        only in a plugin's own file

The text may be foreign, so nothing else is accepted: no addresses, no options, no other files.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envhub.errors import ContractError
from envhub.sources.requirements import PRINTABLE, logical_lines

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*(?P<version>[^\s;]+)"
    r"(?:\s*;\s*(?P<marker>.*?))?(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)"
)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_BUILD = re.compile(r"#\s*envhub:\s*build\s+([A-Za-z0-9][A-Za-z0-9._-]*)\s*")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package in one version."""

    name: str
    """The normalized name, e.g. `farama-notifications`."""
    version: str
    hashes: tuple[str, ...]
    marker: str | None = None

    def applies(self, markers: Mapping[str, str] | None = None) -> bool:
        """Whether the marker, if there is one, is true for an interpreter; None: for this one."""
        environment = None if markers is None else dict(markers)
        return self.marker is None or Marker(self.marker).evaluate(environment)

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" --hash={digest}" for digest in self.hashes)
        return f"{self.name}=={self.version}{marker}{hashes}"


@dataclass(frozen=True, slots=True)
class Pins:
    """The packages of a runtime."""

    pins: tuple[Pin, ...]
    build: tuple[str, ...] = ()
    """The names of packages that may be built from source, which runs their code."""

    def here(self) -> "Pins":
        """Return the pins that apply to this interpreter and platform, sorted by name."""
        return self.applying(None)

    def applying(self, markers: Mapping[str, str] | None) -> "Pins":
        """Return the pins that apply to an interpreter with these markers, sorted by name."""
        pins = sorted((pin for pin in self.pins if pin.applies(markers)), key=lambda pin: pin.name)
        return Pins(tuple(pins), self.build)

    def text(self) -> str:
        """Return the pins in the format of a file."""
        lines = [*(f"# envhub: build {name}" for name in self.build), *map(str, self.pins)]
        return "".join(f"{line}\n" for line in lines)

    @property
    def digest(self) -> str:
        """The sha256 of the text."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def parse_pins(text: str, name: str, *, may_build: bool = False) -> Pins:
    """Read a list of pins.

    Args:
        text: The list.
        name: The name of the list in errors.
        may_build: Whether the list may name packages that are built from source.

    Raises:
        ContractError: A line is not a pin; names the line.
    """
    pins: dict[tuple[str, str | None], Pin] = {}
    build: set[str] = set()
    for number, line in logical_lines(text):
        where = f"{name}, line {number}"
        directive = _BUILD.fullmatch(line)
        if directive and not may_build:
            problem = f"{where}: only a plugin's own file may have packages built from source."
            raise ContractError(problem)
        if directive:
            build.add(str(canonicalize_name(directive[1])))
        elif not line.startswith("#"):
            pin = _parse_pin(line, where)
            if (pin.name, pin.marker) in pins:
                raise ContractError(f"{where}: {pin.name} is pinned twice.")
            pins[pin.name, pin.marker] = pin
    names = {pin.name for pin in pins.values()}
    for unpinned in sorted(build - names):
        raise ContractError(f"{name} says to build {unpinned}, but does not pin it.")
    return Pins(tuple(pins.values()), tuple(sorted(build)))


def _parse_pin(line: str, where: str) -> Pin:
    text = re.sub(r"\s+#.*", "", line)
    match = _LINE.fullmatch(text)
    if match is None:
        raise ContractError(
            f"{where}: {text[:80]!r} is not NAME==VERSION --hash=sha256:...; a complete list of "
            "pins contains nothing else."
        )
    try:
        version = str(Version(match["version"]))
        marker = str(Marker(match["marker"])) if match["marker"] else None
    except (InvalidVersion, InvalidMarker) as exc:
        raise ContractError(f"{where}: {text[:80]!r} is not valid: {exc}.") from exc
    if marker and not PRINTABLE.fullmatch(marker):
        raise ContractError(f"{where}: {text[:80]!r} is not plain ASCII in one line.")
    name = str(canonicalize_name(match["name"]))
    return Pin(name, version, tuple(sorted(_HASH.findall(match["hashes"]))), marker)
