"""Read the requirements that an `env.py` declares in a PEP 723 block.

The file is foreign: its block is parsed here and never given to a tool. Only plain names with
versions and markers are accepted; URLs and tool settings could make an installer run code.
"""

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envhub.errors import ContractError

# The regular expression of PEP 723's reference implementation, for the block called "script".
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

PRINTABLE = re.compile(r"[ -~]+")
"""A string in a marker may contain an escaped line end; the text after it would become a line, and
so a setting, of its own."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of an env file."""

    python: str | None = None
    """A version specifier, e.g. `>=3.11`."""
    packages: tuple[str, ...] = ()
    """Requirements as PEP 508 writes them."""
    lock: str | None = None
    """The name of a file in the same directory with complete, hashed pins."""


def read_requirements(text: str, name: str = "env.py") -> Requirements:
    """Return the requirements that a file declares; empty if it has no block.

    Raises:
        ContractError: The block contains something that is not accepted.
    """
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        return Requirements()
    if len(blocks) > 1:
        raise ContractError(f"{name} has more than one requirements block.")
    lines = blocks[0]["content"].splitlines()
    plain = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        declared = tomllib.loads(plain)
    except tomllib.TOMLDecodeError as exc:
        raise ContractError(f"The requirements of {name} are not valid TOML: {exc}.") from exc
    return _check(declared, name)


def _check(declared: dict[str, Any], name: str) -> Requirements:
    unknown = sorted(declared.keys() - {"dependencies", "requires-python", "tool"})
    tools = declared.get("tool", {})
    if not isinstance(tools, dict) or tools.keys() - {"envhub"}:
        unknown.append("tool." + ", tool.".join(sorted(set(tools) - {"envhub"})))
    if unknown:
        raise ContractError(
            f"The requirements of {name} contain {unknown[0]!r}; only requires-python, "
            "dependencies and tool.envhub are accepted."
        )
    packages = declared.get("dependencies", [])
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        raise ContractError(f"The dependencies of {name} must be a list of strings.")
    lock = tools.get("envhub", {}).get("lock")
    if lock is not None and (not isinstance(lock, str) or not re.fullmatch(r"[\w.-]+", lock)):
        raise ContractError(f"The lock of {name} must be the name of a file in its directory.")
    return Requirements(
        _check_python(declared.get("requires-python"), name),
        tuple(_check_package(package, name) for package in packages),
        lock,
    )


def _check_package(text: str, name: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as exc:
        problem = f"{name} requires {text!r}, which is not a valid requirement: {exc}."
        raise ContractError(problem) from exc
    if requirement.url is not None:
        raise ContractError(
            f"{name} requires {text!r}; only packages from an index are accepted, not URLs."
        )
    normalized = str(requirement)
    if not PRINTABLE.fullmatch(normalized):
        raise ContractError(f"{name} requires {text!r}; only ASCII in one line is accepted.")
    return normalized


def _check_python(text: Any, name: str) -> str | None:
    if text is None:
        return None
    try:
        return str(SpecifierSet(text))
    except (InvalidSpecifier, TypeError) as exc:
        problem = f"{name} requires Python {text!r}, which is not a version specifier."
        raise ContractError(problem) from exc
