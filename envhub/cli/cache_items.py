"""What is in the cache: what it takes, when it was last used, and what still needs it."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from envhub import directories, process
from envhub.directories import PACKAGES, RUNTIMES
from envhub.discovery import installed
from envhub.errors import EnvHubError, RuntimeUnavailable, UnknownName
from envhub.files import cache_home, discard_tree
from envhub.host.loading import describe
from envhub.options import Limits
from envhub.refs import HubRef, PathRef, parse
from envhub.runtime.compiled import compiled_functions
from envhub.runtime.installed import OWN
from envhub.runtime.own_packages import key_of_copy
from envhub.runtime.provision import keys_of
from envhub.runtime.resolve import forget
from envhub.runtime.uv import find_uv
from envhub.runtime.uv_settings import uv_variables
from envhub.sources import asset_pins, store
from envhub.sources.profiles import ASSETS, BENCHMARK, PROFILES, Profile
from envhub.sources.trust import Ledger
from envhub.types import PluginSource, WorkerSpec

UV = "uv"
KINDS = (RUNTIMES.folder, PACKAGES.folder, *(profile.folder for profile in PROFILES), UV)
_UV_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class CacheItem:
    """A directory of the cache that can be removed alone."""

    kind: str
    name: str
    """What `envhub cache clean` calls it."""
    place: Path
    size: int
    last_used: float
    """In seconds of the epoch; when it was made, if nobody has used it since."""
    in_use: bool
    """Whether a running process uses or makes it."""
    needed_by: str
    """Who would have to build or fetch it again; "" if nobody is known to."""
    remove: Callable[[], bool]
    """Remove it; returns False if a running process uses it."""
    whole: bool = True
    """False: the leftover of a process that was killed."""

    def facts(self) -> dict[str, Any]:
        """What is known of it, as plain data."""
        used = datetime.fromtimestamp(self.last_used, UTC)
        return {
            "kind": self.kind,
            "name": self.name,
            "path": str(self.place),
            "bytes": self.size,
            "last_used": used.isoformat(timespec="seconds"),
            "in_use": self.in_use,
            "needed_by": self.needed_by or None,
            "whole": self.whole,
        }

    def is_named(self, text: str) -> bool:
        """Whether a name means this: the kind's, its own whole or cut, or one without a commit."""
        name, at, _ = text.partition("@")
        cut = f"{name}@" if not at else text
        return text in (self.kind, self.name) or self.name.startswith(cut)


