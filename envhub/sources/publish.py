"""Decide which files of a directory are published, and copy them. Nothing is uploaded here.

A file is published, left out or refused, and one that is refused keeps all others back:

- left out: hidden files, caches, runs, and what is never fetched with a benchmark;
- refused: links that do not lead to a published file, what is not a file, names that cannot be
  printed, and what looks like a secret, by its name or its content.

The user can name hidden files and what looks like a secret one by one, to publish them.
"""

import mmap
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from envhub.errors import UsageError, printable
from envhub.sources.profiles import BENCHMARK

_MAX_LISTED = 20
"""Refused files that an error names."""
_CACHES = frozenset({"__pycache__", "node_modules"})
_SECRET_NAMES = (
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk",
    "*.jks", "*.keystore", "*.keytab", "*.kdbx", "*.kdb", "*.gpg", "*.ovpn", "wallet.dat",
    "token", "token.*", "tokens", "tokens.*", "*.token", "*_token", "*_token.*", "stored_tokens",
    "credentials", "credentials.*", "credentials*.json", "*_credentials.json",
    "*-credentials.json", "client_secret*", "service_account*.json", "service-account*.json",
    "secret", "secret.*", "secrets", "secrets.*", "*.secret", "*.secrets", "password*",
    "netrc", "_netrc", "npmrc", "pypirc", "pgpass", "htpasswd", "git-credentials", "*.env",
    "kubeconfig*", "rclone.conf", "s3cfg", "boto.cfg", "*.tfstate", "*.tfstate.*", "*.tfvars",
)  # fmt: skip
"""Patterns in lower case; a dot at the beginning of a name does not count."""
_SECRETS = {
    "a private key": rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    "a key of PuTTY": rb"PuTTY-User-Key-File-",
    "a token of Hugging Face": rb"hf_(?<![A-Za-z0-9_]hf_)[A-Za-z0-9]{30,}",
    "a token of GitHub": rb"gh[pousr]_(?<![A-Za-z0-9_]gh[pousr]_)[A-Za-z0-9]{36,}",
    "a fine-grained token of GitHub": rb"github_pat_[A-Za-z0-9_]{22,}",
    "a token of GitLab": rb"glpat-(?<![A-Za-z0-9_]glpat-)[A-Za-z0-9_-]{20,}",
    "a key of AWS": rb"A[KS]IA(?<![A-Za-z0-9]A[KS]IA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "a secret of AWS": (
        rb"_(?:secret_access_key|SECRET_ACCESS_KEY)[\"']?\s{0,9}[=:]\s{0,9}[\"']?[A-Za-z0-9/+]{30}"
    ),
    "a key of Google": rb"AIza(?<![A-Za-z0-9_-]AIza)[A-Za-z0-9_-]{35}",
    "a token of Slack": rb"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a key of OpenAI or Anthropic": (
        rb"sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z0-9_-]{0,200}[0-9])[A-Za-z0-9_-]{20,}"
    ),
    "a token of npm": rb"npm_(?<![A-Za-z0-9_]npm_)[A-Za-z0-9]{36}",
    "a token of PyPI": rb"pypi-AgE[A-Za-z0-9_-]{30,}",
    "a key of Weights & Biases": rb"WANDB_API_KEY[\"']?\s{0,9}[=:]\s{0,9}[\"']?[0-9a-f]{40}",
}
"""What secrets look like. A word's beginning is checked after its letters, which are found fast."""
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _SECRETS.items()}


@dataclass(frozen=True, slots=True)
class Selection:
    """What becomes of the files of a directory."""

    published: Mapping[str, str]
    """By path, in order: what is special about each, or nothing."""
    left_out: Mapping[str, tuple[str, ...]]
    """By reason, the paths."""


def copy_published(directory: Path, into: Path, include: Collection[str] = ()) -> Selection:
    """Copy the files of a directory that are to be published; refuse all if one is refused.

    Contents are judged in the copy, so that what was judged is what is published.

    Args:
        directory: The directory.
        into: A directory that does not exist.
        include: Paths of files below the directory that are published although they are hidden or
            look like secrets.

    Raises:
        UsageError: A file is refused, or cannot be read.
    """
    root = directory.resolve()
    included = frozenset(_check_include(root, path) for path in include)
    try:
        found = _walk(root, included)
        refused = {**found.refused, **_secret_names(found, included)}
        _check_size(directory, root, found)
        sources = {path: root / target for path, target in found.files.items()}
        for path, source in sources.items():
            _copy(source, into / path)
    except OSError as exc:
        subject = exc.filename or directory
        raise UsageError(
            f"Nothing was uploaded: {subject} cannot be copied: {exc.strerror or exc}."
        ) from exc
    for path in found.files.keys() - included:
        if path not in refused and (secret := find_secret(into / path)):
            refused[path] = secret
    if refused:
        raise _refusal(directory, refused)
    notes = {path: f"copy of {target}" for path, target in found.files.items() if target != path}
    notes |= dict.fromkeys(included, "--include")
    return Selection(
        {path: notes.get(path, "") for path in sorted(found.files)},
        {reason: tuple(sorted(paths)) for reason, paths in found.left_out.items() if paths},
    )


def is_secret_name(path: str) -> bool:
    """Whether files of this name usually hold secrets."""
    name = path.rpartition("/")[2].lower()
    names = (name, name.lstrip("."))
    return any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES for name in names)


