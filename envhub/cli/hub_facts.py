"""Facts about a Hub repository that are known without running any of its code."""

import difflib
import io
import json
import re
import tokenize
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from envhub.cli.options import escaped, show_download
from envhub.errors import EnvHubError, printable
from envhub.options import SourceOptions
from envhub.refs import HubRef, parse
from envhub.runtime.index import PackageFacts, describe_packages
from envhub.runtime.provision import file_requirements, find_unmet
from envhub.runtime.resolve import resolve
from envhub.sources import store
from envhub.sources.fetch import obtain
from envhub.sources.imports import is_code, reachable
from envhub.sources.requirements import BESIDE, Requirements, requirements_at
from envhub.sources.store import Stored

Packages = tuple[PackageFacts, ...]
_SHOWN_FILES = 30
_SHOWN_LINES = 400
_SHOWN_COLUMNS = 400
_SHOWN_LEFT_OUT = 5
_SHOWN_PACKAGES = 20
_SHOWN_HIDDEN = 10
_COMPARED_BYTES = 4 * 2**20
"""Of all changed files together; of a larger one only the size and the hash are shown."""
_COMPARED_LINES = 20_000
"""Of all changed files together; after them, whole files are shown as deleted and added."""


def describe_unexecuted(text: str, options: SourceOptions, *, as_json: bool) -> str:
    """Describe a pinned repository; its files are fetched and checked, not run."""
    ref = parse(text)
    assert isinstance(ref, HubRef)
    stored = obtain(ref, private=options.private, on_progress=show_download)
    return json.dumps(facts(ref, stored), indent=2) if as_json else show(ref, stored)


def facts(ref: HubRef, stored: Stored) -> dict[str, Any]:
    """Return the facts as plain data."""
    manifest, declared = stored.manifest, requirements(ref, stored)
    return {
        "ref": str(ref),
        "endpoint": manifest.endpoint,
        "commit": manifest.commit,
        "proof": manifest.proof,
        "files": {path: file.size for path, file in sorted(manifest.files.items())},
        "left_out": list(manifest.left_out),
        "requirements": requirements_json(declared),
        "installs": packages_json(_packages(ref, stored)),
    }


def requirements_json(declared: Requirements) -> dict[str, Any]:
    """Return the requirements of an env file as plain data."""
    packages = list(declared.packages)
    return {"python": declared.python, "packages": packages, "file": declared.file}


def requirements_text(declared: Requirements, *, whole: bool = False) -> str:
    """Return the requirements of an env file in a line."""
    shown = declared.packages if whole else declared.packages[:_SHOWN_PACKAGES]
    more = _more(declared.packages[len(shown) :])
    source = f" ({declared.file})" if declared.file else ""
    return f"{', '.join(shown) or 'nothing but EnvHub'}{more}{source}"


def show(ref: HubRef, stored: Stored, *, whole: bool = False) -> str:
    """What is known, for reading; what is cut says so, and nothing is with `whole`."""
    manifest, declared = stored.manifest, requirements(ref, stored)
    how = "against the commit itself" if manifest.proof == "git" else "against the Hub's listing"
    lines = [
        f"reference   {ref}",
        f"endpoint    {escaped(manifest.endpoint)}",
        f"commit      {manifest.commit}, every byte checked {how}",
        f"requires    {requirements_text(declared, whole=whole)}",
        *packages_text(_packages(ref, stored), whole=whole),
        f"files       {len(manifest.files)}, in {escaped(str(stored.directory))}",
    ]
    first, others = _ordered(ref, stored)
    lines += [
        f"{ref.path}, and what it imports or names:",
        *_listed(first, ref, stored, whole=whole),
    ]
    if others:
        lines += ["other files:", *_listed(others, ref, stored, whole=whole)]
    if manifest.left_out:
        named = manifest.left_out if whole else manifest.left_out[:_SHOWN_LEFT_OUT]
        more = _more(manifest.left_out[len(named) :])
        lines.append(f"left out    {', '.join(map(escaped, named))}{more}")
    return "\n".join(lines)


def _packages(ref: HubRef, stored: Stored) -> Packages | str:
    line = f"envhub runtime build {ref}"
    return find_packages(stored.directory / ref.path, name=ref.repo, line=line)


def _ordered(ref: HubRef, stored: Stored) -> tuple[list[str], list[str]]:
    """The env file and what it leads to; then the others, what Python can execute first."""
    files = stored.manifest.files
    first = reachable(ref.path, files, lambda path: (stored.directory / path).read_bytes())
    beside = str(PurePosixPath(ref.path).with_name(BESIDE))
    if beside in files and beside not in first:  # it decides what is installed
        first = (first[0], beside, *first[1:])
    return list(first), sorted(files.keys() - set(first), key=lambda p: (not is_code(p), p))


def _listed(paths: list[str], ref: HubRef, stored: Stored, *, whole: bool) -> list[str]:
    files = stored.manifest.files
    shown = paths if whole else paths[:_SHOWN_FILES]
    lines = [f"  {files[path].size:>11,}  {escaped(path)}" for path in shown]
    if hidden := paths[len(shown) :]:
        size, code = sum(files[path].size for path in hidden), sum(map(is_code, hidden))
        lines.append(
            f"  {size:>11,}  in {len(hidden)} more files, {code} of them code; to see all:\n"
            f"{'':15}envhub trust {ref} --all"
        )
    return lines


