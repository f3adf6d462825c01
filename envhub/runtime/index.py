"""What the user's own package index says of packages: since when it has them, and their pages.

A name on an index belongs to whoever took it first, and need not be the project that it sounds
like. The indexes that uv uses are asked for the JSON form of their pages (PEP 691) with the times
of uploads (PEP 700), and for the metadata of a file (PEP 658) if it is on the same server. No other
server is asked, and no redirect is followed: what an index does not tell is unknown.
"""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from envhub.errors import RuntimeUnavailable
from envhub.runtime.pins import Pin, Pins
from envhub.runtime.uv import run_uv
from envhub.sources import http
from envhub.sources.hub import session

YOUNG = timedelta(days=90)
_AT_ONCE = 8
_JSON = "application/vnd.pypi.simple.v1+json"
_HOME_LABELS = ("homepage", "home", "source", "repository", "documentation")


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """What is known of a package that would be installed."""

    name: str
    version: str
    first_upload: datetime | None = None
    """When the index got its first file of that name; None: it does not say."""
    page: str | None = None
    """The address of its project; "" if it names none, None if that is unknown."""

    def doubts(self, now: datetime) -> tuple[str, ...]:
        """Return what speaks against the package being a project that people know."""
        young = self.first_upload is not None and now - self.first_upload < YOUNG
        return (
            *([f"younger than {YOUNG.days} days"] if young else ()),
            *(["no project page"] if self.page == "" else ()),
        )


def describe_packages(pins: Pins) -> tuple[PackageFacts, ...]:
    """Ask the user's indexes for the packages of some pins; they come in the order of the pins."""
    index = _Indexes(_used_by_uv())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(index.describe, pins.pins))


class _File(msgspec.Struct, rename="kebab"):
    url: str
    hashes: dict[str, str]
    upload_time: datetime | None = None
    core_metadata: bool | dict[str, str] = False


class _Page(msgspec.Struct):
    """The part of an index's page of a package that is read."""

    files: list[_File]


class _Silent(Exception):
    """An index has no readable answer."""


class _Indexes:
    """The indexes, those first that uv asks first."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses
        self._dead: set[str] = set()
        """Servers that cannot be reached, so that others are not waited for as long."""

    def describe(self, pin: Pin) -> PackageFacts:
        for address in self._addresses:
            url = f"{address.rstrip('/')}/{pin.name}/"
            try:
                files = msgspec.json.decode(self._get(url, _JSON), type=_Page).files
            except (_Silent, msgspec.MsgspecError):
                continue
            # The index that the pinned file comes from, if several know the name.
            pinned = [file for file in files if f"sha256:{file.hashes.get('sha256')}" in pin.hashes]
            if pinned:
                page = self._project(url, pinned)
                return PackageFacts(pin.name, pin.version, _first(files), page)
        return PackageFacts(pin.name, pin.version)

    def _project(self, url: str, files: list[_File]) -> str | None:
        """Return the project's address in the metadata of a file; "" if there is none."""
        for file in files:
            target = f"{urljoin(url, file.url).partition('#')[0]}.metadata"
            if file.core_metadata and http.origin_of(target) == http.origin_of(url):
                try:
                    return _home_page(self._get(target, "*/*").decode(errors="replace"))
                except _Silent:
                    continue
        return None

    def _get(self, url: str, accepted: str) -> bytes:
        server = urlsplit(url).netloc
        if server in self._dead:
            raise _Silent
        try:
            return http.read_answer(session(), url, None, {"Accept": accepted}, _check)[0]
        except http.BadAnswer as exc:
            raise _Silent from exc
        except Exception as exc:
            if not (http.is_connection_error(exc) or isinstance(exc, OSError)):
                raise
            self._dead.add(server)
            raise _Silent from exc


def _check(answer: Any) -> None:
    if answer.status_code != 200:
        raise http.BadAnswer(f"has the status {answer.status_code}")


def _used_by_uv() -> tuple[str, ...]:
    """Return the addresses of the indexes that uv would use, from whatever settings it has."""
    arguments = ["pip", "compile", "-", "--emit-index-url", "--no-header", "--quiet", "--offline"]
    with tempfile.TemporaryDirectory() as empty:
        try:
            told = run_uv(
                [*arguments, "--no-python-downloads", "--python", sys.executable],
                directory=Path(empty),
                subject="The list of indexes",
                requirements=(),
                line="envhub doctor",
            )
        except RuntimeUnavailable:  # then whoever installs is told so
            return ()
    options = ("--index-url ", "--extra-index-url ")
    lines = [line for line in told.splitlines() if line.startswith(options)]
    addresses = [line.partition(" ")[2].strip() for line in lines]
    return tuple(a for a in addresses if a.startswith(("http://", "https://")))


def _first(files: list[_File]) -> datetime | None:
    """Return the time of the first upload; None if a file has none, which could be the first."""
    times = [file.upload_time for file in files if file.upload_time is not None]
    if not times or len(times) < len(files):
        return None
    return min(time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)


def _home_page(metadata: str) -> str:
    message = HeaderParser().parsestr(metadata)
    pages = dict(_named_pages(message.get_all("Project-URL") or ()))
    if home := message.get("Home-page", "").strip():
        return home
    named = [pages[label] for label in _HOME_LABELS if label in pages]
    return next(iter([*named, *pages.values()]), "")


def _named_pages(lines: Any) -> Iterator[tuple[str, str]]:
    for line in lines:
        label, comma, address = str(line).partition(",")
        if comma and address.strip():
            yield label.strip().lower(), address.strip()
