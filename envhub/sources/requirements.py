"""The requirements that an `env.py` declares, in a block after PEP 723.

The file is foreign: its block is parsed here, never given to a tool. Only plain names with versions
and markers are accepted; direct addresses and settings of tools could make an installer run code.
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
"""A text in a marker may hold escapes that stand for the end of a line: what follows it would be a
line, and so a setting, of its own."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """What an env file needs."""

    python: str | None = None
    """A version specifier, e.g. `>=3.11`."""
    packages: tuple[str, ...] = ()
    """Requirements as PEP 508 writes them."""
    lock: str | None = None
    """The name of a file beside it with complete, hashed pins."""


def read_requirements(text: str, name: str = "env.py") -> Requirements:
    """What a file declares; nothing if it has no block.

    Raises:
        ContractError: The block says what is not accepted.
    """
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        return Requirements()
    if len(blocks) > 1:
        raise ContractError(f"{name} has more than one block of requirements.")
    lines = blocks[0]["content"].splitlines()
    plain = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        declared = tomllib.loads(plain)
    except tomllib.TOMLDecodeError as exc:
        raise ContractError(f"The requirements of {name} are no TOML: {exc}.") from exc
    return _accept(declared, name)


def _accept(declared: dict[str, Any], name: str) -> Requirements:
    unknown = sorted(declared.keys() - {"dependencies", "requires-python", "tool"})
    tools = declared.get("tool", {})
    if not isinstance(tools, dict) or tools.keys() - {"envhub"}:
        unknown.append("tool." + ", tool.".join(sorted(set(tools) - {"envhub"})))
    if unknown:
        raise ContractError(
            f"The requirements of {name} have {unknown[0]!r}; accepted are requires-python, "
            "dependencies and tool.envhub."
        )
    packages = declared.get("dependencies", [])
    if not isinstance(packages, list) or not all(isinstance(one, str) for one in packages):
        raise ContractError(f"The dependencies of {name} must be a list of texts.")
    lock = tools.get("envhub", {}).get("lock")
    if lock is not None and (not isinstance(lock, str) or not re.fullmatch(r"[\w.-]+", lock)):
        raise ContractError(f"The lock of {name} must be the name of a file beside it.")
    return Requirements(
        _python(declared.get("requires-python"), name),
        tuple(_plain(one, name) for one in packages),
        lock,
    )


def _plain(text: str, name: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as exc:
        raise ContractError(f"{name} requires {text!r}, which is no requirement: {exc}.") from exc
    if requirement.url is not None:
        raise ContractError(
            f"{name} requires {text!r}; only packages of an index are accepted, no addresses."
        )
    plain = str(requirement)
    if not PRINTABLE.fullmatch(plain):
        raise ContractError(f"{name} requires {text!r}; only plain ASCII in one line is accepted.")
    return plain


def _python(text: Any, name: str) -> str | None:
    if text is None:
        return None
    try:
        return str(SpecifierSet(text))
    except (InvalidSpecifier, TypeError) as exc:
        raise ContractError(f"{name} requires Python {text!r}, which is no version.") from exc
