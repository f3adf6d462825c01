"""Git's objects, which prove that files belong to a commit.

A commit's id is the hash of an object that names a tree; a tree's id is the hash of a list of
names and ids; a file's id is the hash of its bytes. With the objects, every byte can be checked
against the commit's forty digits, wherever the bytes came from.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from envhub import process
from envhub.errors import SourceCorrupt, SourceUnavailable, printable
from envhub.scratch import scratch_directory

FILE_MODES = frozenset({"100644", "100755"})
LINK_MODE = "120000"
_TREE_MODE = "40000"
_MAX_ENTRIES = 100_000
_MAX_DEPTH = 64
"""Directories within directories: each level of trees costs a call of git."""
_MAX_OBJECT_BYTES = 64 * 2**20
"""For the commit and its trees together: 100,000 entries with long names have 16 MB."""
_TIMEOUT = 60.0
_SILENCE = "10"
"""Seconds without a byte after which git gives up."""
_MAX_FILE_BYTES = 256 * 2**20
"""For each file that git writes: the commits of 20 years, or the trees of 100,000 files, have some
10 MB, and no server should fill the disk."""
_MAX_MEMORY_BYTES = 2 * 2**30
"""For git, which takes the memory that a server says an object needs."""
# The shell's units are 512 bytes and 1 KB. A limit that cannot be set is lower already. What git
# prints may come from the server, so that it goes to a file too, within the limit for files.
_BOUNDED = """ulimit -f "$1"; ulimit -v "$2"; log="$3"; shift 3; exec "$@" 2>"$log" """
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "fetch.unpackLimit": "1",  # one file, within the limit
    "gc.auto": "0",
    "http.followRedirects": "false",  # another server would get the token
    "pack.threads": "1",  # each takes a part of the memory
}
# For a git behind a proxy or with its own certificates. The user's configuration is not read.
_PASSED = (
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip


class BrokenProof(ValueError):
    """The objects do not prove the commit."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit."""

    mode: str
    blob_id: str


def object_id(kind: str, content: bytes) -> str:
    """Return the id that git gives an object."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def pointer_id(sha256: str, size: int) -> str:
    """Return the id of the pointer file that a tree has for a file in large-file storage."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return object_id("blob", text.encode())


def tree_of(commit: str, content: bytes) -> str:
    """Return the id of the tree that a commit object names.

    Raises:
        BrokenProof: The content is not the object of this commit.
    """
    if object_id("commit", content) != commit:
        raise BrokenProof(f"the commit object is not {commit}")
    first, _, _ = content.partition(b"\n")
    keyword, _, tree = first.partition(b" ")
    if keyword != b"tree" or len(tree) != 40:
        raise BrokenProof("the commit object names no tree")
    return tree.decode()


def parse_tree(tree: str, content: bytes) -> list[tuple[str, str, str]]:
    """Return the entries of a tree object: mode, name, id.

    Raises:
        BrokenProof: The content is not the object of this tree.
    """
    if object_id("tree", content) != tree:
        raise BrokenProof(f"a tree object is not {tree}")
    entries: list[tuple[str, str, str]] = []
    names: set[str] = set()
    position = 0
    while position < len(content):
        end = content.find(b"\0", position)
        if end < 0 or end + 21 > len(content):
            raise BrokenProof(f"the tree object {tree} is cut short")
        mode, _, name = content[position:end].partition(b" ")
        try:
            entries.append((mode.decode(), name.decode(), content[end + 1 : end + 21].hex()))
        except UnicodeDecodeError as exc:
            raise BrokenProof(f"{name!r} is not a name in UTF-8") from exc
        if b"/" in name:
            raise BrokenProof(f"{name.decode()!a} is not the name of one file")
        if name.decode() in names:  # some readers take the first, others the last
            raise BrokenProof(f"the tree object {tree} has two entries called {name.decode()!a}")
        names.add(name.decode())
        position = end + 21
    return entries


