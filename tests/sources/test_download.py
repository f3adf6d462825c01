"""Downloading: several files at once, with progress, and nothing that is larger than listed."""

import itertools
import json
import threading
from pathlib import Path

import pytest
from envhub_localhub import faults
from support.relay import relay

from envhub.errors import SourceUnavailable
from envhub.refs import HubRef
from envhub.sources import download, store
from envhub.sources.fetch import obtain


def test_a_file_that_is_larger_than_listed_is_not_read(hub, ref, monkeypatch):
    """No commit says how large its files are, and the bounds go by the listing."""

    def understate(path: str, body: bytes) -> bytes:
        if "/tree/" not in path:
            return body
        return json.dumps(
            [row | {"size": max(row["size"] - 1, 0)} for row in json.loads(body)]
        ).encode()

    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("read"))
    with relay(hub.endpoint, on_body=understate) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(SourceUnavailable, match=r"has more than the \d+ bytes that are listed"):
            obtain(ref)


def test_several_files_are_fetched_at_once(hub, monkeypatch):
    names = [f"data/{number}.txt" for number in range(15)]
    ref = HubRef("me", "env", hub.commit("me/env", {"env.py": "", **dict.fromkeys(names, "x")}))
    together, four, seen = threading.Barrier(4), itertools.count(), []

    def wait_for_others(method: str, path: str) -> None:
        if method == "HEAD" and "/resolve/" in path and next(four) < 4:
            together.wait()  # for ever, if they come one after the other

    with relay(hub.endpoint, on_request=wait_for_others) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        stored = obtain(ref, on_progress=lambda *told: seen.append(told))
    assert list(stored.manifest.files) == sorted(("env.py", *names))
    counts = [told[0] for told in seen]  # on a slow machine one is told twice
    assert counts == sorted(counts)
    assert set(counts) == {*range(17)}
    assert seen[-1] == (16, 16, 15, 15)


def test_how_much_of_a_large_file_has_come_is_told(hub, monkeypatch):
    size = 60 * 2**20  # which takes the client six steps
    ref = HubRef("me", "env", hub.commit("me/env", {"env.py": "", "mesh.obj": bytes(size)}))
    monkeypatch.setattr(download, "_PROGRESS_INTERVAL", 0.001)
    seen = []
    obtain(ref, on_progress=lambda *told: seen.append(told))
    sizes = [told[2] for told in seen]
    assert sizes == sorted(sizes)
    assert any(0 < told < size for told in sizes)
    assert seen[-1] == (2, 2, size, size)


def test_a_cut_download_leaves_nothing_behind(hub, ref):
    with hub.fault(faults.Cut(0)), pytest.raises(SourceUnavailable):
        obtain(ref)
    assert not list(store.stored_path("me/env", "x").parent.parent.iterdir())
    assert obtain(ref)


def test_a_cut_download_is_resumed(hub, ref):
    with hub.fault(faults.Cut(5, "/env.py$", times=2)):
        assert obtain(ref)
    ranges = [request.range for request in hub.requests if request.path.endswith("/env.py")]
    assert ranges == [None, "bytes=5-", "bytes=10-"]
