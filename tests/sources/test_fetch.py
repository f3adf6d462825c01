"""Fetching from a Hub that behaves, and from one that does not."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from envhub_localhub import faults
from support.fetching import FILES

from envhub import directories
from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.fetch import obtain, obtain_files, resolve
from envhub.sources.hub import Hub
from envhub.sources.profiles import BENCHMARK


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


def test_a_commit_that_a_process_uses_is_not_removed(hub, ref):
    with pytest.raises(SourceUnavailable):
        obtain(replace(ref, repo="absent"))
    folder = store.stored_path(ref.repo_id, "x").parent.parent
    assert not list(folder.glob("*--absent"))  # a failure leaves nothing
    place = store.stored_path(ref.repo_id, ref.revision)
    assert not directories.is_used(place)
    for _ in range(2):  # fetched, and taken from the store
        obtain(ref)
        assert directories.is_used(place)
        assert not directories.remove_unused(place)
        os.close(directories._held.pop(place))  # as at the end of this process
    assert directories.remove_unused(place)
    assert list(place.parent.iterdir()) == []


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
    assert resolve(HubRef("me", "env"), Hub()) == ref
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


def test_links_are_refused(hub):
    from envhub_localhub import Link

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


def test_a_missing_path_names_those_that_are_there(hub, ref):
    with pytest.raises(SourceUnavailable, match=r"no other\.py .* it has env\.py"):
        obtain(HubRef("me", "env", ref.revision, "other.py"))


def test_too_much_is_not_fetched(hub, ref):
    with pytest.raises(SourceUnavailable, match="3 files"):
        obtain_files(ref, replace(BENCHMARK, max_files=2))
    with pytest.raises(SourceUnavailable, match="files of"):
        obtain_files(ref, replace(BENCHMARK, max_files=10, max_bytes=5))
