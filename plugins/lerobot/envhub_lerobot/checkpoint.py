"""From `--policy lerobot:...` to the checked files of a checkpoint. Runs in the host.

A checkpoint is safetensors and JSON: data that is read, and no code that is run. So nobody has to
agree to it as to a benchmark's code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from envhub.errors import ContractError, UsageError
from envhub.files import expand_home
from envhub.options import Say
from envhub.refs import HubRef
from envhub.sources.fetch import obtain_files, resolve
from envhub.sources.fingerprint import hash_file
from envhub.sources.hub import Hub
from envhub.sources.profiles import CHECKPOINT, Profile
from envhub.sources.store import Stored
from envhub_lerobot.old_format import check_type, has_buffers
from envhub_lerobot.reading import (
    ABSENT,
    CONFIG,
    PROCESSORS,
    WEIGHTS,
    Contents,
    changed,
    describe_state,
    read_contents,
)

PREFIX = "lerobot:"
ADAPTERS = "adapter_config.json"
_PICKLES = (".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_POINTER = b"version https://git-lfs"
_LARGE = 50 * 10**6
"""Bytes of a download from which its progress is told."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a checkpoint."""

    directory: Path
    """Absolute."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The hash of each file that is read, by its name."""
    checked: Mapping[str, str] = field(default_factory=dict)
    """What the policy's process compares the files with that LeRobot gets, by their names."""
    repo: str | None = None
    """The repository of the Hub that it comes from."""
    commit: str | None = None

    @property
    def place(self) -> str:
        """What names it from any directory, after `lerobot:`."""
        return str(self.directory) if self.repo is None else f"{self.repo}@{self.commit}"


def find_checkpoint(
    text: str, *, private: bool = False, progress: Say = lambda _: None
) -> Checkpoint:
    """Return the checkpoint that `--policy lerobot:...` names; fetch it from the Hub first.

    Args:
        text: `lerobot:DIRECTORY` or `lerobot:owner/repo@<commit>`.
        private: Whether to send the user's token.
        progress: Receives a line for each part of a long download.

    Raises:
        UsageError: It does not exist, or is not pinned.
        SourceError: It cannot be fetched, or differs from its commit.
        ContractError: It is not one that can be evaluated.
    """
    place = text.removeprefix(PREFIX)
    if not place.strip():
        raise UsageError(
            f"{text} names no checkpoint: write lerobot:./directory or lerobot:owner/repo@<commit>."
        )
    directory = expand_home(place)
    local = place.startswith(("./", "../", "/", "~", "."))
    repo, at, revision = place.partition("@")
    if local or not (at or _REPO.fullmatch(place)):
        return read_checkpoint(directory)
    if not _REPO.fullmatch(repo):
        raise UsageError(f"{text} is not a checkpoint: write lerobot:owner/repo@<commit>.")
    owner, _, name = repo.partition("/")
    ref = HubRef(owner, name, revision or None, "")
    if not ref.pinned:
        raise _unpinned(text, ref, directory, private=private)
    return _fetched(ref, private, progress)


def _fetched(ref: HubRef, private: bool, progress: Say) -> Checkpoint:  # noqa: FBT001
    stored = fetch_files(ref, CHECKPOINT, private=private, progress=progress)
    proven = {path: f"sha256:{file.sha256}" for path, file in stored.manifest.files.items()}
    read = read_checkpoint(stored.directory, proven)
    return replace(read, repo=ref.repo_id, commit=ref.revision)


def fetch_files(ref: HubRef, profile: Profile, *, private: bool, progress: Say) -> Stored:
    """Return the stored files of a commit, every byte checked; tell a long download."""
    shown = -1

    def on_progress(files: int, all_files: int, done: int, total: int) -> None:
        nonlocal shown
        tenth = 10 * done // max(total, 1)
        if total >= _LARGE and tenth != shown:
            shown = tenth
            size = f"{done / 10**6:,.0f} of {total / 10**6:,.0f} MB"
            progress(f"Fetching the {profile.kind} {ref.repo_id}: {size}")

    return obtain_files(ref, profile, private=private, on_progress=on_progress)


