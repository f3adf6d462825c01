"""One bare git repository, read and written with the `git` command."""

import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha1
from pathlib import Path

from envhub import process
from envhub_localhub.large import POINTER_SIZES, LargeFiles, Pointer

_TIMEOUT = 60.0
_AUTHOR = "local <local@localhost>"
_REVISION = re.compile(r"[A-Za-z0-9_][\w./-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{7,40}")
# A commit reads the head of its branch, then moves it.
_writing = threading.Lock()


class GitFailed(RuntimeError):
    """A `git` command failed."""


class HeadMoved(RuntimeError):
    """A commit was made for a head that its branch no longer has."""


@dataclass(frozen=True, slots=True)
class Link:
    """The content of a committed file that is a symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Large:
    """The content of a committed file that is in large-file storage (LFS)."""

    data: bytes


_Small = str | bytes | Link
Content = _Small | Large


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's bytes, and the id that git gives them."""

    id: str
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> "Blob":
        """Return the blob with these bytes."""
        digest = sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False)
        return cls(digest.hexdigest(), data)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a tree's listing."""

    path: str
    id: str
    size: int
    """Of the file, not of its pointer."""
    is_directory: bool
    pointer: Pointer | None = None
    """Where the content is, if the file is in large-file storage."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag, and the commit that it points to."""

    full: str
    commit: str

    @property
    def name(self) -> str:
        """The name without `refs/heads/` or `refs/tags/`."""
        return self.full.split("/", 2)[2]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a history."""

    id: str
    time: datetime
    title: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A bare repository."""

    path: Path

    @property
    def large(self) -> LargeFiles:
        """The contents of its large files."""
        return LargeFiles(self.path / "lfs" / "objects")

    def init(self) -> None:
        """Create the repository; allow to fetch any commit, also without its blobs."""
        git(self.path.parent, "init", "--quiet", "--bare", "--initial-branch=main", self.path)
        for option in ("allowFilter", "allowAnySHA1InWant"):
            git(self.path, "config", f"uploadpack.{option}", "true")

    def commit_of(self, revision: str) -> str | None:
        """Return the commit that a branch, a tag or an (abbreviated) id names, if it exists."""
        if not _REVISION.fullmatch(revision) or ".." in revision:
            return None
        names = [f"refs/heads/{revision}", f"refs/tags/{revision}"]
        if _ABBREVIATED.fullmatch(revision):
            names.insert(0 if is_commit(revision) else 2, revision)
        if revision.startswith("refs/"):
            names.append(revision)
        queries = "".join(f"{name}^{{commit}}\n" for name in names).encode()
        lines = git(self.path, "cat-file", "--batch-check", stdin=queries).decode().splitlines()
        return next((line.split()[0] for line in lines if " commit " in line), None)

    def entries(self, commit: str, path: str = "", *, recursive: bool) -> list[Entry] | None:
        """Return the entries of a directory of a commit; None if it is not a directory."""
        options = ["-r", "-t"] if recursive else []
        tree = f"{commit}:{path}"
        try:
            listed = git(self.path, "ls-tree", "-l", "-z", *options, tree)
        except GitFailed:
            return None
        lines = listed.decode(errors="surrogateescape").split("\0")[:-1]
        entries = [_entry(line, f"{path}/" if path else "") for line in lines]
        pointers = self._pointers(entries)
        return [
            replace(entry, size=found.size, pointer=found)
            if (found := pointers.get(entry.id))
            else entry
            for entry in entries
        ]

    def read(self, commit: str, path: str) -> Blob | None:
        """Return the file at a path of a commit; None if it does not exist."""
        # `cat-file --batch` reads lines, and resolves ../ from its working directory.
        if "\n" in path or not _is_allowed(path):
            return None
        query = f"{commit}:{path}\n".encode(errors="surrogateescape")
        answer = git(self.path, "cat-file", "--batch", stdin=query)
        header, _, rest = answer.partition(b"\n")
        match header.decode(errors="replace").split(" "):
            case [oid, "blob", size]:
                return Blob(oid, rest[: int(size)])
        return None

    def _pointers(self, entries: list[Entry]) -> dict[str, Pointer]:
        """Return the pointers among files, by their ids."""
        ids = list({entry.id: None for entry in entries if entry.size in POINTER_SIZES})
        query = "".join(f"{oid}\n" for oid in ids).encode()
        rest = git(self.path, "cat-file", "--batch", stdin=query) if ids else b""
        pointers = {}
        for oid in ids:
            header, _, rest = rest.partition(b"\n")
            size = int(header.split()[-1])
            pointer = Pointer.parse(rest[:size])
            rest = rest[size + 1 :]
            if pointer and self.large.has(pointer):
                pointers[oid] = pointer
        return pointers

    def refs(self) -> list[Ref]:
        """Return all branches and tags."""
        form = "--format=%(refname) %(objectname)"
        lines = git(self.path, "for-each-ref", form, "refs/heads", "refs/tags").decode()
        return [Ref(*line.split(" ")) for line in lines.splitlines()]

    def history(self, commit: str) -> list[Commit]:
        """Return a commit and everything before it, the newest first."""
        log = git(self.path, "log", "-z", "--format=%H%n%ct%n%s", commit).decode(errors="replace")
        entries = (entry.split("\n", 2) for entry in log.split("\0") if entry)
        return [
            Commit(oid, datetime.fromtimestamp(int(time), UTC), title)
            for oid, time, title in entries
        ]

    def time_of(self, commit: str) -> datetime:
        """Return the time of a commit."""
        shown = git(self.path, "show", "-s", "--format=%ct", commit)
        return datetime.fromtimestamp(int(shown), UTC)

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        message: str,
        branch: str = "main",
        under: str = "refs/heads/",
        delete: Iterable[str] = (),
        expected: str = "",
    ) -> str:
        """Add a commit to a branch; a new branch starts at the head of `main`.

        Args:
            files: What to write, by path.
            message: What the commit says.
            branch: The name that is moved to it.
            under: Where that name is; a branch is below `refs/heads/`.
            delete: Files and directories to delete.
            expected: What the branch's head must be, or begin with.

        Raises:
            HeadMoved: The branch's head does not begin with `expected`.
            ValueError: A path leaves the repository or names git's own files.
        """
        deleted = list(delete)
        for path in (*files, *deleted):
            if not _is_allowed(path):
                raise ValueError(f"A repository cannot hold a file at {path!r}.")
        with _writing:
            name = f"{under}{branch}"
            parent = self.commit_of(name) or self.commit_of("refs/heads/main")
            if not (parent or "").startswith(expected):
                raise HeadMoved(f"{branch} is at {parent}, not at {expected}.")
            small = {path: self._without_large(content) for path, content in files.items()}
            stream = _stream(small, deleted, message, name, parent)
            done = git(self.path, "fast-import", "--quiet", "--done", "--date-format=now",
                       stdin=stream)  # fmt: skip
        return done.decode().strip()

    def _without_large(self, content: Content) -> _Small:
        """Store the content of a large file; return what the commit has."""
        return self.large.write(content.data).data if isinstance(content, Large) else content

    def point(self, ref: str, commit: str) -> None:
        """Make a branch or tag (`refs/heads/...`, `refs/tags/...`) point to a commit."""
        git(self.path, "update-ref", ref, commit)


