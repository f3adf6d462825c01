"""The HTTP server: reads requests, logs them, sends answers, or cuts them off."""

import socket
import sys
import threading
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from envhub_localhub.faults import Cut, Endless, Faults, Header, Slow
from envhub_localhub.messages import Answer, Call, Refused, Request
from envhub_localhub.routes import answer
from envhub_localhub.store import Store

_CLOSE_TIMEOUT = 10.0
"""Seconds that a running request has to end when the server closes."""


class Server(ThreadingHTTPServer):
    """Serves a store on loopback, in threads of its own."""

    daemon_threads = True
    # The port of a stopped Hub can be used again at once.
    allow_reuse_address = True

    def __init__(
        self,
        port: int,
        *,
        store: Store,
        faults: Faults,
        token: str,
        log: Callable[[Request], None],
        storage: str = "",
    ) -> None:
        self.store = store
        self.faults = faults
        self.token = token
        self.log = log
        self.storage = storage
        self.closing = threading.Event()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)
        self._serving = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._serving.start()

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        """Stop listening, close the connections, and wait for the threads."""
        self.shutdown()
        self._serving.join()
        self.closing.set()
        with self._lock:
            connections = dict(self._connections)
        for connection, thread in connections.items():
            hang_up(connection)
            thread.join(_CLOSE_TIMEOUT)
        self.server_close()

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, so that `close` can end it."""
        with self._lock:
            self._connections[connection] = threading.current_thread()
        if self.closing.is_set():
            hang_up(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._lock:
            self._connections.pop(connection, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback, unless the client has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def hang_up(connection: socket.socket) -> None:
    """Close a connection for both sides, which also ends the thread that reads from it."""
    with suppress(OSError):  # the other side has closed it already
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "LocalHub"
    # Headers and body in one packet: the second of two packets would be delayed.
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.closed(self.connection)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name above it
        """Print nothing: requests are in the Hub's log."""

    def do_GET(self) -> None:
        call = self._read()
        answered = self._answer(call)
        self._log(call, answered.status)
        if slow := self.server.faults.happens(Slow, call.path):
            self.server.closing.wait(slow.seconds)
        self._send(call, answered)

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - names that the base class calls

    def _read(self) -> Call:
        address = urlsplit(self.path)
        token = _token(self.headers.get("Authorization", ""))
        return Call(
            method=self.command,
            path=unquote(address.path),
            quoted=address.path,
            query=parse_qs(address.query),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._body(),
            token=token,
            authorized=token == self.server.token,
            endpoint=self.server.endpoint,
            storage=self.server.storage,
            store=self.server.store,
            faults=self.server.faults,
        )

    def _body(self) -> bytes:
        """Read the body: of a known length, or in chunks, as git sends large ones."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _answer(self, call: Call) -> Answer:
        try:
            return answer(call)
        except Exception as exc:  # noqa: BLE001, RUF100 - any failure is answered
            return Refused(500, f"The local Hub failed: {exc!r}").answer

    def _log(self, call: Call, status: int) -> None:
        self.server.log(
            Request(
                method=call.method,
                path=call.path,
                query=urlsplit(self.path).query,
                authorized=call.authorized,
                token=call.token,
                range=call.headers.get("range"),
                status=status,
            )
        )

    def _send(self, call: Call, answered: Answer) -> None:
        headers = dict(answered.headers)
        if header := self.server.faults.happens(Header, call.path):
            headers[header.name] = header.value
        if endless := self.server.faults.happens(Endless, call.path):
            self._send_for_ever(replace(answered, headers=headers), endless)
            return
        self.send_response(answered.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answered.body)))
        self.end_headers()
        if call.method == "HEAD":
            return
        if cut := self.server.faults.happens(Cut, call.path):
            self.wfile.write(answered.body[: cut.after_bytes])
            self.wfile.flush()
            hang_up(self.connection)
            self.close_connection = True
            return
        self.wfile.write(answered.body)

    def _send_for_ever(self, answered: Answer, endless: Endless) -> None:
        self.close_connection = True
        if endless.part == "head":
            piece = b"HTTP/1.1 103 Early Hints\r\n\r\n"
        else:
            self.send_response(answered.status)
            for name, value in {**answered.headers, "Transfer-Encoding": "chunked"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(_chunk(answered.body) if answered.body else b"")
            piece = _chunk(b" " * (1 if endless.pause else 2**16))
        with suppress(ConnectionError):  # the client has hung up
            while not self.server.closing.wait(endless.pause):
                self.wfile.write(piece)
                self.wfile.flush()


def _chunk(data: bytes) -> bytes:
    """A part of a body whose length is not known."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _token(header: str) -> str | None:
    """Return the token of a request: the client sends it as a bearer, git as a password."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return value or None
    try:
        return b64decode(value).decode().partition(":")[2]
    except ValueError:
        return value