def _more(hidden: Sequence[object]) -> str:
    return f" and {len(hidden)} more" if hidden else ""


def show_changes(ref: HubRef, stored: Stored, before: str, *, whole: bool = False) -> str:
    """The difference to a commit that was agreed to earlier, if the store has it."""
    try:
        old = store.load(ref.repo_id, before)
    except EnvHubError:
        old = None
    if old is None:
        return f"You agreed to the earlier commit {before}, which is no longer stored."
    changed = _changed(ref, old, stored)
    if not changed:
        return f"No changes since {before}, which you agreed to."
    shown = [f"Changes since {before}, which you agreed to:"]
    hidden: dict[str, int] = {}
    room = _SHOWN_LINES
    for path, lines in _compare(old, stored, changed):
        take = len(lines) if whole else max(0, room)
        room -= len(lines)
        shown += (_cut(line, whole=whole) for line in lines[:take])
        if lines[take:]:
            hidden[path] = len(lines[take:])
    return "\n".join([*shown, *_hidden(hidden, ref)])


def _changed(ref: HubRef, old: Stored, new: Stored) -> list[str]:
    """The files that differ, in the order in which they should be read."""
    order = dict.fromkeys(_ordered(ref, new)[0])
    if ref.path in old.manifest.files:
        order |= dict.fromkeys(_ordered(ref, old)[0])
    others = (old.manifest.files.keys() | new.manifest.files.keys()) - order.keys()
    order |= dict.fromkeys(sorted(others, key=lambda path: (not is_code(path), path)))
    return [path for path in order if _sha256(old, path) != _sha256(new, path)]


def _sha256(stored: Stored, path: str) -> str | None:
    file = stored.manifest.files.get(path)
    return file.sha256 if file is not None else None


def _compare(old: Stored, new: Stored, paths: list[str]) -> Iterator[tuple[str, list[str]]]:
    """What differs in each file. Lines of contents begin with +, - or a space, others do not."""
    room_bytes, room_lines = _COMPARED_BYTES, _COMPARED_LINES
    for path in paths:
        versions = [side.manifest.files.get(path) for side in (old, new)]
        size = sum(file.size for file in versions if file is not None)
        small = size <= room_bytes
        room_bytes -= size if small else 0
        before, now = _lines(old, path, read=small), _lines(new, path, read=small)
        room_lines -= len(before) + len(now)
        head = f"=== {escaped(path)}"
        if None in versions:
            head += " (new)" if versions[0] is None else " (deleted)"
        lines = _diff(before, now, closely=room_lines >= 0)
        if not lines and None not in versions:
            lines = ["=== differs in line ends, or in bytes that are not text"]
        yield path, [head, *lines]


def _diff(before: list[str], now: list[str], *, closely: bool) -> list[str]:
    if before == now:
        return []
    if not closely:  # the time would grow with the square of the lines
        return [*(f"-{line}" for line in before), *(f"+{line}" for line in now)]
    return list(difflib.unified_diff(before, now, lineterm=""))[2:]


def _cut(line: str, *, whole: bool) -> str:
    """A line as it may be printed, not longer than a few lines of a terminal."""
    if whole or len(line) <= _SHOWN_COLUMNS:
        return printable(line)
    return f"{printable(line[:_SHOWN_COLUMNS])}… ({len(line):,} characters)"


def _hidden(hidden: dict[str, int], ref: HubRef) -> list[str]:
    if not hidden:
        return []
    named = [f"{escaped(path)} ({lines:,})" for path, lines in hidden.items()]
    files = ", ".join(named[:_SHOWN_HIDDEN]) + _more(named[_SHOWN_HIDDEN:])
    return [
        f"=== cut here: {sum(hidden.values()):,} more lines are hidden, in {files}. To see all:",
        f"  envhub trust {ref} --all",
    ]


def requirements(ref: HubRef, stored: Stored) -> Requirements:
    """Return the requirements of its env file."""
    return requirements_at(stored.directory / ref.path, ref.path)


def _lines(stored: Stored, path: str, *, read: bool) -> list[str]:
    """The lines of a file, as Python would read them."""
    file = stored.manifest.files.get(path)
    if file is None:
        return []
    content = (stored.directory / path).read_bytes() if read else b""
    if not read or b"\0" in content:
        kind = "binary" if read else "too large to show"
        return [f"({kind}, {file.size} bytes, sha256 {file.sha256})"]
    encoding = _encoding(content) if path.endswith(".py") else "utf-8"
    try:
        text = content.decode(encoding, "replace")
    except (LookupError, UnicodeError):
        text = content.decode("utf-8", "replace")
    note = [] if encoding.startswith("utf-8") else [f"(read as {encoding}, which it declares)"]
    return [*note, *re.split(r"\r\n|\r|\n", text)] if text else note


def _encoding(content: bytes) -> str:
    """The encoding that a source declares: in some, what looks like a comment is code."""
    try:
        return tokenize.detect_encoding(io.BytesIO(content).readline)[0]
    except SyntaxError:
        return "utf-8"


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
