"""Git's objects of a commit, fetched from the Hub: they tie a listing of files to the commit."""

import os
import shutil
import tempfile
from pathlib import Path

from envhub import process
from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.sources.objects import BrokenProof, parse_tree, tree_of

_TIMEOUT = 60.0
_SILENCE = "10"
"""Seconds without a byte after which git gives up."""
# What a git behind a proxy or with its own certificates needs; nothing of the user's configuration.
_PASSED = (
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip


def git_is_there() -> bool:
    """Whether the proof can be had here at all."""
    return shutil.which("git") is not None


def fetch_objects(url: str, commit: str, token: str | None) -> dict[str, bytes]:
    """The commit object and all tree objects below it, by id; no file's bytes.

    Args:
        url: Of the repository.
        commit: Its id.
        token: For a private repository.

    Raises:
        SourceUnavailable: Git could not fetch them.
        SourceCorrupt: They are not those of the commit.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-git-") as place:
        repository = Path(place) / "proof.git"
        environment = _environment(Path(place), token)
        fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", url, commit]
        for arguments in (["init", "--quiet", "--bare", str(repository)], fetch):
            where = ["-C", str(repository)] if arguments[0] == "fetch" else []
            done = process.run(["git", *where, *arguments], timeout=_TIMEOUT, env=environment)
            if done is None or done.code != 0:
                said = done.stderr.strip().splitlines()[-1] if done and done.stderr else "no answer"
                raise SourceUnavailable(
                    f"git could not fetch {commit} from {url}: {said}. Without git's objects the "
                    "files cannot be tied to the commit; try again."
                )
        return _collect(repository, commit, environment)


def _collect(repository: Path, commit: str, environment: dict[str, str]) -> dict[str, bytes]:
    try:
        objects = _read(repository, [commit], environment)
        level = [tree_of(commit, objects.get(commit, b""))]
        while level:
            objects |= _read(repository, level, environment)
            level = [
                identity
                for tree in level
                for mode, _, identity in parse_tree(tree, objects.get(tree, b""))
                if mode == "40000" and identity not in objects
            ]
    except BrokenProof as exc:
        raise SourceCorrupt(f"What git fetched is not {commit}: {exc}.") from exc
    return objects


def _read(repository: Path, names: list[str], environment: dict[str, str]) -> dict[str, bytes]:
    """The contents of objects, by id."""
    argv = ["git", "-C", str(repository), "cat-file", "--batch"]
    done = process.run_bytes(
        argv, "\n".join(names).encode() + b"\n", timeout=_TIMEOUT, env=environment
    )
    found: dict[str, bytes] = {}
    rest = done.stdout if done else b""
    while rest:
        header, _, rest = rest.partition(b"\n")
        words = header.decode(errors="replace").split()
        if len(words) != 3 or not words[2].isdecimal():
            break  # missing: whoever needs it will say so
        size = int(words[2])
        found[words[0]], rest = rest[:size], rest[size + 1 :]
    return found


def _environment(home: Path, token: str | None) -> dict[str, str]:
    chosen = {name: os.environ[name] for name in _PASSED if name in os.environ}
    chosen |= {
        "HOME": str(home),
        "GIT_ALLOW_PROTOCOL": "http:https",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_HTTP_LOW_SPEED_LIMIT": "1",
        "GIT_HTTP_LOW_SPEED_TIME": _SILENCE,
        "GIT_TERMINAL_PROMPT": "0",
    }
    if token is not None:  # not on the command line, which others on the machine can read
        chosen |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Bearer {token}",
        }
    return chosen