def walk(commit: str, objects: Mapping[str, bytes]) -> dict[str, TreeEntry]:
    """Return all files of a commit by their path, read from its objects.

    Args:
        commit: The commit's id.
        objects: The contents of the commit and its trees, by id.

    Raises:
        BrokenProof: An object is missing, or does not match its id.
    """
    files: dict[str, TreeEntry] = {}
    pending = [("", tree_of(commit, _get(objects, commit)))]
    while pending:
        prefix, tree = pending.pop()
        for mode, name, identity in parse_tree(tree, _get(objects, tree)):
            path = f"{prefix}{name}"
            if mode == _TREE_MODE:
                if path.count("/") >= _MAX_DEPTH:
                    raise BrokenProof(f"its directories are nested more than {_MAX_DEPTH} deep")
                pending.append((f"{path}/", identity))
            else:
                files[path] = TreeEntry(mode, identity)
            if len(files) + len(pending) > _MAX_ENTRIES:
                raise BrokenProof(f"it has more than {_MAX_ENTRIES} files")
    return files


def has_git() -> bool:
    """Whether git is installed, without which there is no proof."""
    return shutil.which("git") is not None


def fetch_objects(url: str, commit: str, token: str | None) -> dict[str, bytes]:
    """Fetch the commit object and all tree objects below it, but no files.

    Args:
        url: The repository.
        commit: The commit's id.
        token: The user's token, for a private repository.

    Returns:
        The contents of the objects, by id.

    Raises:
        SourceUnavailable: Git could not fetch the objects.
        SourceCorrupt: The objects are not those of the commit.
    """
    with _repository(url, token) as repository:
        repository.fetch(url, [commit], commit, "--depth=1", "--filter=blob:none")
        try:
            return _collect(repository, commit)
        except BrokenProof as exc:
            raise SourceCorrupt(f"The objects from git are not those of {commit}: {exc}.") from exc


def is_on_branch(url: str, commit: str, token: str | None) -> bool:
    """Whether a branch or tag of a repository leads to a commit.

    A commit that somebody pushed to a fork or a pull request can be fetched from the repository's
    own address too, by whoever knows its id.

    Args:
        url: The repository.
        commit: The commit's id.
        token: The user's token, for a private repository.

    Raises:
        SourceUnavailable: Git could not fetch the history.
    """
    names = ("+refs/heads/*:refs/hub/heads/*", "+refs/tags/*:refs/hub/tags/*")
    with _repository(url, token) as repository:
        repository.fetch(url, names, "branches and tags", "--filter=tree:0")
        if repository.run("cat-file", "-e", f"{commit}^{{commit}}").code != 0:
            return False
        found = repository.run("for-each-ref", "--count=1", "--contains", commit, "refs/hub")
        return found.code == 0 and found.stdout != b""


@dataclass(frozen=True, slots=True)
class _Repository:
    """A temporary repository, in which git runs within limits."""

    place: Path
    variables: Mapping[str, str]

    def fetch(self, url: str, names: Sequence[str], subject: str, *options: str) -> None:
        """Fetch commits or references from a URL.

        Raises:
            SourceUnavailable: Git could not.
        """
        done = self.run("fetch", "--quiet", "--no-tags", *options, url, *names, network=True)
        if done.code != 0:
            raise SourceUnavailable(
                f"git could not fetch {subject} from {url}: {self.said()}. Without git's objects "
                "nobody can tell whether the files are those of the commit; try again."
            )

    def run(
        self, *arguments: str, stdin: bytes = b"", network: bool = False
    ) -> process.FinishedBytes:
        """Run git; the code is -1 if it did not end in time."""
        variables = {**self.variables, "GIT_ALLOW_PROTOCOL": "http:https" if network else "none"}
        limits = (str(_MAX_FILE_BYTES // 512), str(_MAX_MEMORY_BYTES // 1024), str(self._log))
        argv = ["/bin/sh", "-c", _BOUNDED, "sh", *limits, "git", "-C", str(self.place), *arguments]
        done = process.run_bytes(argv, stdin, timeout=_TIMEOUT, env=variables)
        return done or process.FinishedBytes(-1, b"", b"")

    @property
    def _log(self) -> Path:
        return self.place.with_name("log")

    def said(self) -> str:
        """The last line that git printed, which may come from the server."""
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - 500))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return printable(lines[-1])[:200].rstrip(".") if lines else "no answer"


