"""The packages that a benchmark from the Hub would have installed, for people who decide on it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envhub.cli.options import escaped
from envhub.errors import EnvHubError
from envhub.runtime.index import PackageFacts, describe_packages
from envhub.runtime.provision import file_requirements, find_unmet
from envhub.runtime.resolve import resolve

Packages = tuple[PackageFacts, ...]
_SHOWN = 30
_UNKNOWN = "unknown"


def find_packages(path: Path, *, name: str, line: str) -> Packages | str:
    """Return what is known of the packages that the runtime of an env file would have.

    Args:
        path: The env file.
        name: The benchmark's name in errors.
        line: The command that tries again, for errors.

    Returns:
        The packages, none if everything is installed here; or a sentence why they are unknown.
    """
    try:
        declared, pins = file_requirements(path)
        if not find_unmet(declared, pins):
            return ()
        complete = pins if pins is not None else resolve(declared, name=name, line=line)
    except EnvHubError as exc:
        return str(exc).splitlines()[0]
    return describe_packages(complete.here())


def packages_json(found: Packages | str) -> list[dict[str, Any]] | None:
    """Return the packages as plain data; None if they are unknown."""
    if isinstance(found, str):
        return None
    now = datetime.now(UTC)
    return [
        {
            "name": package.name,
            "version": package.version,
            "first_upload": package.first_upload and package.first_upload.isoformat(),
            "page": package.page,
            "doubts": list(package.doubts(now)),
        }
        for package in found
    ]


def packages_text(found: Packages | str, *, whole: bool = False) -> list[str]:
    """Return the packages as lines, the doubtful ones first; many others are cut."""
    if isinstance(found, str):
        return [f"installs    {_UNKNOWN}: {escaped(found)}"]
    if not found:
        return ["installs    nothing"]
    now = datetime.now(UTC)
    doubtful = [package for package in found if package.doubts(now)]
    ordered = [*doubtful, *(package for package in found if package not in doubtful)]
    shown = ordered if whole else ordered[: max(_SHOWN, len(doubtful))]
    width = max(len(_pinned(package)) for package in shown)
    lines = [f"installs    {len(found)} packages:", *(_line(p, width, now) for p in shown)]
    if hidden := ordered[len(shown) :]:
        lines.append(f"  and {len(hidden)} more")
    if doubtful:
        names = ", ".join(package.name for package in doubtful)
        lines.append(
            f"Check that you know {names}: a name on an index belongs to whoever took it first."
        )
    return lines


def _pinned(package: PackageFacts) -> str:
    return f"{package.name}=={package.version}"


def _line(package: PackageFacts, width: int, now: datetime) -> str:
    first = package.first_upload
    since = f"{first.date()}" if first is not None else _UNKNOWN
    page = _UNKNOWN if package.page is None else escaped(package.page) or "none"
    doubts = package.doubts(now)
    warning = f"  <- {', '.join(doubts)}" if doubts else ""
    return f"  {_pinned(package):<{width}}  first upload {since:<10}  project {page}{warning}"
