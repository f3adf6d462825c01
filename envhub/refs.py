"""Text to reference, and back. Pure: nothing is looked up, opened or asked for.

metaworld                      an installed plugin's benchmark
./my_env  ./my_env/env.py      a local directory (its env.py) or file
owner/repo@<40 hex>:path.py    a Hub repository at a commit; path defaults to env.py
hf://owner/repo@...            the same, spelled out
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from envhub.declarations import NAME
from envhub.errors import InvalidReference

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ALMOST_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
# Each *_PART takes characters up to the first wrong one. That of owners and repositories is the
# Hub's own rule, from its client's validators, but for how they end.
_REPO_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_]|(?<!-)-|(?<!\.)\.){0,95}")
_REVISION_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_+-]|(?<!\.)\.){0,199}")
_FILE_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9._+-]{0,199}")
_MARK = re.compile("[@:]")
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
    """Empty for a repository as a whole, which no text names."""

    @property
    def repo_id(self) -> str:
        """The repository as the Hub names it."""
        return f"{self.owner}/{self.repo}"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a full commit, which alone never moves."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

    @property
    def commit(self) -> str:
        """The commit of a pinned reference."""
        if self.revision is None or not self.pinned:
            raise ValueError(f"{self} is not pinned to a commit")
        return self.revision

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision is not None else ""
        return f"{self.repo_id}{at}:{self.path}" if self.path else f"{self.repo_id}{at}"


Reference = NameRef | PathRef | HubRef


def parse(text: str) -> Reference:
    """Turn text into a reference.

    Raises:
        InvalidReference: The text is not a reference; says where and what to write instead.
    """
    if not isinstance(text, str):
        raise InvalidReference(
            type(text).__name__, 0, "an object of this type is not text", "Write e.g. './my_env'."
        )
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
    instead = "Names hold letters, digits and . _ + -; write ./ before a local path."
    _check_part(text, 0, text, NAME, "not the name of a benchmark", instead)
    return NameRef(text)


def _parse_hub(text: str, start: int) -> HubRef:
    end = _next_mark(text, start)
    owner, repo = _parse_repo(text, start, end)
    revision, path = None, "env.py"
    if text.startswith("@", end):
        start, end = end + 1, _next_mark(text, end + 1)
        revision = _parse_revision(text, start, end)
    if text.startswith(":", end):
        start, end = end + 1, _next_mark(text, end + 1)
        path = _parse_file(text, start, end)
    if end < len(text):
        late = text[end] == "@" and revision is None
        problem = "the revision must stand before the path" if late else f"a second {text[end]!r}"
        _refuse(text, end, problem, _HUB_FORM)
    if not path.endswith(".py") or path.rpartition("/")[2] == ".py":
        instead = "Name the file that makes the envs, e.g. :env.py."
        _refuse(text, start, "not a Python file", instead)
    return HubRef(owner, repo, revision, path)


def _parse_repo(text: str, start: int, end: int) -> tuple[str, str]:
    names: list[str] = []
    problem, advice = "a repository is owner/name", f"{_HUB_FORM} A local path starts with ./"
    for position, part in _parts(text, start, end, "owner or repository", _HUB_FORM):
        if len(names) == 2:
            _refuse(text, position - 1, problem, advice)
        impossible = "no such owner or repository can exist"
        _check_part(text, position, part, _REPO_PART, impossible, _HUB_FORM)
        last = position + len(part) - 1
        if part.endswith(("-", ".")):
            _refuse(text, last, impossible, _HUB_FORM)
        if part.endswith(".git"):
            _refuse(text, last - 3, "a repository's name does not end in .git", _HUB_FORM)
        names.append(part)
    if len(names) < 2:
        _refuse(text, min(end, len(text) - 1), problem, advice)
    return names[0], names[1]


def _parse_revision(text: str, start: int, end: int) -> str:
    revision = text[start:end]
    if _COMMIT.fullmatch(revision):
        return revision
    if _ALMOST_COMMIT.fullmatch(revision):
        instead = "Write the whole commit as the Hub shows it."
        if len(revision) == 40:
            upper = len(revision) - len(revision.lstrip("0123456789abcdef"))
            _refuse(text, start + upper, "a commit is written in lower case", instead)
        problem = f"a commit has 40 lower-case hex digits, this has {len(revision)}"
        _refuse(text, start, problem, instead)
    for position, part in _parts(text, start, end, "revision", _HUB_FORM):
        problem = "no branch, tag or commit is called so"
        _check_part(text, position, part, _REVISION_PART, problem, _HUB_FORM)
    return revision


def _parse_file(text: str, start: int, end: int) -> str:
    instead = "Write e.g. :envs/env.py."
    for position, part in _parts(text, start, end, "name in the path", instead):
        if part in (".", "..") or part.lower() == ".git":
            _refuse(text, position, f"{part!r} in a path", "Name a file inside the repository.")
        problem = "not a path inside a repository"
        _check_part(text, position, part, _FILE_PART, problem, instead)
    return text[start:end]


def _next_mark(text: str, start: int) -> int:
    """Where the next `@` or `:` stands, or the text ends."""
    mark = _MARK.search(text, start)
    return mark.start() if mark else len(text)


def _parts(text: str, start: int, end: int, what: str, instead: str) -> Iterator[tuple[int, str]]:
    """The parts between slashes with their positions; refuses empty ones."""
    position = start
    for part in text[start:end].split("/"):
        if not part:
            _refuse(text, min(position, len(text) - 1), f"an empty {what}", instead)
        yield position, part
        position += len(part) + 1


def _check_part(
    text: str, position: int, part: str, pattern: re.Pattern[str], problem: str, instead: str
) -> None:
    """Refuse a part at the first character that the pattern does not take."""
    good = pattern.match(part)
    taken = good.end() if good else 0
    if taken < len(part):
        _refuse(text, position + taken, problem, instead)


def _refuse_hidden(text: str) -> None:
    """Control, format (bidi, zero width), separator and surrogate characters mislead readers."""
    for position, character in enumerate(text):
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            name = unicodedata.name(character, f"character U+{ord(character):04X}")
            _refuse(text, position, f"{name} cannot be seen", "Type the reference by hand.")


def _refuse(text: str, position: int, problem: str, instead: str) -> NoReturn:
    raise InvalidReference(text, position, problem, instead)
