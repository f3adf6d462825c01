"""The client of the Hub: what it asks, and what it says when no answer comes."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from envhub_localhub import faults

from envhub.errors import SourceUnavailable, UsageError
from envhub.sources.fetch import obtain
from envhub.sources.http import may_follow
from envhub.sources.hub import Hub, endpoint


@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("/tree/", lambda ref: obtain(ref)),
        ("/api/models$", lambda ref: Hub().search("reach", 10)),
        (
            "/api/models/me/env$",
            lambda ref: Hub().publish("me/env", Path(), private=False, ignore=[]),
        ),
    ],
    ids=["listing", "search", "publish"],
)
def test_a_hub_that_does_not_answer(hub, ref, monkeypatch, path, ask):
    monkeypatch.setattr("envhub.sources.http.SILENCE", 0.2)
    expected = pytest.raises(SourceUnavailable, match="could not be requested: ReadTimeout")
    with hub.fault(faults.Slow(2.0, path)), expected:
        ask(ref)


def test_a_listing_of_many_pages(hub):
    names = {f"data/{number:04}.txt" for number in range(2500)}
    commit = hub.commit("me/env", dict.fromkeys(names, "x"))
    listed = [one.path for one in Hub().listing("me/env", commit)]
    assert len(listed) == len(set(listed))
    assert set(listed) == {".gitattributes", *names}


def test_a_hub_that_is_down_is_not_asked_again_and_again(hub, ref, caplog):
    hub.close()
    with pytest.raises(SourceUnavailable, match="Check the network"):
        Hub().search("reach", 10)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"<html>a portal</html>", {}, "got an answer that is not from a Hub"),
        (b'[{"type": "file", "path": 3}]', {}, "got an answer that is not from a Hub"),
        (b"[]", {"Link": '<http://127.0.0.2:9/next>; rel="next"'}, "which is another server"),
    ],
    ids=["page", "types", "elsewhere"],
)
def test_a_listing_that_is_none(monkeypatch, body, headers, message):
    expected = pytest.raises(SourceUnavailable, match=message)
    with answering(monkeypatch, lambda path: (body, headers)), expected:
        Hub().listing("me/env", "0" * 40)


@contextmanager
def answering(monkeypatch, answer):
    """A server that is the Hub: its answers are bodies and headers, by the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body, headers = answer(self.path)
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


HEAD, OLD, OTHER = "a" * 40, "b" * 40, "c" * 40


BRANCHES = [{"name": "main", "ref": "refs/heads/main", "targetCommit": HEAD}]


def history(pages: int, refs: object = {"branches": BRANCHES, "tags": []}):
    """The answers of a Hub with one branch, whose history has that many pages."""

    def answer(path):
        if path.endswith("/refs"):
            return json.dumps(refs).encode(), {}
        page = int(path.partition("cursor=")[2] or 1)
        last = page == pages
        target = f'<{endpoint()}{path.partition("?")[0]}?cursor={page + 1}>; rel="next"'
        body = json.dumps([{"id": OLD if last else f"{page:040}"}]).encode()
        return body, {} if last else {"Link": target}

    return answer


def test_a_history_of_some_pages(monkeypatch):
    with answering(monkeypatch, history(3)):
        assert Hub().is_on_branch("me/env", HEAD)
        assert Hub().is_on_branch("me/env", OLD)
        assert not Hub().is_on_branch("me/env", OTHER)


def test_a_history_without_an_end_is_no_answer(monkeypatch):
    with answering(monkeypatch, history(1_000_000)), pytest.raises(SourceUnavailable) as caught:
        Hub().is_on_branch("me/env", OTHER)
    text = str(caught.value)
    assert text.startswith("The history of me/env has more than 100 pages (http://127.0.0.1:")
    assert text.endswith(f"one of its branches leads to {OTHER}. Install git, which can.")


@pytest.mark.parametrize(
    "refs",
    [
        [],
        {"branches": []},
        {"branches": [{"name": "main"}], "tags": []},
        {"branches": [{"targetCommit": "main"}], "tags": []},
        {"branches": [{"targetCommit": f"{HEAD}\n"}], "tags": []},
        {"branches": [{"targetCommit": f"{HEAD}/../{OTHER}"}], "tags": []},
        {"branches": [], "tags": [{"targetCommit": None}]},
    ],
)
def test_branches_that_are_none(monkeypatch, refs):
    expected = pytest.raises(SourceUnavailable, match="got an answer that is not from a Hub")
    with answering(monkeypatch, history(1, refs)), expected:
        Hub().is_on_branch("me/env", HEAD)


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


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"[]"),
        (401, b'{"error": 3}'),
        (404, b'{"errors": [1]}'),
        (418, b"\xff"),
        (500, b"[" * 9999),
    ],
)
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
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(SourceUnavailable):
            Hub().resolve("me/env", "main")
        server.shutdown()