@contextmanager
def _repository(url: str, token: str | None) -> Iterator[_Repository]:
    """A new repository that is removed at the end."""
    with scratch_directory() as home:
        place = home / "proof.git"
        place.mkdir()
        repository = _Repository(place, _environment(home, url, token))
        if repository.run("init", "--quiet", "--bare", "--template=").code != 0:
            raise SourceUnavailable(
                f"git could not make a repository in {home}: {repository.said()}. Set TMPDIR to a "
                "directory that has the space and can be written to."
            )
        yield repository


def _get(objects: Mapping[str, bytes], identity: str) -> bytes:
    if identity not in objects:
        raise BrokenProof(f"the object {identity} is missing")
    return objects[identity]


def _collect(repository: _Repository, commit: str) -> dict[str, bytes]:
    """Return the commit object and all trees below it, by id.

    Raises:
        BrokenProof: They are not objects of git, or too many.
    """
    objects = _read(repository, [commit], 0)
    level = [tree_of(commit, objects.get(commit, b""))]
    for _ in range(_MAX_DEPTH + 1):
        objects |= _read(repository, level, sum(map(len, objects.values())))
        # By their ids: a tree may be in another one a million times.
        below = {
            identity: None
            for tree in level
            for mode, _, identity in parse_tree(tree, objects.get(tree, b""))
            if mode == _TREE_MODE and identity not in objects
        }
        if not below:
            return objects
        level = list(below)
        if len(objects) + len(level) > _MAX_ENTRIES:
            raise BrokenProof(f"it has more than {_MAX_ENTRIES} directories")
    raise BrokenProof(f"its directories are nested more than {_MAX_DEPTH} deep")


def _read(repository: _Repository, names: list[str], before: int) -> dict[str, bytes]:
    """Return the contents of objects, by id; missing objects are left out.

    Raises:
        BrokenProof: With the bytes that were read before, they are too large.
    """
    asked = "".join(f"{name}\n" for name in names).encode()
    sizes = repository.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).stdout
    known = sum(int(line) for line in sizes.split(b"\n") if line.isdigit())
    if before + known > _MAX_OBJECT_BYTES:
        raise BrokenProof(f"its trees have more than {_MAX_OBJECT_BYTES / 2**20:.0f} MB")
    objects: dict[str, bytes] = {}
    rest = memoryview(repository.run("cat-file", "--batch", stdin=asked).stdout)
    while rest:
        header, _, _ = bytes(rest[:200]).partition(b"\n")
        words = header.decode(errors="replace").split()
        if len(words) != 3 or not words[2].isdecimal():
            break  # the caller reports a missing object
        begin, size = len(header) + 1, int(words[2])
        objects[words[0]], rest = bytes(rest[begin : begin + size]), rest[begin + size + 1 :]
    return objects


def _environment(home: Path, url: str, token: str | None) -> dict[str, str]:
    variables = {name: os.environ[name] for name in _PASSED if name in os.environ}
    settings = dict(_SETTINGS)
    if token is not None:  # other users of the machine could read it on the command line
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}/"
        settings[f"http.{server}.extraHeader"] = f"Authorization: Bearer {token}"
    variables |= {
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_HTTP_LOW_SPEED_LIMIT": "1",
        "GIT_HTTP_LOW_SPEED_TIME": _SILENCE,
        "GIT_TERMINAL_PROMPT": "0",
    }
    for number, (name, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
