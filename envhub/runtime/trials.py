"""That bubblewrap works here, kept until something changes, since trying takes its time.

Only success is kept, and nobody is less protected by it: where bubblewrap has ceased to work, a
worker does not start, which ends as other failures do, and what was kept is forgotten.
"""

import hashlib
import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from envhub.sources.places import cache_home

_SETTINGS = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
)
"""What the kernel allows; not every kernel has them all."""
_STATUS = ("Uid", "CapEff", "NoNewPrivs", "Seccomp")


def recall(bwrap: str) -> str | None:
    """What was noted about the tool when it worked, if nothing has changed since."""
    try:
        kept = json.loads(_place().read_text(encoding="utf-8"))
        return str(kept["note"]) if kept["here"] == _here(bwrap) else None
    except (OSError, ValueError, KeyError, TypeError):  # nothing there, or nothing of use
        return None


def remember(bwrap: str, note: str) -> None:
    """Keep that the tool works, and a note about it."""
    place = _place()
    with suppress(OSError):  # a directory that cannot be written to: it is tried again next time
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
            json.dump({"here": _here(bwrap), "note": note}, file)
        Path(file.name).replace(place)


def forget() -> None:
    """A worker did not start: try anew next time."""
    with suppress(OSError):  # it is not there, or not ours to change
        _place().unlink()


def _place() -> Path:
    return cache_home() / "bubblewrap.json"


def _here(bwrap: str) -> str:
    """The digest of what decides whether it works."""
    tool, status = Path(bwrap).stat(), Path("/proc/self/status").read_text(encoding="utf-8")
    facts = [
        *(bwrap, tool.st_ino, tool.st_size, tool.st_mtime_ns),
        *(sys.executable, str(Path(__file__).parent)),
        *(str(Path("/proc/self/ns", name).readlink()) for name in ("user", "mnt", "pid", "cgroup")),
        *(line for line in status.splitlines() if line.startswith(_STATUS)),
        *(_text(Path(path)) for path in _SETTINGS),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