def find_items(kinds: tuple[str, ...] = ()) -> list[CacheItem]:
    """Return what is in the cache, largest first within each kind.

    Args:
        kinds: Some of `KINDS`; none: all.

    Raises:
        UnknownName: There is no such kind.
        UsageError: The commits that the user has agreed to cannot be read.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("kind of the cache", kind, KINDS)
    wanted = kinds or KINDS
    found = [
        *(_runtimes() if RUNTIMES.folder in wanted else ()),
        *(_packages() if PACKAGES.folder in wanted else ()),
        *(item for p in PROFILES if p.folder in wanted for item in _commits(p)),
        *(_of_uv() if UV in wanted else ()),
    ]
    return sorted(found, key=lambda item: (KINDS.index(item.kind), -item.size, item.name))


def remove_runtime(key: str, about: dict[str, Any]) -> bool:
    """Remove a runtime and what was made for it; returns False if a running process uses it."""
    if not directories.remove_built(RUNTIMES, key):
        return False
    forget(str(about.get("pins")))
    discard_tree(compiled_functions(key))
    return True


def _runtimes() -> Iterator[CacheItem]:
    known = {key: directories.describe(RUNTIMES, key) for key in directories.known_keys(RUNTIMES)}
    of_plugins = _keys_of_plugins({str(about.get("for")) for about in known.values()})
    for key, about in known.items():
        needed = of_plugins.get(key) or _needed_by_reference(str(about.get("rebuild", "")))
        place = cache_home() / RUNTIMES.folder / key
        yield from _item(RUNTIMES.folder, key, place, needed, partial(remove_runtime, key, about))


def _packages() -> Iterator[CacheItem]:
    names = [OWN, *(plugin.distribution for plugin in installed())]
    current = {key_of_copy(name): name for name in dict.fromkeys(names)}
    for key in directories.known_keys(PACKAGES):
        about = directories.describe(PACKAGES, key)
        needed = current.get(key, "")
        name = f"{about.get('distribution', 'unknown')}@{key}"
        removing = partial(directories.remove_built, PACKAGES, key)
        place = cache_home() / PACKAGES.folder / key
        yield from _item(PACKAGES.folder, name, place, needed, removing)


def _commits(profile: Profile) -> Iterator[CacheItem]:
    base = cache_home() / profile.folder
    folders = [path for path in base.iterdir() if path.is_dir()] if base.is_dir() else []
    agreed = {(entry.repo, entry.commit) for entry in Ledger().entries()}
    pinned = {(pin.repo, pin.commit) for pin in asset_pins.all_pins()}
    for folder in folders:
        repo = folder.name.replace("--", "/", 1)
        for commit in store.commits(repo, profile) if not folder.name.startswith(".") else ():
            needed = "your consent" if profile == BENCHMARK and (repo, commit) in agreed else ""
            if profile == ASSETS and (repo, commit) in pinned:
                needed = "envhub assets"
            place = folder / commit
            removing = partial(_remove_commit, place)
            yield from _item(profile.folder, f"{repo}@{commit}", place, needed, removing)
    for place in (path for path in folders if path.name.startswith(store.PARTIAL_PREFIX)):
        repo, _, commit = place.name.removeprefix(store.PARTIAL_PREFIX).rpartition("-")
        name = f"{repo.replace('--', '/', 1)}@{commit}"
        removing = partial(directories.remove_unused, place)
        yield from _item(profile.folder, name, place, "", removing, whole=False)


def _of_uv() -> Iterator[CacheItem]:
    """The cache of uv, which all of the user's programs share."""
    try:
        uv = find_uv()
    except RuntimeUnavailable:
        return
    done = process.run([uv, "cache", "dir"], timeout=60.0, env=uv_variables())
    if done is not None and not done.code and (place := Path(done.stdout.strip())).is_dir():
        yield from _item(UV, UV, place, "other programs", partial(_clean_uv, uv))


def _clean_uv(uv: Path) -> bool:
    """Let uv empty its cache: it has locks of its own, and waits for other processes."""
    done = process.run([uv, "cache", "clean"], timeout=_UV_TIMEOUT, env=uv_variables())
    return done is not None and done.code == 0


def _remove_commit(place: Path) -> bool:
    if not directories.remove_unused(place):
        return False
    with suppress(OSError):  # there are others of the repository
        place.parent.rmdir()
    return True


def _item(
    kind: str,
    name: str,
    place: Path,
    needed: str,
    remove: Callable[[], bool],
    *,
    whole: bool = True,
) -> Iterator[CacheItem]:
    """Yield the item of a directory; nothing if neither it nor a leftover of a builder exists."""
    present = [path for path in (place, *directories.leftovers(place)) if path.is_dir()]
    if present:
        size = sum(map(directories.size_of, present))
        used, last = directories.is_used(place), directories.last_use(place, present[0])
        whole = whole and place.is_dir()
        yield CacheItem(kind, name, place, size, last, used, needed, remove, whole)


def _keys_of_plugins(names: set[str]) -> dict[str, str]:
    """Return who needs which runtime, of the installed plugins with these names."""
    found: dict[str, str] = {}
    for plugin in installed():
        if plugin.name in names:
            source = PluginSource(plugin.name)
            with suppress(EnvHubError):  # one that cannot be loaded needs nothing
                spec = WorkerSpec(source, {}, Limits(), alone=True)
                benchmark = describe(spec, "here").benchmark
                found |= dict.fromkeys(keys_of(source, benchmark), plugin.name)
    return found


def _needed_by_reference(line: str) -> str:
    """Return who needs a runtime, by the command that builds it; "" if that is nobody any more."""
    try:
        match parse(shlex.split(line)[-1]):
            case PathRef(path=path) if Path(path).exists():
                return path
            case HubRef() as ref:
                agreed = any(
                    (e.repo, e.commit) == (ref.repo_id, ref.revision) for e in Ledger().entries()
                )
                return str(ref) if agreed else ""
    except (EnvHubError, IndexError, ValueError):
        pass
    return ""
