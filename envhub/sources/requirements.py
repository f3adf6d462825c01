"""Read the requirements of an env file: a PEP 723 block in it, else `requirements.txt` beside it.

Both are foreign: they are parsed here and never given to a tool. Only plain names with versions and
markers are accepted; URLs and tool settings could make an installer run code.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envhub.errors import ContractError

BESIDE = "requirements.txt"
_COMMENT = re.compile(r"(^|\s)#.*")
_OPEN, _CLOSE = "# /// script", "# ///"
_MAX_BLOCK = 64 * 1024
"""Characters of a block; a list of every package that a simulator needs has a few thousand."""
_MAX_PACKAGES = 500
_MAX_TEXT = 500
"""Characters of one requirement or version specifier."""
_LOCK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_ARCHIVES = (".whl", ".egg", ".zip", ".tar", ".tgz", ".tbz", ".txz", ".gz", ".bz2", ".xz", ".zst")
"""uv takes a name with such an ending for a local file."""
PRINTABLE = re.compile(r"[ -~]+")
"""A string in a marker may contain an escaped line end; the text after it would become a line, and
so a setting, of its own."""


class NotFromAnIndex(ContractError):
    """Something is required that EnvHub does not install: a URL, a file, or an option of pip."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of an env file."""

    python: str | None = None
    """A version specifier, e.g. `>=3.11`."""
    packages: tuple[str, ...] = ()
    """Requirements as PEP 508 writes them."""
    lock: str | None = None
    """The name of a file in the same directory with complete, hashed pins."""
    file: str | None = None
    """The name of the file beside the env file that declares them; None: the env file does."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a file."""

    name: str
    """Of the file."""
    start: int
    """The line of `# /// script`, from 1."""
    lines: tuple[str, ...]
    """The lines after it, without their comment signs."""

    def error(self, problem: str, *near: str) -> ContractError:
        """Return an error that names the first line with one of some texts, else the first line."""
        for text in filter(None, near):
            for number, line in enumerate(self.lines, start=self.start + 1):
                if text in line:
                    return self.error_at(number, problem)
        return self.error_at(self.start, problem)

    def error_at(self, line: int, problem: str) -> ContractError:
        return ContractError(f"{self.name}, line {line}: {problem}")


def requirements_at(path: Path, name: str = "") -> Requirements:
    """Return the requirements of an env file: those of its block, else of the file beside it.

    Args:
        path: The env file.
        name: Its name in errors, if that is another.

    Raises:
        ContractError: Something in them is not accepted; names its line.
        OSError: The env file cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    declared = _read_block(text, name or path.name)
    if declared is not None:
        return declared
    beside = path.with_name(BESIDE)
    if not beside.is_file():
        return Requirements()
    try:
        with beside.open("rb") as file:
            content = file.read(_MAX_BLOCK + 1)
    except OSError as exc:
        raise ContractError(f"{beside} cannot be read: {exc.strerror or exc}.") from exc
    return read_requirements_file(content)


def read_requirements(text: str, name: str = "env.py") -> Requirements:
    """Return the requirements that a file declares in its block; empty if it has no block.

    Raises:
        ContractError: The block contains something that is not accepted; names its line.
    """
    return _read_block(text, name) or Requirements()


def _read_block(text: str, name: str) -> Requirements | None:
    blocks = _find_blocks(text.removeprefix("\ufeff"), name)
    if not blocks:
        return None
    if len(blocks) > 1:
        raise blocks[1].error_at(blocks[1].start, "more than one requirements block.")
    [block] = blocks
    if sum(map(len, block.lines)) > _MAX_BLOCK:
        raise block.error(f"the requirements have more than {_MAX_BLOCK:,} characters.")
    return _check(_parse(block), block)


def read_requirements_file(content: bytes) -> Requirements:
    """Return the requirements in a `requirements.txt`: one per line, without options.

    Raises:
        ContractError: It contains something that is not accepted; names its line.
    """
    if len(content) > _MAX_BLOCK:
        raise ContractError(f"{BESIDE} has more than {_MAX_BLOCK:,} bytes.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ContractError(f"{BESIDE} is not UTF-8 text. Save it as UTF-8.") from exc
    lines = [(number, _COMMENT.sub("", line).strip()) for number, line in logical_lines(text)]
    packages = [_check_line(number, line) for number, line in lines if line]
    if len(packages) > _MAX_PACKAGES:
        problem = f"{len(packages):,} packages are required; at most {_MAX_PACKAGES} may be."
        raise ContractError(f"{BESIDE}: {problem}")
    return Requirements(packages=tuple(packages), file=BESIDE) if packages else Requirements()


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; yield each that is not empty, with the number of its first line."""
    first, joined = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        first = first or number
        joined += " " + line.strip().removesuffix("\\").rstrip()
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            continue
        if joined.strip():
            yield first, joined.strip()
        first, joined = 0, ""
    if joined.strip():
        yield first, joined.strip()


