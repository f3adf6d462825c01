"""Signed notes that somebody verified a run, in its directory: `attestations/<key>.json`, `.sig`.

Keys are those of SSH, which people have for git; ssh-keygen signs and checks. A signature shows
which key says something of exactly these files, and nothing else: whose key it is, and whether to
believe its holder, is up to the reader.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

import envhub
from envhub.errors import RunDirectoryError, UsageError, one_line
from envhub.files import open_regular, write_whole
from envhub.process import run_bytes
from envhub.records import Count

FOLDER = "attestations"
NAMESPACE = "envhub"
"""What a signature is for, so that none made for git is one of a run."""
_SIGNED = ("run.json", "episodes.jsonl")
"""The records have a hash of the actions, rewards and flags of each episode."""
_NAME = re.compile(r"([A-Za-z0-9_-]{43})\.json")
_KEY = re.compile(r"SHA256:([A-Za-z0-9+/]{43})")
_MOST_BYTES = 16 * 1024
_MOST_RUN = 2**26
_MOST_SHOWN = 20
_SECONDS = 20.0
MISSING = "ssh-keygen is not installed (apt-get install openssh-client)"

Word = Annotated[str, Meta(max_length=100)]


class FreshSaid(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of new episodes."""

    episodes: Count
    """Per task."""
    verdict: Literal["reproduced", "lower", "higher", "undecided"] | None


class Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of an attestation: what was checked, how much, with what, and the result."""

    format: Literal[1] = 1
    created: Word
    envhub: Word
    files: dict[Word, Word]
    """The hashes of the run's files that were verified."""
    ok: bool
    verdict: Word
    planned: Count
    ended: Count
    checked: Count
    most_false: Count | None
    """How many of the ended episodes may be false, at 95 %."""
    policy: tuple[Count, Count] | None
    """In how many of how many episodes the policy did the same again; None: it was not asked to."""
    fresh: FreshSaid | None
    python: Word
    packages: dict[Word, Word]
    """The versions of the benchmark's packages where it was verified."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """An attestation as it was found."""

    key: str
    """The fingerprint, `SHA256:...`."""
    said: Said | None = None
    """None if it does not check out."""
    problem: str = ""

    def __str__(self) -> str:
        if self.said is None:
            return f"An attestation by {self.key} does not check out: {self.problem}."
        said = self.said
        result = "verified" if said.ok else f"found {one_line(said.verdict)}"
        parts = [f"{said.checked} of {said.ended} ended episodes played again"]
        if said.ok and said.most_false is not None:
            parts.append(f"at most {said.most_false} may be false, 95 %")
        if said.policy is not None:
            parts.append(f"the policy did the same in {said.policy[0]} of {said.policy[1]}")
        if said.fresh is not None:
            verdict = said.fresh.verdict or "nothing to compare"
            parts.append(f"{said.fresh.episodes} new episodes per task: {verdict}")
        return (
            f"The key {self.key} says: {result}, {'; '.join(parts)}. EnvHub "
            f"{one_line(said.envhub)}, {one_line(said.created)}."
        )


def say(directory: Path, **values: object) -> Said:
    """Return what is to be signed of a run.

    Args:
        directory: Of the run.
        **values: The fields of `Said` that this function does not know.
    """
    return msgspec.convert(
        {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "envhub": envhub.__version__,
            "files": _hash_files(directory),
            **values,
        },
        Said,
    )


def sign(directory: Path, said: Said, key: Path) -> Attestation:
    """Sign, and put the attestation into the run's directory.

    Args:
        directory: Of the run.
        said: What is signed.
        key: A private SSH key, or the public one of a key that the user's agent has.

    Raises:
        UsageError: It cannot be signed.
        RunDirectoryError: It cannot be written.
    """
    name = fingerprint(key)
    content = (json.dumps(msgspec.to_builtins(said), indent=2) + "\n").encode()
    done = _keygen(content, "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    if done is None or done[0]:
        raise UsageError(
            f"--sign {key}: ssh-keygen could not sign: {_last_line(done)}. If the key has a "
            f"passphrase, run ssh-add {key} and name its .pub file."
        )
    folder = directory / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise RunDirectoryError(f"{folder} is a link: put a directory there.")
        stem = _stem(name)
        write_whole(folder / f"{stem}.json", content)
        write_whole(folder / f"{stem}.sig", done[1])
    except OSError as exc:
        raise RunDirectoryError(f"{folder} cannot be written: {exc.strerror or exc}.") from exc
    return Attestation(name, said)


def fingerprint(key: Path) -> str:
    """Return the fingerprint of a key.

    Raises:
        UsageError: It is not a key, or ssh-keygen is missing.
    """
    if not key.is_file():
        raise UsageError(f"--sign {key} is not a file. Name a private SSH key.")
    done = _keygen(b"", "-l", "-E", "sha256", "-f", str(key))
    if done is None:
        raise UsageError(f"--sign needs ssh-keygen, and {MISSING}.")
    found = _KEY.search(done[1].decode(errors="replace"))
    if done[0] or found is None:
        raise UsageError(f"--sign {key} is not an SSH key: {_last_line(done)}.")
    return found[0]


def read_attestations(directory: Path) -> list[Attestation]:
    """Return the attestations of a run, each with what is wrong with it."""
    folder = directory / FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return []
    try:
        names = sorted(path.name for path in folder.iterdir())
        now = _hash_files(directory)
    except OSError:  # without its records nothing is attested
        return []
    stems = [match[1] for match in map(_NAME.fullmatch, names) if match is not None]
    return [_read(folder, stem, now) for stem in stems[:_MOST_SHOWN]]


def _read(folder: Path, stem: str, now: Mapping[str, str]) -> Attestation:
    key = f"SHA256:{stem.replace('-', '+').replace('_', '/')}"
    try:
        content, signature = (
            _read_small(folder / f"{stem}.{suffix}") for suffix in ("json", "sig")
        )
    except OSError as exc:
        return Attestation(key, None, f"it cannot be read ({exc.strerror or exc})")
    for problem in _problems(folder / f"{stem}.sig", signature, content, key):
        return Attestation(key, None, problem)
    try:
        said = msgspec.json.decode(content, type=Said)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Attestation(key, None, "its content is not one of an attestation")
    if said.files != now:
        return Attestation(key, None, "it is of other files than the run has now")
    return Attestation(key, said)


def _problems(path: Path, signature: bytes, content: bytes, key: str) -> Iterator[str]:
    """Name what is wrong with a signature."""
    if not signature.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        yield "its signature is not one of SSH"
    done = _keygen(content, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(path))
    if done is None:
        yield MISSING
        return
    found = _KEY.search(done[1].decode(errors="replace"))
    if done[0] or found is None:
        yield "its signature is not one of its content"
    elif found[0] != key:
        yield f"another key signed it, {found[0]}"


def _read_small(path: Path) -> bytes:
    with open_regular(path, inside=path.parent, most=_MOST_BYTES) as file:
        return file.read(_MOST_BYTES)


def _hash_files(directory: Path) -> dict[str, str]:
    hashes = {}
    for name in _SIGNED:
        with open_regular(directory / name, inside=directory, most=_MOST_RUN) as file:
            hashes[name] = f"sha256:{hashlib.sha256(file.read(_MOST_RUN)).hexdigest()}"
    return hashes


def _stem(key: str) -> str:
    digest = base64.b64decode(f"{key.removeprefix('SHA256:')}=")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _keygen(content: bytes, *words: str) -> tuple[int, bytes, bytes] | None:
    """Run ssh-keygen; None if it is not there, or does not end."""
    done = run_bytes(["ssh-keygen", *words], content, timeout=_SECONDS)
    return None if done is None else (done.code, done.stdout, done.stderr)


def _last_line(done: tuple[int, bytes, bytes] | None) -> str:
    lines = [] if done is None else done[2].decode(errors="replace").strip().splitlines()
    return one_line(lines[-1])[:200].rstrip(".") if lines else "it said nothing"