def find_secret(path: Path) -> str | None:
    """Return which kind of secret a file seems to hold, and in which line; never the secret."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return None
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16, which editors on Windows write
            file.seek(0)
            return _find_secret(file.read().replace(b"\0", b""))
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _find_secret(content)


def _find_secret(content: bytes | mmap.mmap) -> str | None:
    for kind, pattern in _PATTERNS.items():
        if match := pattern.search(content):
            line = content[: match.start()].count(b"\n") + 1
            return f"{kind} in line {line}"
    return None


@dataclass(slots=True)
class _Scan:
    """The files of a directory, by what becomes of them."""

    files: dict[str, str]
    """To publish: by path, where the content is, which differs for links."""
    refused: dict[str, str]
    """By path, why."""
    left_out: dict[str, list[str]]
    """By reason, the paths."""


_DATA = "checkpoints and data sets are never fetched with a benchmark"
_HIDDEN = "their names start with a dot"
_RUNS = "they are runs"


def _walk(root: Path, included: frozenset[str]) -> _Scan:
    found = _Scan({}, {}, {_DATA: [], _HIDDEN: [], _RUNS: []})
    links: list[str] = []
    folders = [""]
    while folders:
        for path, entry in _entries(root, folders.pop()):
            reason = _why_left_out(path, entry)
            if reason is not None and path not in included:
                found.left_out.setdefault(reason, []).append(path)
            elif entry.is_symlink():
                links.append(path)
            elif not _is_printable(path):
                found.refused[path] = "its name cannot be printed"
            elif entry.is_dir():
                folders.append(path)
            elif entry.is_file():
                found.files[path] = path
            else:
                found.refused[path] = "it is neither a file nor a directory"
    found.left_out.pop("", None)  # caches: nobody misses them
    found.files |= {path: path for path in included if path not in links}  # also in hidden folders
    _follow(root, links, found)
    return found


def _entries(root: Path, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(root / folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            yield f"{folder}/{entry.name}".lstrip("/"), entry


def _why_left_out(path: str, entry: os.DirEntry[str]) -> str | None:
    """Return why a file or directory is left out, if it is; nothing for caches."""
    if entry.name in _CACHES or entry.name.endswith(".pyc"):
        return ""
    if entry.name.startswith("."):
        return _HIDDEN
    if entry.is_dir(follow_symlinks=False):
        files = (Path(entry.path, name) for name in ("run.json", "episodes.jsonl"))
        return _RUNS if path == "runs" or all(file.is_file() for file in files) else None
    return None if BENCHMARK.wants(path) else _DATA


def _follow(root: Path, links: list[str], found: _Scan) -> None:
    """A link is published as a copy of the file that it leads to, if that is published itself."""
    plain = frozenset(found.files)
    for path in links:
        try:
            target = (root / path).resolve(strict=True)
        except (OSError, RuntimeError):  # a loop, before Python 3.13
            found.refused[path] = "a symbolic link that leads nowhere"
            continue
        inside = str(target.relative_to(root)) if target.is_relative_to(root) else None
        if not _is_printable(path):
            found.refused[path] = "its name cannot be printed"
        elif inside is None:
            found.refused[path] = f"a symbolic link that leads out of the directory, to {target}"
        elif target.is_dir():
            found.refused[path] = f"a symbolic link to the directory {inside}"
        elif inside not in plain:
            found.refused[path] = f"a symbolic link to {inside}, which is not uploaded itself"
        else:
            found.files[path] = inside


def _secret_names(found: _Scan, included: frozenset[str]) -> dict[str, str]:
    paths = found.files.keys() - included
    return {path: "files of this name hold secrets" for path in paths if is_secret_name(path)}


def _check_include(root: Path, text: str) -> str:
    """Return the path of a file that the user names, as it is listed."""
    path = os.path.normpath(text)
    place = root / path
    parts = Path(path).parts
    if path.startswith(("/", "..")):
        problem = "name the file by its path inside the directory"
    elif not place.is_file():
        problem = "there is no such file in the directory"
    elif any((root / Path(*parts[: depth + 1])).is_symlink() for depth in range(len(parts) - 1)):
        problem = "it is behind a symbolic link"
    elif ".git" in (part.lower() for part in parts):
        problem = "files of git are not published"
    elif not BENCHMARK.wants(path):
        problem = _DATA
    elif not _is_printable(path):
        problem = "its name cannot be printed"
    else:
        return path
    raise UsageError(f"--include {text}: {problem}.")


def _is_printable(path: str) -> bool:
    return printable(path) == path and not set(path) & set("\n\t")


def _check_size(directory: Path, root: Path, found: _Scan) -> None:
    total = sum((root / target).stat().st_size for target in found.files.values())
    files, size = BENCHMARK.max_files, BENCHMARK.max_bytes
    if len(found.files) > files or total > size:
        raise UsageError(
            f"Nothing was uploaded: {directory} has {len(found.files):,} files of "
            f"{total / 2**20:.0f} MB, but at most {files:,} of {size / 2**20:.0f} MB are "
            "fetched with a benchmark. Move data to a dataset of the Hub."
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a file, never what a link leads to or a pipe would block on."""
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(source, flags), "rb") as content:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
            raise OSError(0, "it is not a file any more", str(source))
        with target.open("xb") as copy:
            shutil.copyfileobj(content, copy)


def _refusal(directory: Path, refused: Mapping[str, str]) -> UsageError:
    lines = [f"  {_escaped(path)}: {_escaped(why)}" for path, why in sorted(refused.items())]
    more = [f"  and {len(lines) - _MAX_LISTED} more"] if lines[_MAX_LISTED:] else []
    count = "a file is" if len(lines) == 1 else f"{len(lines)} files are"
    listed = "\n".join([*lines[:_MAX_LISTED], *more])
    return UsageError(
        f"Nothing was uploaded: {count} refused.\n{listed}\nMove secrets out of {directory}, and "
        "replace links by files; --include FILE names a file that may be published anyway."
    )


def _escaped(text: str) -> str:
    return printable(text).replace("\n", r"\n").replace("\t", r"\t")