def _check_line(number: int, line: str) -> str:
    """Check a line of `requirements.txt` as an entry of a block is checked."""
    block = _Block(BESIDE, number - 1, (line,))
    if "--hash" in line:
        problem = (
            f"{_shown(line)} has hashes; a complete list of hashed pins is named in the env file, "
            f'by lock = "{BESIDE}" below [tool.envhub] in a PEP 723 block.'
        )
        raise block.error_at(number, problem)
    if line.startswith("-") or re.search(r"\s--?[A-Za-z]", line):
        problem = f"{_shown(line)} is an option; only names with versions and markers are accepted."
        raise NotFromAnIndex(str(block.error_at(number, problem)))
    if "://" in line or line.startswith((".", "/", "~")):
        problem = (
            f"{_shown(line)} is required; only packages from an index are accepted, not URLs or "
            "files."
        )
        raise NotFromAnIndex(str(block.error_at(number, problem)))
    return _check_package(line, block)


def _find_blocks(text: str, name: str) -> list[_Block]:
    """Find what the regular expression of PEP 723 finds, in time that grows with the text only."""
    blocks: list[_Block] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        start, index = index, index + 1
        if lines[start] != _OPEN:
            continue
        close = None
        while index < len(lines) and (lines[index] == "#" or lines[index].startswith("# ")):
            if lines[index] == _CLOSE and index > start + 1:
                close = index  # the last one counts
            index += 1
        if close is not None:
            content = tuple(line[2:] for line in lines[start + 1 : close])
            blocks.append(_Block(name, start + 1, content))
            index = close + 1
    return blocks


def _parse(block: _Block) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(block.lines))
    except RecursionError as exc:
        raise block.error("the requirements are nested too deeply.") from exc
    except ValueError as exc:  # also of numbers that are too long, which tomllib lets through
        problem = f"the requirements are not valid TOML: {_first_line(exc)}."
        at = _TOML_LINE.search(str(exc))
        line = min(int(at[1]), len(block.lines)) if at else len(block.lines)
        raise block.error_at(block.start + line, problem) from exc


_TOML_LINE = re.compile(r"at line (\d+)")


def _check(declared: dict[str, Any], block: _Block) -> Requirements:
    tools = declared.get("tool", {})
    if not isinstance(tools, dict):
        raise block.error(f"tool must be a table, found {_shown(tools)}.", "tool")
    unknown = sorted(declared.keys() - {"dependencies", "requires-python", "tool"})
    unknown += [f"tool.{key}" for key in sorted(tools.keys() - {"envhub"})]
    if unknown:
        raise block.error(
            f"the requirements contain {_shown(unknown[0])}; only requires-python, dependencies "
            "and tool.envhub are accepted.",
            *(unknown[0], unknown[0].removeprefix("tool."), "tool"),
        )
    return Requirements(
        _check_python(declared.get("requires-python"), block),
        _check_packages(declared.get("dependencies", []), block),
        _check_lock(tools.get("envhub", {}), block),
    )


def _check_packages(packages: object, block: _Block) -> tuple[str, ...]:
    if not isinstance(packages, list):
        problem = f"dependencies must be a list of strings, found {_shown(packages)}."
        raise block.error(problem, "dependencies")
    if len(packages) > _MAX_PACKAGES:
        problem = f"{len(packages):,} dependencies are declared; at most {_MAX_PACKAGES} may be."
        raise block.error(problem, "dependencies")
    return tuple(_check_package(package, block) for package in packages)


def _check_package(text: object, block: _Block) -> str:
    if not isinstance(text, str):
        problem = f"dependencies must be a list of strings, but one is {_shown(text)}."
        raise block.error(problem, "dependencies")
    near = (text, "dependencies")
    if len(text) > _MAX_TEXT:
        raise block.error(f"a requirement has more than {_MAX_TEXT} characters.", *near)
    try:
        requirement = Requirement(text)
        if requirement.marker is not None:
            requirement.marker.evaluate({"extra": ""})  # some are well-formed and have no value
    except (ValueError, LookupError, RecursionError) as exc:
        reason = _first_line(exc).rstrip(".") or "it is nested too deeply"
        problem = f"{_shown(text)} is not a valid requirement: {reason}."
        raise block.error(problem, *near) from exc
    if requirement.url is not None or requirement.name.lower().endswith(_ARCHIVES):
        problem = (
            f"{_shown(text)} is required; only packages from an index are accepted, not URLs or "
            "files."
        )
        raise NotFromAnIndex(str(block.error(problem, *near)))
    normalized = str(requirement)
    if not PRINTABLE.fullmatch(normalized):
        problem = f"{_shown(text)} is required; only ASCII in one line is accepted."
        raise block.error(problem, *near)
    return normalized


def _check_python(text: object, block: _Block) -> str | None:
    if text is None:
        return None
    try:
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise InvalidSpecifier(text)
        return str(SpecifierSet(text))
    except ValueError as exc:
        problem = f"requires-python is {_shown(text)}, which is not a version specifier."
        raise block.error(problem, "requires-python") from exc


def _check_lock(table: object, block: _Block) -> str | None:
    if not isinstance(table, dict):
        raise block.error(f"tool.envhub must be a table, found {_shown(table)}.", "envhub", "tool")
    lock = table.get("lock")
    if lock is not None and not (isinstance(lock, str) and _LOCK.fullmatch(lock)):
        problem = f"lock is {_shown(lock)}; it must be the name of a file in its directory."
        raise block.error(problem, "lock", "tool")
    return lock


def _shown(value: object) -> str:
    """A foreign value as it may stand in a sentence."""
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _first_line(exc: BaseException) -> str:
    """The first line of an error's text; packaging draws a picture of the foreign text below."""
    return ascii(str(exc).partition("\n")[0])[1:-1][:200]
