"""Text to reference, and back. Pure: nothing is looked up, opened or asked for.

metaworld                      an installed plugin's benchmark
./my_env  ./my_env/env.py      a local directory (its env.py) or file
owner/repo@<40 hex>:path.py    a Hub repository at a commit; path defaults to env.py
hf://owner/repo@...            the same, spelled out
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import NoReturn

from envhub.errors import InvalidReference
from envhub.types import NAME

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ALMOST_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
# The Hub's own rule for owners and repositories, from its client's validators.
_REPO_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_REVISION_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")
_FILE_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9._+-]{0,199}")
_PATH_STARTS = ("./", "../", "/")
_HUB_FORM = "Write owner/repo@<40-digit commit>:env.py."


@dataclass(frozen=True, slots=True)
class NameRef:
    """An installed plugin's benchmark."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PathRef:
    """A local directory with an `env.py`, or a Python file."""

    path: str
    """Starts with `./`, `../` or `/`, or is `.` or `..`."""

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class HubRef:
    """A file in a Hub repository, at a revision."""

    owner: str
    repo: str
    revision: str | None = None
    """A commit, branch or tag; None is the repository's main branch."""
    path: str = "env.py"

    @property
    def repo_id(self) -> str:
        """The repository as the Hub names it."""
        return f"{self.owner}/{self.repo}"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a full commit, which alone never moves."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision is not None else ""
        return f"{self.repo_id}{at}:{self.path}"


Reference = NameRef | PathRef | HubRef


def parse(text: str) -> Reference:
    """Turn text into a reference.

    Raises:
        InvalidReference: The text is no reference; says where and what to write instead.
    """
    if not isinstance(text, str):
        raise InvalidReference(str(type(text)), 0, "a reference is text", "Write its name.")
    if not text:
        _refuse(text, 0, "it is empty", "Name a benchmark, a ./path or an owner/repo.")
    _refuse_hidden(text)
    if text.startswith("-"):
        _refuse(text, 0, "a reference cannot start with a dash", "Options follow the reference.")
    if text in (".", "..") or text.startswith(_PATH_STARTS):
        return PathRef(text)
    if text.startswith("hf://"):
        return _parse_hub(text, len("hf://"))
    if "/" in text:
        return _parse_hub(text, 0)
    return _parse_name(text)


def _parse_name(text: str) -> NameRef:
    if not NAME.fullmatch(text):
        _refuse(
            text,
            _first_bad(text, NAME),
            "not the name of a benchmark",
            "Names hold letters, digits and . _ + -; write ./ before a local path.",
        )
    return NameRef(text)


def _parse_hub(text: str, start: int) -> HubRef:
    for mark in "@:":
        second = text.find(mark, text.find(mark, start) + 1) if mark in text[start:] else -1
        if second >= 0:
            _refuse(text, second, f"a second {mark!r}", _HUB_FORM)
    at, colon = text.find("@", start), text.find(":", start)
    if 0 <= colon < at:
        _refuse(text, at, "the revision must stand before the path", _HUB_FORM)
    end = colon if colon >= 0 else len(text)
    repo_end = at if at >= 0 else end
    owner, repo = _parse_repo(text, start, repo_end)
    revision = _parse_revision(text, at + 1, end) if at >= 0 else None
    path = _parse_file(text, colon + 1) if colon >= 0 else "env.py"
    return HubRef(owner, repo, revision, path)


def _parse_repo(text: str, start: int, end: int) -> tuple[str, str]:
    parts = _split(text, start, end, "owner or repository", _HUB_FORM)
    if len(parts) != 2:
        where = parts[2][0] if len(parts) > 2 else start
        advice = f"{_HUB_FORM} A local path starts with ./"
        _refuse(text, where, "a repository is owner/name", advice)
    for position, part in parts:
        if not _REPO_PART.fullmatch(part) or "--" in part or ".." in part:
            bad = position + _first_bad(part, _REPO_PART)
            _refuse(text, bad, "no such owner or repository can exist", _HUB_FORM)
        if part.endswith(".git"):
            _refuse(text, position, "a repository's name does not end in .git", _HUB_FORM)
    return parts[0][1], parts[1][1]


def _parse_revision(text: str, start: int, end: int) -> str:
    revision = text[start:end]
    if _COMMIT.fullmatch(revision):
        return revision
    if _ALMOST_COMMIT.fullmatch(revision):
        problem = f"a commit has 40 lower-case hex digits, this has {len(revision)}"
        if len(revision) == 40:
            problem = "a commit is written in lower case"
        _refuse(text, start, problem, "Write the whole commit as the Hub shows it.")
    for position, part in _split(text, start, end, "revision", _HUB_FORM):
        if not _REVISION_PART.fullmatch(part) or ".." in part:
            bad = position + _first_bad(part, _REVISION_PART)
            _refuse(text, bad, "no branch, tag or commit is called so", _HUB_FORM)
    return revision


def _parse_file(text: str, start: int) -> str:
    for position, part in _split(text, start, len(text), "path", "Write e.g. :envs/env.py."):
        if part in (".", "..") or part.lower() == ".git":
            _refuse(text, position, f"{part!r} in a path", "Name a file inside the repository.")
        if not _FILE_PART.fullmatch(part):
            bad = position + _first_bad(part, _FILE_PART)
            _refuse(text, bad, "not a path inside a repository", "Write e.g. :envs/env.py.")
    path = text[start:]
    if not path.endswith(".py") or path.rpartition("/")[2] == ".py":
        _refuse(
            text, start, "not a Python file", "Name the file that makes the envs, e.g. :env.py."
        )
    return path


def _split(text: str, start: int, end: int, what: str, instead: str) -> list[tuple[int, str]]:
    """The parts between slashes with their positions; refuses empty ones."""
    parts: list[tuple[int, str]] = []
    position = start
    for part in text[start:end].split("/"):
        if not part:
            _refuse(text, min(position, len(text) - 1), f"an empty {what}", instead)
        parts.append((position, part))
        position += len(part) + 1
    return parts


def _first_bad(part: str, pattern: re.Pattern[str]) -> int:
    """The index of the first character that no match can hold."""
    good = pattern.match(part)
    return min(good.end() if good else 0, len(part) - 1)


def _refuse_hidden(text: str) -> None:
    """Control, format (bidi, zero width), separator and surrogate characters mislead readers."""
    for position, character in enumerate(text):
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            name = unicodedata.name(character, f"character U+{ord(character):04X}")
            _refuse(text, position, f"{name} cannot be seen", "Type the reference by hand.")


def _refuse(text: str, position: int, problem: str, instead: str) -> NoReturn:
    raise InvalidReference(text, position, problem, instead)
