"""The address of the Hub, and answers that no Hub gives."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from envhub.errors import SourceUnavailable, UsageError
from envhub.sources.http import may_follow
from envhub.sources.hub import Hub, endpoint


@pytest.mark.parametrize(
    "address",
    [
        "http://mirror.invalid",
        "http://0.0.0.0",
        "http://127.1",
        "http://127.0.0.1.mirror.invalid",
        "http://localhost.mirror.invalid",
        "http://127.0.0.1@mirror.invalid",
        "http://localhost\\@mirror.invalid",
        "http://[::2]",
        "https://user:password@mirror.invalid",
        "https://huggingface.co?a=",
        "https://hugging\nface.co",
        "https://",
        "ftp://127.0.0.1",
        "huggingface.co",
    ],
)
def test_addresses_that_are_refused(monkeypatch, address):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(UsageError, match=r"^HF_ENDPOINT is .*, (which|where) .*\. Set it to an"):
        endpoint()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", "https://huggingface.co"),
        ("https://mirror.example/hf/", "https://mirror.example/hf"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.9.9.9", "http://127.9.9.9"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://[::1]:1", "http://[::1]:1"),
    ],
)
def test_addresses_that_are_taken(monkeypatch, address, expected):
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert endpoint() == expected


@pytest.mark.parametrize(
    ("url", "target", "expected"),
    [
        ("https://hub.example/a", "https://cdn.example/b", True),
        ("https://hub.example/a", "http://hub.example/a", False),
        ("https://hub.example/a", "http://127.0.0.1/a", False),
        ("http://127.0.0.1/a", "http://localhost/a", True),
        ("http://127.0.0.1/a", "http://192.168.0.1/a", False),
        ("https://hub.example/a", "file:///etc/passwd", False),
        ("https://hub.example/a", "https:///a", False),
    ],
)
def test_redirects_that_are_followed(url, target, expected):
    assert may_follow(url, target) is expected


@pytest.mark.parametrize("status", [400, 401, 404, 418, 500])
@pytest.mark.parametrize("body", [b"[]", b'{"error": 3}', b'{"errors": [1]}', b"\xff", b"[" * 9999])
def test_errors_whose_text_is_none(monkeypatch, status, body):
    """The client fails with some of them."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-HF-Warning", "everything; is lost")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(SourceUnavailable):
            Hub().resolve("me/env", "main")
        server.shutdown()
