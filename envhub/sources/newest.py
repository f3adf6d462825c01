"""Whether a repository has moved on since a reference was pinned: asked at most once a day."""

import hashlib
import re
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from envhub.errors import SourceError
from envhub.files import cache_home, open_regular, write_whole
from envhub.offline import is_offline
from envhub.refs import HubRef
from envhub.sources.fetch import resolve
from envhub.sources.hub import Hub, endpoint

_DAY = 24 * 3600.0
_MOST = 4096
"""Bytes of what is kept."""
_COMMIT = re.compile("[0-9a-f]{40}")


class _Answer(msgspec.Struct, frozen=True):
    """What a Hub said, or that it said nothing."""

    asked: float
    commit: str = ""


def newer_commit(ref: HubRef, *, private: bool = False) -> str | None:
    """Return the commit of the main branch, if a reference is pinned to another one.

    Nothing is asked of a network if the user says so, or if the Hub was asked within a day. A Hub
    that does not answer is not asked again before that either: this is only good to know.

    Args:
        ref: The reference.
        private: Whether to send the user's token.
    """
    if not ref.pinned or is_offline():
        return None
    known = _recall(ref)
    if known is None or not 0 <= time.time() - known.asked < _DAY:
        known = _ask(ref, private=private)
    newest = _COMMIT.fullmatch(known.commit)
    return known.commit if newest and known.commit != ref.revision else None


def _ask(ref: HubRef, *, private: bool) -> _Answer:
    try:
        newest = resolve(HubRef(ref.owner, ref.repo), Hub(private=private)).commit
    except SourceError:
        newest = ""
    answer = _Answer(time.time(), newest)
    path = _path(ref)
    with suppress(OSError):  # of a cache that is read-only: then it is asked each time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(answer), durable=False)
    return answer


def _recall(ref: HubRef) -> _Answer | None:
    try:
        with open_regular(_path(ref), most=_MOST) as file:
            return msgspec.json.decode(file.read(_MOST), type=_Answer)
    except (OSError, msgspec.MsgspecError):
        return None


def _path(ref: HubRef) -> Path:
    name = hashlib.sha256(f"{endpoint()}\0{ref.repo_id}".encode()).hexdigest()
    return cache_home() / "newest" / f"{name}.json"
