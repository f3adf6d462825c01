"""A relay before a Hub on loopback: tests see and change what passes."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"connection", "content-length", "transfer-encoding"})


@contextmanager
def relay(
    endpoint: str,
    *,
    on_request: Callable[[str, str], None] = lambda method, path: None,
    on_body: Callable[[str, bytes], bytes] = lambda path, body: body,
) -> Iterator[str]:
    """Pass requests on to a server, and its answers back.

    Args:
        endpoint: Its address.
        on_request: Called with the method and the path before a request is passed on.
        on_body: Called with the path and the body of an answer; returns what is sent instead.

    Yields:
        The address of the relay.
    """
    target = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            on_request(self.command, self.path)
            length = int(self.headers.get("Content-Length", 0))
            connection = http.client.HTTPConnection(target, timeout=60)
            connection.request(self.command, self.path, self.rfile.read(length), dict(self.headers))
            answer = connection.getresponse()
            body = on_body(self.path, answer.read())
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            if self.command == "HEAD":
                self.send_header("Content-Length", answer.headers.get("Content-Length", "0"))
            else:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        do_GET = do_HEAD = do_POST = pass_on  # noqa: N815, RUF100

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