def _unpinned(text: str, ref: HubRef, directory: Path, *, private: bool) -> UsageError:
    if ref.revision is None and directory.is_dir():
        return UsageError(
            f"{text} means a repository of the Hub; for the local directory write "
            f"{PREFIX}./{ref.repo_id}."
        )
    commit = resolve(ref, Hub(private=private)).commit
    return UsageError(
        f"{text} can move. Name the commit that it means now: {PREFIX}{ref.repo_id}@{commit}"
    )


def read_checkpoint(directory: Path, proven: Mapping[str, str] | None = None) -> Checkpoint:
    """Check the files of a checkpoint in a local directory.

    Args:
        directory: The directory.
        proven: The hashes of its files, if somebody has read the gigabytes already.

    Raises:
        UsageError: There is no such directory, or a file is missing.
        ContractError: A file is not as it should be.
    """
    if not directory.is_dir():
        raise UsageError(f"{PREFIX}{directory} is not a directory. Check the path.")
    names = sorted(path.name for path in directory.iterdir() if path.is_file())
    _check_names(directory, names)
    contents = read_contents(directory)
    if not isinstance(contents.config.get("type"), str):
        raise ContractError(
            f"{directory / CONFIG} names no type of policy: it is not LeRobot's. Checkpoints of "
            "LeRobot are usually in a directory pretrained_model."
        )
    if contents.old:
        check_type(directory, contents.config["type"])
    files = [name for name in names if name.endswith((".json", ".safetensors"))]
    weights = directory / WEIGHTS
    before = describe_state(weights.stat())
    hashes = {name: proven[name] if proven else hash_file(directory / name) for name in files}
    if describe_state(weights.stat()) != before:
        raise changed(weights)
    checked = {name: hashes.get(name, ABSENT) for name in (*contents.hashes, *contents.states)}
    _compare_reading(contents, checked)
    return Checkpoint(directory.resolve(), hashes, {**checked, WEIGHTS: before})


def _compare_reading(contents: Contents, checked: Mapping[str, str]) -> None:
    """Refuse JSON whose bytes were others when they were read than when they were hashed."""
    for name, value in contents.hashes.items():
        if checked[name] != value:
            raise changed(contents.directory / name)


def _check_names(directory: Path, names: list[str]) -> None:
    """Refuse a directory that lacks a file, or brings adapters or pickles instead."""
    if CONFIG not in names:
        raise UsageError(
            f"{directory} has no {CONFIG}: it is not a checkpoint of LeRobot. Name the directory "
            "that has it, usually pretrained_model."
        )
    if ADAPTERS in names:
        raise ContractError(
            f"{directory} has {ADAPTERS}: it holds PEFT adapters for another model. Merge them "
            "into the model and save that."
        )
    _check_weights(directory, names)
    missing = [name for name in PROCESSORS if name not in names]
    if missing and (len(missing) == 1 or not has_buffers(directory / WEIGHTS)):
        raise ContractError(
            f"{directory} has no {missing[0]}, and no statistics among its weights: it would run "
            "without normalization. Save it again with LeRobot 0.4.4 or newer."
        )


def _check_weights(directory: Path, names: list[str]) -> None:
    if WEIGHTS in names:
        with (directory / WEIGHTS).open("rb") as file:
            head = file.read(64)
        if head.startswith(_POINTER):
            raise ContractError(
                f"{directory / WEIGHTS} is a Git LFS pointer, not the weights. Run: git lfs pull"
            )
        if head[8:9] != b"{":
            raise ContractError(f"{directory / WEIGHTS} is not a safetensors file.")
        return
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles:
        raise ContractError(
            f"{directory} has {pickles[0]}, a pickle, which can run code when it is loaded. Save "
            f"the weights as {WEIGHTS}."
        )
    raise UsageError(f"{directory} has no {WEIGHTS}.")
