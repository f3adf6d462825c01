"""A page about a run or an experiment that is under way, on loopback. It only reads.

The page is the report's own, made anew when a file has changed, and sent over server-sent events.
It is made at most once a second, and takes at most a twentieth of the time: the run comes first.
Its address has a random token; a request without it, for another host or from another origin is
refused.
"""

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from envhub.errors import EnvHubError
from envhub.records import EpisodeRecord
from envhub.results.experiment import Cell, is_experiment, open_experiment
from envhub.results.report.index import render_index
from envhub.results.report.page import render
from envhub.results.report.templates import render_page, render_part
from envhub.results.run import Run, open_run

_LEAST = 1.0
"""Seconds from one page to the next."""
_SHARE = 20
"""The part of the time that making pages takes at most is one of so many."""
_POLL = 0.2
_BEAT = 10.0
"""Seconds after which a connection is looked after."""
_MOST_READERS = 16
_MOST_TEXT = 300
_LATEST = 5
_HOST = "127.0.0.1"

Page = Mapping[str, Any]


class LivePage:
    """Serves the page, until it is closed."""

    def __init__(self, directory: Path) -> None:
        """Begin to listen.

        Args:
            directory: Of the run or the experiment.
        """
        self.directory = directory
        self._token = secrets.token_urlsafe(24)
        self._changed = threading.Condition()
        self._page: Page = {"version": 0, "status": "Waiting for the first episode.", "main": ""}
        self._ended = False
        self._readers = 0
        self._seen: object = None
        self._pace = _Pace()
        self._server = ThreadingHTTPServer((_HOST, 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{_HOST}:{self._server.server_port}/{self._token}/"

    def watch(self, until: Callable[[], bool]) -> None:
        """Make the page anew whenever a file has changed, until something is true."""
        due = 0.0
        while True:
            last, began = until(), time.monotonic()
            if last or began >= due:
                if (seen := _look(self.directory)) != self._seen:
                    self._seen = seen
                    self._publish()
                took = time.monotonic() - began
                due = began + max(_LEAST, _SHARE * took)
            if last:
                return
            time.sleep(_POLL)

    def close(self) -> None:
        """Tell readers that the run has ended, and stop listening."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        time.sleep(0.2)  # for threads that send it
        self._server.shutdown()
        self._server.server_close()

    def _publish(self) -> None:
        try:
            status, inner = _describe(self.directory, self._pace)
        except EnvHubError as exc:  # a file that is being written, or was removed
            status, inner = str(exc), str(self._page["main"])
        with self._changed:
            version = int(self._page["version"]) + 1
            self._page = {"version": version, "status": status, "main": inner}
            self._changed.notify_all()

    # Requests, each in a thread

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version, sys_version = "envhub", ""

            def do_GET(self) -> None:
                page.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        rest = self._allowed(request)
        if rest is None:
            _send(request, HTTPStatus.FORBIDDEN, "text/plain", "Refused.\n")
        elif rest == "":
            _send(request, HTTPStatus.OK, "text/html", self._whole())
        elif rest == "events":
            self._stream(request)
        elif (text := self._report(rest)) is not None:
            _send(request, HTTPStatus.OK, "text/html", text)
        else:
            _send(request, HTTPStatus.NOT_FOUND, "text/plain", "Nothing is here.\n")

    def _allowed(self, request: BaseHTTPRequestHandler) -> str | None:
        """Return what follows the token of a request; None: it is refused."""
        host = f"{_HOST}:{self._server.server_port}"
        headers = request.headers
        if headers.get("Host") != host:  # a name that leads here, of a page of somebody else
            return None
        if headers.get("Origin", f"http://{host}") != f"http://{host}":
            return None
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return None
        _, _, path = request.path.partition("/")
        token, slash, rest = path.partition("/")
        good = hmac.compare_digest(token.encode(errors="replace"), self._token.encode())
        return rest if good and slash else None

    def _whole(self) -> str:
        page = self._page
        return render_page(
            "live.html",
            script="live.js",
            connects=True,
            title=str(self.directory),
            status=page["status"],
            inner=page["main"],
        )

    def _report(self, name: str) -> str | None:
        """The report of the run, or of a cell, as it is now."""
        try:
            if not is_experiment(self.directory):
                return render(open_run(self.directory)) if name == "report" else None
            for cell in open_experiment(self.directory).cells:
                if name == cell.directory.name and (cell.directory / "run.json").exists():
                    return render(open_run(cell.directory))
        except EnvHubError:
            return None
        return None

    def _stream(self, request: BaseHTTPRequestHandler) -> None:
        with self._changed:
            if self._readers >= _MOST_READERS:
                _send(request, HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "Too many.\n")
                return
            self._readers += 1
        try:
            request.send_response(HTTPStatus.OK)
            request.send_header("Content-Type", "text/event-stream")
            request.send_header("Cache-Control", "no-store")
            request.send_header("Connection", "close")
            request.end_headers()
            self._send_events(request)
        except OSError:  # the reader has closed the page
            return
        finally:
            request.close_connection = True
            with self._changed:
                self._readers -= 1

    def _send_events(self, request: BaseHTTPRequestHandler) -> None:
        sent = 0
        while True:
            with self._changed:
                if self._page["version"] == sent and not self._ended:
                    self._changed.wait(_BEAT)
                page, ended = self._page, self._ended
            if page["version"] != sent:
                sent = page["version"]
                request.wfile.write(f"event: page\ndata: {json.dumps(page)}\n\n".encode())
            elif not ended:
                request.wfile.write(b": still here\n\n")
            if ended:
                request.wfile.write(b"event: end\ndata: {}\n\n")
            request.wfile.flush()
            if ended:
                return


class _Pace:
    """How fast episodes are recorded while somebody watches."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def left(self, recorded: int, planned: int) -> str:
        """Describe the time left; empty if nothing is known yet."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, recorded
        began, before = self._first
        if recorded >= planned or recorded <= before:
            return ""
        every = (now - began) / (recorded - before)
        minutes, seconds = divmod(int((planned - recorded) * every), 60)
        return f"about {minutes}:{seconds:02} left"


def _send(request: BaseHTTPRequestHandler, code: HTTPStatus, kind: str, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    request.send_response(code)
    for name, value in (
        ("Content-Type", f"{kind}; charset=utf-8"),
        ("Content-Length", str(len(data))),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ):
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(data)


def _look(directory: Path) -> object:
    """What changes when a page would."""
    names = ("run.json", "experiment.json", "failures.json", "episodes.jsonl", "*/episodes.jsonl")
    found = sorted(path for name in names for path in directory.glob(name))
    return [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in found]


def _describe(directory: Path, pace: _Pace) -> tuple[str, str]:
    """The line above the page, and what is below it."""
    page = directory / "report.html"
    if not is_experiment(directory):
        run = open_run(directory).keep_records()
        inner = _main_of(render(run, page))
        return _status([run], run.planned, pace), _failures([("", run)], []) + inner
    experiment = open_experiment(directory)
    runs = {cell: run.keep_records() for cell, run in experiment.runs().items()}
    inner = _main_of(render_index(directory, page))
    planned = sum(run.planned for run in runs.values())
    if runs:  # those that have not begun, as large as the others on average
        planned += round((len(experiment.cells) - len(runs)) * planned / len(runs))
    named = [(f"{cell.name}: ", run) for cell, run in runs.items()]
    return _status(list(runs.values()), planned, pace), _failures(named, _cells(runs)) + inner


def _main_of(page: str) -> str:
    """What a page has between its tags of `main`; what is foreign in it is escaped."""
    return page.partition("<main>")[2].partition("</main>")[0]


def _cells(runs: Mapping[Cell, Run]) -> list[dict[str, Any]]:
    return [
        {
            "name": cell.name,
            "recorded": len(run.records()),
            "planned": run.planned,
            "address": cell.directory.name,
        }
        for cell, run in runs.items()
    ]


def _status(runs: list[Run], planned: int, pace: _Pace) -> str:
    recorded = sum(len(run.records()) for run in runs)
    parts = [f"{recorded} of {planned} episodes"]
    if left := pace.left(recorded, planned):
        parts.append(left)
    return f"{', '.join(parts)}."


def _failures(named: list[tuple[str, Run]], cells: list[dict[str, Any]]) -> str:
    """The failures that were recorded last, and the cells."""
    failed = [
        (name, record)
        for name, run in named
        for record in run.records()
        if record.success is False or record.error is not None
    ]
    shown = [
        {"name": f"{name}{record.task} #{record.episode}", "text": _words(record)}
        for name, record in failed[-_LATEST:]
    ]
    return render_part("live_failures.html", failures=shown, cells=cells)


def _words(record: EpisodeRecord) -> str:
    if record.error is not None:
        return f"{record.error.type}: {record.error.message}"[:_MOST_TEXT]
    return f"{record.end} after {record.steps} steps"
