"""Requests with bounds: on time, on bytes, and on who receives the user's token.

A session is the client of the HTTP library that the Hub's client uses, with the user's proxies and
certificates. Its own time limit is for a single read, and it has no limit on bytes: a server that
sends a byte every few seconds, or never stops sending, would be read forever.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urljoin, urlsplit

SILENCE = 10.0
"""Seconds that a server may be silent."""
ANSWER_SECONDS = 60.0
"""For an answer of the Hub's API: a page of 1,000 entries has 300 KB, which takes a slow link 5."""
ANSWER_BYTES = 16 * 2**20
"""For an answer of the Hub's API: 1,000 entries with the longest paths that Linux allows."""
_HOPS = 5
"""Redirects of a file; the Hub needs two, to its cache and to large-file storage."""
_ATTEMPTS = 5
"""Connections in a row that may end early, as in the Hub's own client."""
_WORTHWHILE = 2**16
"""Bytes that make a connection one that did not end early: whoever sends less at a time would need
8,000 connections for the largest file."""
_PAUSE = 0.2
"""Seconds before the second connection; each later one waits twice as long."""
_LIBRARIES = frozenset({"httpcore", "httpcore2", "httpx", "httpx2"})
"""Packages whose exceptions mean that a connection failed; the Hub's client uses one of them."""

_Result = TypeVar("_Result")
Check = Callable[[Any], None]
"""Raises the error that the status of an answer stands for."""


class BadAnswer(Exception):
    """An answer that is not read to its end; the text continues "it ..."."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: `localhost`, 127.0.0.0/8 or ::1."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_connection_error(exc: Exception) -> bool:
    """Whether an exception says that a connection failed."""
    return type(exc).__module__.partition(".")[0] in _LIBRARIES


def within(seconds: float, function: Callable[[], _Result]) -> _Result:
    """Run a function in a thread, and stop waiting for it after so many seconds.

    Raises:
        BadAnswer: The time is over.
    """
    future = Future[_Result]()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as exc:  # noqa: BLE001, RUF100 - handed to the caller
            future.set_exception(exc)

    # Not an executor: the interpreter would wait for its thread before it ends.
    threading.Thread(target=work, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the function itself raised it
            raise
        raise BadAnswer(f"did not end within {seconds:.0f} seconds") from None


def read_answer(
    session: Any,
    url: str,
    query: Mapping[str, Any] | None,
    headers: Mapping[str, str],
    check: Check,
) -> tuple[bytes, str]:
    """Return the body of an answer of the Hub's API, and the address of the next page or "".

    Raises:
        BadAnswer: The answer is a redirect, is too long, or takes too long.
    """

    def read() -> tuple[bytes, str]:
        ends = time.monotonic() + ANSWER_SECONDS
        body = bytearray()
        with _opened(session, url, headers, query) as answer:
            if target := _redirect(answer, url):
                raise BadAnswer(
                    f"is a redirect to {target}; if the repository was renamed, use its new name, "
                    "and if the Hub has another address, set HF_ENDPOINT"
                )
            check(answer)
            for piece in _pieces(answer):
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise BadAnswer(f"has more than {ANSWER_BYTES / 2**20:.0f} MB")
                if time.monotonic() > ends:  # nobody waits for it any more
                    raise BadAnswer(f"did not end within {ANSWER_SECONDS:.0f} seconds")
            return bytes(body), str(answer.links.get("next", {}).get("url", ""))

    return within(ANSWER_SECONDS, read)


def read_file(
    session: Any,
    url: str,
    headers: Mapping[str, str],
    into: BinaryIO,
    size: int,
    *,
    check: Check,
    on_bytes: Callable[[int], None],
) -> None:
    """Write a file of the Hub, or the rest of it; resume after a connection that ends early.

    Args:
        session: Makes the requests.
        url: The file.
        headers: Of the requests; the token goes to the server of the URL only.
        into: Receives the bytes from its position on, at most `size` in all.
        size: How many bytes the file should have.
        check: Raises the error that a status stands for.
        on_bytes: Receives the number of bytes so far; it may raise to end the download.

    Raises:
        BadAnswer: The file has more bytes, or the redirects are not followed.
    """
    failures = 0
    while True:
        before = into.tell()
        try:
            _receive(session, url, headers, into, size, check, on_bytes)
        except Exception as exc:
            if not is_connection_error(exc):
                raise
            failures = 0 if into.tell() - before >= _WORTHWHILE else failures + 1
            if failures >= _ATTEMPTS:
                raise
            time.sleep(_PAUSE * 2**failures)
        else:
            return


def _receive(
    session: Any,
    url: str,
    headers: Mapping[str, str],
    into: BinaryIO,
    size: int,
    check: Check,
    on_bytes: Callable[[int], None],
) -> None:
    start = into.tell()
    if start:
        headers = {**headers, "Range": f"bytes={start}-"}
    with _followed(session, url, headers) as answer:
        check(answer)
        if start and answer.status_code != 206:  # all of it comes again
            into.seek(0)
            into.truncate()
        for piece in _pieces(answer):
            if into.tell() + len(piece) > size:
                raise BadAnswer(f"has more than the {size} bytes that are listed")
            into.write(piece)
            on_bytes(into.tell())


@contextmanager
def _followed(session: Any, url: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """Open a URL and follow redirects; another server gets no token."""
    for _ in range(_HOPS):
        with _opened(session, url, headers, None) as answer:
            target = _redirect(answer, url)
            if not target:
                yield answer
                return
        if not may_follow(url, target):
            raise BadAnswer(f"is a redirect to {target}, which is not an https address")
        if origin_of(url) != origin_of(target):
            headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
        url = target
    raise BadAnswer(f"is a chain of more than {_HOPS} redirects")


def may_follow(url: str, target: str) -> bool:
    """Whether a redirect keeps its secrecy: to https, or from this machine to this machine."""
    scheme, host = urlsplit(target).scheme, urlsplit(target).hostname or ""
    if scheme == "https" and host:
        return True
    return scheme == "http" and is_loopback(host) and is_loopback(urlsplit(url).hostname or "")


@contextmanager
def _opened(
    session: Any, url: str, headers: Mapping[str, str], query: Mapping[str, Any] | None
) -> Iterator[Any]:
    """Open a URL, uncompressed: a compressed answer of some KB can have many GB."""
    with session.stream(
        "GET",
        url,
        params=query,
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=SILENCE,
        follow_redirects=False,
    ) as answer:
        yield answer


def _redirect(answer: Any, url: str) -> str:
    """Return the address that an answer redirects to, or ""."""
    if answer.status_code not in (301, 302, 303, 307, 308):
        return ""
    location = str(answer.headers.get("location", ""))
    try:
        target = urljoin(url, location)
        urlsplit(target).port  # noqa: B018 - raises if it is not a number
    except ValueError as exc:
        raise BadAnswer(f"is a redirect to {location!r}, which is not an address") from exc
    return target


def _pieces(answer: Any) -> Iterator[bytes]:
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise BadAnswer(f"is compressed ({encoding!r}), which was not asked for")
    yield from answer.iter_raw()


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Return the scheme, the host and the port of an address: its server."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
