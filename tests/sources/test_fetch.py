"""Fetching from a Hub that behaves, and from one that does not."""

import itertools
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.relay import relay

from envhub.errors import SourceCorrupt, SourceUnavailable, UsageError
from envhub.files import set_writable
from envhub.refs import HubRef
from envhub.sources import download, fetch, store
from envhub.sources.fetch import obtain, resolve
from envhub.sources.hub import Hub
from envhub.sources.lock import check_lock, write_lock
from envhub.testing.hub import faults

FILES = {
    "env.py": "import gymnasium\n",
    "deep/data.json": "{}",
    "model.safetensors": b"\0" * 100,
    "README.md": "# hello\n",
}


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    local_hub.create("me/env")
    return local_hub


@pytest.fixture
def ref(hub):
    return HubRef("me", "env", hub.commit("me/env", FILES))


def test_files_come_checked_and_read_only(hub, ref):
    stored = obtain(ref)
    assert sorted(stored.manifest.files) == ["README.md", "deep/data.json", "env.py"]
    assert "model.safetensors" in stored.manifest.left_out
    assert stored.manifest.proof == "git"
    assert stored.manifest.endpoint == hub.endpoint
    assert (stored.directory / "env.py").read_text() == FILES["env.py"]
    for parent, folders, names in os.walk(stored.directory.parent):
        for name in (*folders, *names):
            assert os.stat(os.path.join(parent, name)).st_mode & 0o222 == 0


def test_the_second_time_nothing_is_asked(hub, ref):
    obtain(ref)
    asked = len(hub.requests)
    assert obtain(ref).manifest.commit == ref.revision
    assert len(hub.requests) == asked