def is_commit(revision: str) -> bool:
    """Whether a revision is the full id of a commit."""
    return _COMMIT.fullmatch(revision) is not None


def git(directory: Path, *arguments: str | Path, stdin: bytes = b"") -> bytes:
    """Run `git` in a directory; return its output.

    Raises:
        GitFailed: `git` ended with an error, did not start, or did not end.
    """
    done = run_git(directory, *arguments, stdin=stdin)
    if done.code != 0:
        stderr = done.stderr.decode(errors="replace").strip()
        raise GitFailed(f"`git {arguments[0]}` {process.describe_exit(done.code)}: {stderr}")
    return done.stdout


def run_git(
    directory: Path,
    *arguments: str | Path,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> process.FinishedBytes:
    """Run `git` without the user's configuration, whatever its exit code is.

    Raises:
        GitFailed: `git` did not start, or did not end.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    env |= variables or {}
    argv = ["git", *arguments]
    done = process.run_bytes(argv, stdin, timeout=_TIMEOUT, env=env, cwd=directory)
    if done is None:
        raise GitFailed(f"`git {arguments[0]}` did not start or did not end in {_TIMEOUT:.0f} s.")
    return done


def _is_allowed(path: str) -> bool:
    parts = path.lower().split("/")
    return "\0" not in path and not {"", ".", "..", ".git"} & set(parts)


def _entry(line: str, prefix: str) -> Entry:
    attributes, _, path = line.partition("\t")
    _mode, object_type, oid, size = attributes.split()
    is_directory = object_type == "tree"
    return Entry(prefix + path, oid, 0 if size == "-" else int(size), is_directory)


def _stream(
    files: Mapping[str, _Small],
    delete: Sequence[str],
    message: str,
    ref: str,
    parent: str | None,
) -> bytes:
    """Return a commit as input for `git fast-import`, which answers with the commit's id."""
    text = message.encode()
    parts = [
        f"commit {ref}\nmark :1\ncommitter {_AUTHOR} now\n".encode(),
        b"data %d\n%b\n" % (len(text), text),
    ]
    if parent is not None:
        parts.append(f"from {parent}\n".encode())
    parts += [b"D %b\n" % _quoted(path) for path in delete]
    for path, content in files.items():
        mode, data = _stored(content)
        parts.append(b"M %b inline %b\ndata %d\n%b\n" % (mode, _quoted(path), len(data), data))
    return b"".join((*parts, b"get-mark :1\ndone\n"))


def _stored(content: _Small) -> tuple[bytes, bytes]:
    """Return the mode and the bytes that git stores for a file."""
    match content:
        case Link(target):
            return b"120000", target.encode()
        case str():
            return b"100644", content.encode()
        case bytes():
            return b"100644", content


def _quoted(path: str) -> bytes:
    escaped = path.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'.encode(errors="surrogateescape")
