"""A complete list of pins: every package in one version, with the hashes that its files may have.

    mujoco==3.3.0 ; python_version < "3.13" --hash=sha256:... --hash=sha256:...
    # envhub: build bddl                        only in a plugin's own file

The text may be foreign, so nothing else is accepted: no addresses, no options, no other files.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envhub.errors import ContractError
from envhub.sources.requirements import PRINTABLE

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
    """In its normal form, e.g. `farama-notifications`."""
    version: str
    hashes: tuple[str, ...]
    marker: str | None = None

    @property
    def applies(self) -> bool:
        """Whether its marker, if it has one, is true for this interpreter and platform."""
        return self.marker is None or Marker(self.marker).evaluate()

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" --hash={one}" for one in self.hashes)
        return f"{self.name}=={self.version}{marker}{hashes}"


@dataclass(frozen=True, slots=True)
class Pins:
    """What a runtime consists of."""

    pins: tuple[Pin, ...]
    build: tuple[str, ...] = ()
    """Those that may be built from source, which runs code of theirs."""

    def here(self) -> "Pins":
        """Those that apply to this interpreter and platform, in order of their names."""
        applying = sorted((pin for pin in self.pins if pin.applies), key=lambda pin: pin.name)
        return Pins(tuple(applying), self.build)

    def text(self) -> str:
        """As a file has it."""
        lines = [*(f"# envhub: build {name}" for name in self.build), *map(str, self.pins)]
        return "".join(f"{line}\n" for line in lines)

    @property
    def digest(self) -> str:
        """The same for pins that mean the same."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def parse_pins(text: str, name: str, *, may_build: bool = False) -> Pins:
    """Read a list of pins.

    Args:
        text: The list.
        name: What errors call it.
        may_build: Whether it may name packages that are built from source.

    Raises:
        ContractError: It holds something else; names the line.
    """
    found: dict[tuple[str, str | None], Pin] = {}
    build: set[str] = set()
    for number, line in _lines(text):
        where = f"{name}, line {number}"
        directive = _BUILD.fullmatch(line)
        if directive and not may_build:
            problem = f"{where}: only a plugin's own file may have packages built from source."
            raise ContractError(problem)
        if directive:
            build.add(str(canonicalize_name(directive[1])))
        elif not line.startswith("#"):
            pin = _pin(line, where)
            if (pin.name, pin.marker) in found:
                raise ContractError(f"{where}: {pin.name} is pinned twice.")
            found[pin.name, pin.marker] = pin
    names = {pin.name for pin in found.values()}
    for built in sorted(build - names):
        raise ContractError(f"{name} says to build {built}, but does not pin it.")
    return Pins(tuple(found.values()), tuple(sorted(build)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, with those that they go on in, and the number of the first."""
    started, held = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        started = started or number
        held += " " + line.strip().removesuffix("\\").rstrip()
        if line.rstrip().endswith("\\"):
            continue
        if held.strip():
            yield started, held.strip()
        started, held = 0, ""
    if held.strip():
        yield started, held.strip()


def _pin(line: str, where: str) -> Pin:
    plain = re.sub(r"\s+#.*", "", line)
    match = _LINE.fullmatch(plain)
    if match is None:
        raise ContractError(
            f"{where}: {plain[:80]!r} is not NAME==VERSION --hash=sha256:...; a complete list of "
            "pins holds nothing else."
        )
    try:
        version = str(Version(match["version"]))
        marker = str(Marker(match["marker"])) if match["marker"] else None
    except (InvalidVersion, InvalidMarker) as exc:
        raise ContractError(f"{where}: {plain[:80]!r} makes no sense: {exc}.") from exc
    if marker and not PRINTABLE.fullmatch(marker):
        raise ContractError(f"{where}: {plain[:80]!r} is no plain ASCII in one line.")
    name = str(canonicalize_name(match["name"]))
    return Pin(name, version, tuple(sorted(_HASH.findall(match["hashes"]))), marker)