def test_no_token_is_sent_unless_it_is_asked_for(hub, ref, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    obtain(ref)
    assert hub.requests
    assert not any(request.authorized for request in hub.requests)


def test_private_repositories(hub, monkeypatch):
    hub.create("me/secret", private=True)
    ref = HubRef("me", "secret", hub.commit("me/secret", FILES))
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with pytest.raises(SourceUnavailable, match="--private"):
        obtain(ref)
    assert obtain(ref, private=True).manifest.proof == "git"


def obtain_without_git(ref, tmp_path) -> str:
    """In a process of its own: the server here needs git."""
    code = (
        "import sys; from envhub.refs import parse; from envhub.sources.fetch import obtain\n"
        "try: print(obtain(parse(sys.argv[1])).manifest.proof)\n"
        "except Exception as exc: print(type(exc).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ref)],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_without_git_the_listing_is_the_proof(hub, ref, tmp_path):
    assert obtain_without_git(ref, tmp_path) == "listing"


def test_moving_references_are_resolved_once(hub, ref):
    assert resolve(HubRef("me", "env", "main"), Hub()).commit == ref.revision
    assert resolve(HubRef("me", "env"), Hub()).ref == ref
    hub.tag("me/env", "v1")
    assert resolve(HubRef("me", "env", "v1"), Hub()).commit == ref.revision


def test_every_lie_is_noticed_and_the_next_good_try_works(hub, ref):
    other = hub.commit("me/env", {"env.py": "import os\n"})
    for lie, message in (
        (faults.WrongBytes("env.py"), "differs from the commit"),
        (faults.WrongTree("env.py"), "env.py differs"),
        (faults.WrongTree(), "differs"),
        (faults.OtherCommit(other), "another commit"),
        (faults.Symlink("env.py", "/etc/passwd"), "differs"),
    ):
        with hub.fault(lie), pytest.raises(SourceCorrupt, match=message):
            obtain(ref)
        assert store.load("me/env", ref.revision) is None
    assert obtain(ref).manifest.proof == "git"


@pytest.mark.parametrize("lie", [faults.WrongBytes("env.py"), faults.WrongTree("env.py")])
def test_lies_are_noticed_without_git_too(hub, ref, tmp_path, lie):
    with hub.fault(lie):
        assert obtain_without_git(ref, tmp_path) == "SourceCorrupt"


def test_a_file_that_is_larger_than_listed_is_not_read(hub, ref, monkeypatch):
    """No commit says how large its files are, and the bounds go by the listing."""

    def understate(path: str, body: bytes) -> bytes:
        if "/tree/" not in path:
            return body
        return json.dumps([row | {"size": row["size"] - 1} for row in json.loads(body)]).encode()

    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("read"))
    with relay(hub.endpoint, on_body=understate) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(SourceCorrupt, match=r"has \d+ bytes instead of \d+"):
            obtain(ref)


def test_links_are_refused(hub):
    from envhub.testing.hub import Link

    commit = hub.commit("me/env", {**FILES, "link.py": Link("/etc/passwd")})
    with pytest.raises(SourceCorrupt, match="symbolic link"):
        obtain(HubRef("me", "env", commit))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faults.Status(401, "/api/models"), "private"),
        (faults.Status(403, "/api/models"), "forbidden"),
        (faults.Status(404, "/api/models", "RepoNotFound"), "does not exist or is private"),
        (faults.Status(404, "/api/models", "RevisionNotFound"), "revision"),
        (faults.Status(429, "/api/models"), "too often"),
        (faults.Status(500, "/api/models"), "the Hub answered HTTP 500"),
        (faults.Gated("/resolve/"), "gated"),
        (faults.Status(404, "git-upload-pack|info/refs"), "git could not fetch"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.filterwarnings("ignore")
def test_each_failure_has_its_own_message(hub, ref, fault, message):
    with hub.fault(fault), pytest.raises(SourceUnavailable, match=message):
        obtain(ref)
    assert obtain(ref)


def test_a_hub_that_is_down_says_what_is_stored(hub, ref):
    obtain(ref)
    second = HubRef("me", "env", hub.commit("me/env", {"env.py": "x = 1\n"}))
    hub.close()
    assert obtain(ref)
    with pytest.raises(SourceUnavailable, match=f"Stored commits: {ref.revision}"):
        obtain(second)
    with pytest.raises(SourceUnavailable, match="Stored commits: none"):
        obtain(HubRef("me", "other", ref.revision))


@pytest.mark.parametrize("how", ["bytes", "more", "less", "manifest", "objects", "both"])
def test_a_poisoned_store_heals_or_refuses(hub, ref, how):
    stored = obtain(ref)
    place = stored.directory.parent
    set_writable(place, writable=True)
    file, manifest = stored.directory / "env.py", place / "manifest.json"
    content = json.loads(manifest.read_text())
    match how:
        case "bytes":
            file.write_text("import evil\n")
        case "more":
            (stored.directory / "sitecustomize.py").write_text("import evil\n")
        case "less":
            file.unlink()
        case "manifest":
            manifest.write_text("{}")
        case "objects":
            content["objects"][ref.revision] = ""
            manifest.write_text(json.dumps(content))
        case "both":  # a manifest that agrees with the poisoned file
            file.write_text("import evil\n")
            sha256, blob_id = store.digests(file.read_bytes())
            content["files"]["env.py"] |= {
                "sha256": sha256, "blob_id": blob_id, "size": file.stat().st_size,
            }  # fmt: skip
            manifest.write_text(json.dumps(content))
    with pytest.raises(SourceCorrupt):
        store.load("me/env", ref.revision)
    healed = obtain(ref)
    assert (healed.directory / "env.py").read_text() == FILES["env.py"]
    set_writable(place, writable=True)
    (healed.directory / "env.py").write_text("import evil\n")
    hub.close()
    with pytest.raises(SourceCorrupt, match="It was removed"):
        obtain(ref)
    assert store.load("me/env", ref.revision) is None


def test_links_in_a_poisoned_store_are_seen_and_not_followed(hub, ref, tmp_path):
    """What they lead to is neither run nor made readable when the copy is removed."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "__init__.py").write_text("import evil\n")
    (outside / "__init__.py").chmod(0o600)
    files = obtain(ref).directory
    for link, target in (("helpers", outside), ("more.py", outside / "__init__.py")):
        set_writable(files, writable=True)
        (files / link).symlink_to(target)
        with pytest.raises(SourceCorrupt, match=f"{link} is missing or does not belong there"):
            store.load("me/env", ref.revision)
        assert not (obtain(ref).directory / link).exists()
    assert outside.stat().st_mode & 0o777 == 0o700
    assert (outside / "__init__.py").stat().st_mode & 0o777 == 0o600


def test_several_fetch_the_same_at_once(hub, ref):
    """Whoever is first puts it there; the others use that, and take nothing away."""
    start = threading.Barrier(4)

    def fetched(_: int) -> str:
        start.wait()
        return (obtain(ref).directory / "env.py").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fetched, range(4))) == [FILES["env.py"]] * 4
    assert [p.name for p in (store.cache_home() / "sources").iterdir()] == ["me--env"]


def test_what_a_killed_fetch_left_is_removed_in_time(hub, ref):
    left = store.cache_home() / "sources" / ".staged-left"
    (left / "files").mkdir(parents=True)
    (left / "files" / "env.py").write_text("half")
    os.utime(left, (0, 0))
    with store.stage() as new:
        obtain(ref)
        assert not left.exists()
        assert new.exists()
    assert not new.exists()


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
    assert [told[0] for told in seen] == list(range(17))
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
    monkeypatch.setattr("envhub.sources.hub._TIMEOUT", 0.2)
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
        (b"[]", {"Link": '<http://127.0.0.2:9/next>; rel="next"'}, "could not be requested"),
    ],
    ids=["page", "types", "elsewhere"],
)
def test_a_listing_that_is_none(monkeypatch, body, headers, message):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(SourceUnavailable, match=message):
            Hub().listing("me/env", "0" * 40)
        server.shutdown()


def test_a_missing_path_names_those_that_are_there(hub, ref):
    with pytest.raises(SourceUnavailable, match=r"no other\.py .* it has env\.py"):
        obtain(HubRef("me", "env", ref.revision, "other.py"))


def test_too_much_is_not_fetched(hub, ref, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_FILES", 2)
    with pytest.raises(SourceUnavailable, match="3 files"):
        obtain(ref)
    monkeypatch.setattr(fetch, "MAX_FILES", 10)
    monkeypatch.setattr(fetch, "MAX_BYTES", 5)
    with pytest.raises(SourceUnavailable, match="files of"):
        obtain(ref)


def test_a_cut_download_leaves_nothing_behind(hub, ref):
    with hub.fault(faults.Cut(5)), pytest.raises((SourceUnavailable, SourceCorrupt)):
        obtain(ref)
    assert not list(store.stored_path("me/env", "x").parent.parent.iterdir())
    assert obtain(ref)


def test_locks(hub, ref, tmp_path):
    stored, path = obtain(ref), tmp_path / "envhub.lock"
    with pytest.raises(UsageError, match="envhub lock me/env"):
        check_lock(ref, stored.manifest, path)
    write_lock(ref, stored, path)
    check_lock(ref, stored.manifest, path)
    other = HubRef("me", "env", hub.commit("me/env", {"env.py": "x = 1\n"}))
    with pytest.raises(SourceCorrupt, match="is locked at"):
        check_lock(other, obtain(other).manifest, path)
    content = json.loads(path.read_text())
    content["sources"]["me/env"]["files"]["env.py"] = "0" * 64
    path.write_text(json.dumps(content))
    with pytest.raises(SourceCorrupt, match=r"env\.py .* differs"):
        check_lock(ref, stored.manifest, path)
    path.write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        check_lock(ref, stored.manifest, path)
