"""The real client, the real `hf` command and the real git against a Hub on loopback.

`tests/soak/test_clients.py` runs this file with other versions of the client.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub as client
import pytest
from envhub_localhub import (
    Cut,
    Endless,
    Gated,
    GitFailed,
    Header,
    Link,
    LocalHub,
    MoreBytes,
    OtherCommit,
    Redirect,
    Slow,
    Status,
    Symlink,
    WrongBytes,
    WrongSize,
    WrongTree,
)
from envhub_localhub.card import tags_of
from envhub_localhub.git import Blob
from huggingface_hub import constants, errors
from support.needs import needs_git

import envhub.testing
from envhub.errors import UnknownName, UsageError

pytestmark = needs_git

ENV = "print('the first')\n"
OTHER_ENV = "print('another')\n"
CARD = "---\nlicense: mit\ntags:\n- envhub\n- robotics\n---\n# A benchmark\n"


@pytest.fixture(autouse=True)
def _nothing_leaves(monkeypatch):
    """No proxy, no token of whoever runs this, and no question to the real Hub about agents."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)


@pytest.fixture
def hub(tmp_path):
    # Threads that are first at the same time make a session each in 1.6, which forgets some.
    client.get_session()
    with LocalHub(tmp_path / "hub") as hub:
        yield hub
    client.close_session()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory of a Hub with one repository, and the first of its two commits."""
    directory = tmp_path_factory.mktemp("made")
    hub = LocalHub(directory)
    hub.create("owner/name")
    commit = hub.commit("owner/name", {"env.py": ENV, "README.md": CARD, "a/b/c.bin": b"\0\xff"})
    hub.tag("owner/name", "v1")
    hub.commit("owner/name", {"env.py": OTHER_ENV})
    return directory, commit


@pytest.fixture
def first(hub, made, tmp_path):
    """The first of two commits of a repository."""
    directory, commit = made
    shutil.copytree(directory, tmp_path / "hub", dirs_exist_ok=True)
    return commit


@pytest.fixture
def api(hub):
    """Somebody with the token."""
    return client.HfApi(endpoint=hub.endpoint, token=hub.token)


@pytest.fixture
def anyone(hub):
    """Somebody without a token."""
    return client.HfApi(endpoint=hub.endpoint, token=False)


@pytest.fixture
def download(hub, tmp_path):
    """Downloads a file without a token and gives its bytes."""

    def get(path="env.py", revision=None, **options) -> bytes:
        options = {"token": False, "repo_id": "owner/name"} | options
        file = client.hf_hub_download(
            filename=path, revision=revision, endpoint=hub.endpoint,
            cache_dir=tmp_path / "cache", **options
        )  # fmt: skip
        return Path(file).read_bytes()

    return get


@pytest.fixture
def impatient(monkeypatch):
    """The client waits between attempts; not here."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


@contextlib.contextmanager
def answering(hub, path: str) -> Iterator[http.client.HTTPResponse]:
    """The answer to a plain request, not read yet."""
    port = int(hub.endpoint.split(":")[-1])
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            yield answer


def get(hub, path: str) -> http.client.HTTPResponse:
    """The answer to a plain request, whole."""
    with answering(hub, path) as answer:
        answer.read()
    return answer


def asked(hub) -> list[tuple[str, str]]:
    return [(request.method, request.path) for request in hub.requests]


class TestReading:
    def test_info(self, hub, first, anyone):
        head = hub.commit_of("owner/name")
        info = anyone.model_info("owner/name")
        assert (info.id, info.author, info.sha) == ("owner/name", "owner", head)
        assert (info.private, info.gated) == (False, False)
        assert info.tags == info.card_data.tags == ["envhub", "robotics"]
        assert info.last_modified >= info.created_at
        names = [sibling.rfilename for sibling in info.siblings]
        assert names == [".gitattributes", "README.md", "a/b/c.bin", "env.py"]

    def test_info_with_blobs(self, first, anyone):
        info = anyone.model_info("owner/name", revision=first, files_metadata=True)
        found = {sibling.rfilename: (sibling.blob_id, sibling.size) for sibling in info.siblings}
        assert found["env.py"] == (Blob.of(ENV.encode()).id, len(ENV))

    def test_chosen_info(self, first, anyone):
        info = anyone.model_info("owner/name", expand=["sha", "tags"])
        assert info.sha is not None
        assert info.siblings is None

    def test_a_revision(self, first, anyone, download):
        for revision in (first, "v1", first[:10]):
            assert anyone.model_info("owner/name", revision=revision).sha == first
            assert download(revision=revision) == ENV.encode()
        for branch in (None, "main"):
            assert download(revision=branch) == OTHER_ENV.encode()

    def test_a_branch_with_a_slash(self, hub, first, anyone, download):
        commit = hub.commit("owner/name", {"env.py": "x\n"}, branch="try/this")
        assert anyone.model_info("owner/name", revision="try/this").sha == commit
        assert download(revision="try/this") == b"x\n"
        assert download() == OTHER_ENV.encode()

    def test_the_tree(self, first, anyone):
        flat = list(anyone.list_repo_tree("owner/name", revision=first))
        assert [entry.path for entry in flat] == [".gitattributes", "README.md", "a", "env.py"]
        every = {entry.path: entry for entry in anyone.list_repo_tree("owner/name", recursive=True)}
        assert every["a/b/c.bin"].blob_id == Blob.of(b"\0\xff").id
        assert every["a/b/c.bin"].size == 2
        assert len(every["a/b"].tree_id) == 40
        below = anyone.list_repo_tree("owner/name", path_in_repo="a/b", revision=first)
        assert [entry.path for entry in below] == ["a/b/c.bin"]

    def test_a_tree_of_many_pages(self, hub, first, anyone):
        hub.commit("owner/name", {f"many/{i:04}": str(i) for i in range(2100)})
        assert len(anyone.list_repo_files("owner/name")) == 2104
        assert "cursor=2000" in hub.requests[-1].query

    def test_some_paths(self, first, anyone):
        found = anyone.get_paths_info("owner/name", ["env.py", "a", "no"], revision=first)
        assert [entry.path for entry in found] == ["a", "env.py"]

    def test_refs(self, hub, first, anyone):
        refs = anyone.list_repo_refs("owner/name")
        head = hub.commit_of("owner/name")
        assert [(ref.name, ref.target_commit) for ref in refs.branches] == [("main", head)]
        assert [(ref.ref, ref.target_commit) for ref in refs.tags] == [("refs/tags/v1", first)]

    def test_commits(self, hub, first, anyone):
        head = hub.commit_of("owner/name")
        history = [past.commit_id for past in anyone.list_repo_commits("owner/name")]
        assert history[0] == head
        assert first in history[1:]
        before = anyone.list_repo_commits("owner/name", revision=first)
        assert [past.commit_id for past in before] == history[history.index(first) :]
        assert all(past.title and past.created_at for past in before)

    def test_a_snapshot(self, hub, first, tmp_path):
        folder = client.snapshot_download(
            "owner/name", revision=first, endpoint=hub.endpoint, cache_dir=tmp_path / "cache"
        )
        assert Path(folder).name == first
        assert (Path(folder) / "env.py").read_text() == ENV
        assert (Path(folder) / "a/b/c.bin").read_bytes() == b"\0\xff"

    def test_odd_names(self, hub, first, download):
        files = {"a b/ü?#%.py": b"1", 'quote".py': b"2", "back\\slash": b"3", "empty": b""}
        hub.commit("owner/name", files)
        assert {path: download(path) for path in files} == files

    def test_a_deleted_file(self, hub, first, anyone, download):
        hub.commit("owner/name", {}, delete=["a"])
        assert anyone.list_repo_files("owner/name") == [".gitattributes", "README.md", "env.py"]
        with pytest.raises(errors.EntryNotFoundError):
            download("a/b/c.bin")
        assert download("a/b/c.bin", revision=first) == b"\0\xff"

    def test_what_is_not_there(self, first, anyone, download):
        for path in ("no.py", "a", "a\nb"):
            with pytest.raises(errors.EntryNotFoundError):
                download(path)
        with pytest.raises(errors.EntryNotFoundError):
            list(anyone.list_repo_tree("owner/name", path_in_repo="no"))
        for revision in ("no", "0" * 40, "main~1", "-x", "a..b", "%0aX: y"):
            with pytest.raises(errors.RevisionNotFoundError):
                anyone.model_info("owner/name", revision=revision)
        assert not anyone.repo_exists("owner/nam")
        assert not anyone.repo_exists("owner/name", repo_type="dataset")


class TestDatasets:
    def test_one(self, hub, first, anyone, download):
        hub.create("owner/name", kind="dataset")
        commit = hub.commit("owner/name", {"d.csv": "1,2\n", "README.md": CARD}, kind="dataset")
        hub.tag("owner/name", "v1", kind="dataset")
        assert anyone.dataset_info("owner/name", revision="v1").sha == commit
        assert download("d.csv", revision=commit, repo_type="dataset") == b"1,2\n"
        assert [found.id for found in anyone.list_datasets(filter="envhub")] == ["owner/name"]
        assert anyone.model_info("owner/name").sha != commit

    def test_uploading_to_one(self, api):
        api.create_repo("owner/data", repo_type="dataset")
        done = api.upload_file(
            repo_id="owner/data", repo_type="dataset", path_in_repo="x", path_or_fileobj=b"1"
        )
        assert done.repo_url.repo_type == "dataset"
        assert "x" in api.list_repo_files("owner/data", repo_type="dataset")


def test_search(hub, first, anyone, api):
    for name, tags in {"a/Reach": "[envhub, arm]", "b/push": "\n- 'envhub'", "c/x": ""}.items():
        hub.create(name, private=name == "b/push")
        hub.commit(name, {"README.md": f"---\ntags: {tags}\nlicense: mit\n---\n"})
    for question, names in [
        ({}, ["a/Reach", "c/x", "owner/name"]),
        ({"filter": "envhub"}, ["a/Reach", "owner/name"]),
        ({"filter": ["envhub", "arm"]}, ["a/Reach"]),
        ({"filter": "envhub", "search": "reach"}, ["a/Reach"]),
        ({"author": "c"}, ["c/x"]),
        ({"filter": "envhub", "limit": 1}, ["a/Reach"]),
        ({"filter": "nothing"}, []),
    ]:
        assert [found.id for found in anyone.list_models(**question)] == names
    # Private ones are for the token.
    names = [found.id for found in api.list_models(filter="envhub")]
    assert names == ["a/Reach", "b/push", "owner/name"]

    def one(**options):
        return next(iter(anyone.list_models(author="owner", **options)))

    head = hub.commit_of("owner/name")
    assert one().sha is None
    assert one().tags == ["envhub", "robotics"]
    assert one(full=True).sha == head
    assert one(expand=["sha"]).sha == head


@pytest.mark.parametrize(
    ("card", "tags"),
    [
        ("", []),
        ("# No front matter\ntags: [a]\n", []),
        ("---\nlicense: mit\n---\ntags: [a]\n", []),
        ("---\ntags: [a, \"b\", 'c d']\n---\n", ["a", "b", "c d"]),
        ("---\ntags:\n- a\n- b\nlicense: mit\n---\n", ["a", "b"]),
        ("---\r\ntags:\r\n  - a\r\n  - b:c\r\n---\r\n", ["a", "b:c"]),
        ("---\ntags:\nlicense: mit\n---\n", []),
        ("---\ntags: []\n---\n", []),
        ("---\ntags: [a]\n", []),
    ],
)
def test_tags(card, tags):
    assert tags_of(card) == tags


class TestAccess:
    def test_whoami(self, hub, api):
        assert api.whoami()["name"] == "local"
        with pytest.raises(errors.HfHubHTTPError, match="Invalid user token"):
            api.whoami(token="hf_wrong")
        assert [request.authorized for request in hub.requests] == [True, False]

    def test_a_private_repository(self, hub, api, anyone, download):
        hub.create("owner/name", private=True)
        hub.commit("owner/name", {"env.py": ENV})
        assert api.model_info("owner/name").private
        assert download(token=hub.token) == ENV.encode()
        with pytest.raises(errors.RepositoryNotFoundError) as hidden:
            anyone.model_info("owner/name")
        with pytest.raises(errors.RepositoryNotFoundError) as missing:
            anyone.model_info("owner/other")
        assert hidden.value.response.status_code == missing.value.response.status_code == 401
        with pytest.raises(errors.RepositoryNotFoundError) as known_missing:
            api.model_info("owner/other")
        assert known_missing.value.response.status_code == 404

    def test_a_gated_repository(self, hub, anyone, download):
        hub.create("owner/name", gated=True)
        hub.commit("owner/name", {"env.py": ENV})
        assert anyone.model_info("owner/name").gated == "auto"
        assert "env.py" in anyone.list_repo_files("owner/name")
        with pytest.raises(errors.GatedRepoError):
            download()
        assert download(token=hub.token) == ENV.encode()

    def test_a_wrong_token_opens_nothing(self, first, anyone):
        with pytest.raises(errors.HfHubHTTPError, match="Invalid credentials"):
            anyone.model_info("owner/name", token="hf_wrong")

    def test_changes_need_the_token(self, hub, first, anyone):
        with pytest.raises(errors.HfHubHTTPError):
            anyone.create_repo("owner/new")
        with pytest.raises(errors.HfHubHTTPError):
            anyone.upload_file(repo_id="owner/name", path_in_repo="x", path_or_fileobj=b"")
        assert {request.status for request in hub.requests} == {401}


class TestWriting:
    def test_a_new_repository(self, hub, api, anyone):
        assert api.create_repo("owner/new").repo_id == "owner/new"
        assert api.create_repo("mine", private=True).repo_id == "local/mine"
        assert anyone.list_repo_files("owner/new") == [".gitattributes"]
        assert not anyone.repo_exists("local/mine")
        with pytest.raises(errors.HfHubHTTPError, match="already created"):
            api.create_repo("owner/new")
        assert api.create_repo("owner/new", exist_ok=True).repo_id == "owner/new"

    def test_what_a_local_hub_has_not(self, first, api):
        with pytest.raises(errors.HfHubHTTPError, match="not spaces"):
            api.create_repo("owner/app", repo_type="space", space_sdk="static")
        with pytest.raises(errors.HfHubHTTPError, match="does not support pull requests"):
            api.upload_file(
                repo_id="owner/name", path_in_repo="x", path_or_fileobj=b"", create_pr=True
            )
        with pytest.raises(errors.HfHubHTTPError, match="does not answer GET"):
            list(api.get_repo_discussions("owner/name"))

    def test_a_folder(self, hub, first, api, download, tmp_path):
        folder = tmp_path / "folder"
        (folder / "deep").mkdir(parents=True)
        (folder / "README.md").write_text(CARD.replace("robotics", "new"))
        (folder / "deep/data.bin").write_bytes(bytes(range(256)) * 100)
        done = api.upload_folder(
            repo_id="owner/name", folder_path=folder, delete_patterns="a/*", commit_message="New"
        )
        assert done.oid == hub.commit_of("owner/name")
        assert done.repo_url.repo_id == "owner/name"
        files = [".gitattributes", "README.md", "deep/data.bin", "env.py"]
        assert api.list_repo_files("owner/name") == files
        assert download("deep/data.bin") == bytes(range(256)) * 100
        assert api.model_info("owner/name").tags == ["envhub", "new"]

    def test_nothing_new(self, hub, first, api):
        head = hub.commit_of("owner/name")
        done = api.upload_file(
            repo_id="owner/name", path_in_repo="env.py", path_or_fileobj=OTHER_ENV.encode()
        )
        assert done.oid == head

    def test_on_top_of_what(self, first, api):
        operations = [client.CommitOperationDelete("env.py")]
        with pytest.raises(errors.HfHubHTTPError, match="A commit has happened since"):
            api.create_commit("owner/name", operations, commit_message="x", parent_commit=first)
        head = api.model_info("owner/name").sha
        api.create_commit("owner/name", operations, commit_message="x", parent_commit=head)
        assert "env.py" not in api.list_repo_files("owner/name")

    def test_a_deletion(self, first, api):
        def delete(path):
            operations = [client.CommitOperationDelete(path)]
            api.create_commit("owner/name", operations, commit_message="x")

        with pytest.raises(errors.EntryNotFoundError):
            delete("no.py")
        delete("a/b/")
        assert "a/b/c.bin" not in api.list_repo_files("owner/name")

    def test_branches_and_tags(self, hub, first, api):
        with pytest.raises(errors.RevisionNotFoundError):
            api.upload_file(
                repo_id="owner/name", path_in_repo="x", path_or_fileobj=b"1", revision="dev"
            )
        api.create_branch("owner/name", branch="dev", revision="v1")
        done = api.upload_file(
            repo_id="owner/name", path_in_repo="x", path_or_fileobj=b"1", revision="dev"
        )
        api.create_tag("owner/name", tag="v2", revision="dev")
        assert api.model_info("owner/name", revision="v2").sha == done.oid
        with pytest.raises(errors.HfHubHTTPError, match="Reference already exists: v2"):
            api.create_tag("owner/name", tag="v2")
        api.create_tag("owner/name", tag="v2", exist_ok=True)
        assert hub.commit_of("owner/name", "v2") == done.oid


class TestFaults:
    def test_wrong_bytes(self, hub, first, download):
        with hub.fault(WrongBytes("env.py")):
            wrong = download(revision=first)
        assert len(wrong) == len(ENV)
        assert wrong != ENV.encode()
        assert download(revision=first, force_download=True) == ENV.encode()

    def test_another_commit(self, hub, first, anyone, tmp_path):
        other = hub.commit_of("owner/name")
        with hub.fault(OtherCommit(other)):
            assert anyone.model_info("owner/name", revision=first).sha == other
            file = client.hf_hub_download(
                "owner/name", "env.py", revision=first, endpoint=hub.endpoint, cache_dir=tmp_path
            )
        assert other in file
        assert Path(file).read_text() == OTHER_ENV

    def test_a_symlink(self, hub, first, anyone, download):
        with hub.fault(Symlink("env.py", "/etc/passwd")):
            [entry] = anyone.get_paths_info("owner/name", "env.py", revision=first)
            assert entry.blob_id == Blob.of(b"/etc/passwd").id
            assert download(revision=first) == b"/etc/passwd"
        [entry] = anyone.get_paths_info("owner/name", "env.py", revision=first)
        assert entry.blob_id == Blob.of(ENV.encode()).id

    def test_a_wrong_tree(self, hub, first, anyone):
        def ids() -> dict[str, str]:
            entries = anyone.list_repo_tree("owner/name", recursive=True, revision=first)
            return {entry.path: getattr(entry, "blob_id", "") for entry in entries}

        right = ids()
        with hub.fault(WrongTree()):
            wrong = ids()
        assert {path for path in right if right[path] != wrong[path]} == {
            ".gitattributes", "README.md", "a/b/c.bin", "env.py",
        }  # fmt: skip
        with hub.fault(WrongTree("env.py")):
            one = ids()
        assert {path for path in right if right[path] != one[path]} == {"env.py"}

    def test_a_status(self, hub, first, anyone):
        for status, error in [
            (Status(401), "HfHubHTTPError"),
            (Status(401, error_code="RepoNotFound"), "RepositoryNotFoundError"),
            (Status(403, error_code="GatedRepo"), "GatedRepoError"),
            (Status(404), "HfHubHTTPError"),
            (Status(404, error_code="RevisionNotFound"), "RevisionNotFoundError"),
            (Status(404, error_code="EntryNotFound"), "RemoteEntryNotFoundError"),
            (Status(429), "HfHubHTTPError"),
            (Status(503), "HfHubHTTPError"),
        ]:
            with hub.fault(status), pytest.raises(errors.HfHubHTTPError) as raised:
                anyone.model_info("owner/name")
            assert type(raised.value).__name__ == error
            assert raised.value.response.status_code == hub.requests[-1].status == status.code
        anyone.model_info("owner/name")

    def test_a_status_of_some_addresses(self, hub, first, anyone):
        hub.misbehave(Status(500, matching=r"/revision/v1$"))
        anyone.model_info("owner/name")
        with pytest.raises(errors.HfHubHTTPError):
            anyone.model_info("owner/name", revision="v1")
        hub.behave()
        anyone.model_info("owner/name", revision="v1")

    @pytest.mark.usefixtures("impatient")
    def test_a_status_that_passes(self, hub, first):
        hub.misbehave(Status(429, times=2))
        client.utils.http_backoff("GET", f"{hub.endpoint}/api/models/owner/name")
        assert [request.status for request in hub.requests] == [429, 429, 200]

    @pytest.mark.usefixtures("impatient")
    def test_a_file_that_cannot_be_had(self, hub, first, download):
        with hub.fault(Status(503)), pytest.raises(errors.LocalEntryNotFoundError):
            download()

    def test_gated(self, hub, first, anyone, download):
        with hub.fault(Gated()):
            anyone.model_info("owner/name")
            for token, status in ((False, 401), (hub.token, 403)):
                with pytest.raises(errors.GatedRepoError) as raised:
                    download(token=token)
                assert raised.value.response.status_code == status

    def test_slow(self, hub, first, anyone):
        hub.misbehave(Slow(3600.0, times=1))
        with pytest.raises(Exception, match="timed out") as raised:
            anyone.model_info("owner/name", timeout=0.2)
        assert type(raised.value).__name__ == "ReadTimeout"
        anyone.model_info("owner/name", timeout=60)

    @pytest.mark.usefixtures("impatient")
    def test_a_cut_connection_is_resumed(self, hub, first, download, monkeypatch):
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 4)
        hub.misbehave(Cut(after_bytes=7, times=1))
        if client.__version__.startswith("1.6."):  # it resumes only when it is called again
            with pytest.raises(Exception, match="closed"):
                download()
        assert download() == OTHER_ENV.encode()
        last = hub.requests[-1]
        assert (last.method, last.range, last.status) == ("GET", "bytes=4-", 206)

    @pytest.mark.usefixtures("impatient")
    def test_a_connection_that_is_always_cut(self, hub, first, download):
        with hub.fault(Cut(after_bytes=0)), pytest.raises(Exception, match="closed") as raised:
            download()
        assert type(raised.value).__name__ == "RemoteProtocolError"

    def test_a_wrong_size(self, hub, first, anyone):
        with hub.fault(WrongSize("env.py", -5)):
            [entry] = anyone.get_paths_info("owner/name", "env.py", revision=first)
        assert entry.size == -5

    def test_more_bytes(self, hub, first, download):
        with hub.fault(MoreBytes("env.py", 3)):
            assert download(revision=first) == ENV.encode() + bytes(3)

    def test_a_redirect(self, hub, first, tmp_path):
        with LocalHub(tmp_path / "other") as other:
            hub.misbehave(Redirect(other.endpoint, "/api/models/owner/name$", times=1))
            answer = get(hub, "/api/models/owner/name?full=true")
            assert answer.status == 302
            address = f"{other.endpoint}/api/models/owner/name?full=true"
            assert answer.headers["Location"] == address
        assert get(hub, "/api/models/owner/name").status == 200

    def test_a_header(self, hub, first):
        with hub.fault(Header("ETag", '"../up"', "/resolve/")):
            assert get(hub, "/owner/name/resolve/main/env.py").headers["ETag"] == '"../up"'
        assert "up" not in get(hub, "/owner/name/resolve/main/env.py").headers["ETag"]

    def test_a_body_without_end(self, hub, first):
        page = "/owner/name/resolve/main/env.py"
        with hub.fault(Endless("/resolve/")), answering(hub, page) as answer:
            assert answer.read(len(OTHER_ENV)) == OTHER_ENV.encode()
            assert answer.read(2**20) == b" " * 2**20

    def test_a_head_without_end(self, hub, first):
        with hub.fault(Endless("/resolve/", part="head")):
            connection = socket.create_connection(("127.0.0.1", int(hub.endpoint.split(":")[-1])))
            with connection, connection.makefile("rb") as answer:
                connection.sendall(b"GET /owner/name/resolve/main/env.py HTTP/1.1\r\n\r\n")
                lines = {answer.readline() for _ in range(10_000)}
        assert lines == {b"HTTP/1.1 103 Early Hints\r\n", b"\r\n"}

    def test_a_pull_request(self, hub, first, anyone):
        main = hub.commit_of("owner/name")
        proposed = hub.propose("owner/name", {"env.py": ENV})
        assert hub.commit_of("owner/name", "refs/pr/1") == proposed
        assert anyone.model_info("owner/name", revision=proposed).sha == proposed
        assert anyone.model_info("owner/name").sha == main
        refs = anyone.list_repo_refs("owner/name")
        assert proposed not in {ref.target_commit for ref in (*refs.branches, *refs.tags)}

    @pytest.mark.usefixtures("impatient")
    def test_nobody_there(self, hub, first, anyone, download):
        hub.close()
        hub.close()
        # 1.6 closes its session when it cannot connect, and then tries again with that.
        with pytest.raises((errors.LocalEntryNotFoundError, RuntimeError)):
            download()
        address = hub.endpoint
        hub.start()
        hub.start()
        assert hub.endpoint == address
        assert download() == OTHER_ENV.encode()


class TestRawRequests:
    """What the client does not do, or not always."""

    @pytest.fixture
    def send(self, hub, first):
        connection = http.client.HTTPConnection("127.0.0.1", int(hub.endpoint.rpartition(":")[2]))

        def send(method, path, body=None, **headers) -> tuple[int, bytes]:
            headers = {"Authorization": f"Bearer {hub.token}"} | headers
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                return response.status, response.read()

        yield send
        connection.close()

    def test_a_part_of_a_file(self, send):
        for asked, answer in {
            "bytes=6-": (206, b"'another')\n"),
            "bytes=0-4": (206, b"print"),
            "bytes=6-999": (206, b"'another')\n"),
            "lines=1-2": (200, OTHER_ENV.encode()),
        }.items():
            assert send("GET", "/owner/name/resolve/main/env.py", Range=asked) == answer
        status, _ = send("GET", "/owner/name/resolve/main/env.py", Range="bytes=99-")
        assert status == 416

    def test_a_body_in_chunks(self, send):
        """As git sends large ones."""
        status, body = send("POST", "/api/models/owner/name/paths-info/main", [b"paths", b"=a"])
        assert (status, [entry["path"] for entry in json.loads(body)]) == (200, ["a"])

    def test_refused_requests(self, send):
        for method, path, body, status, message in [
            ("GET", "/", None, 404, "does not answer GET /"),
            ("POST", "/api/models/owner/name", None, 404, "does not answer POST"),
            ("GET", "/owner/name/resolve/main/../main/env.py", None, 404, "Entry not found"),
            ("GET", "/api/models?limit=x", None, 400, "limit and cursor are numbers"),
            ("POST", "/api/repos/create", "{", 400, "not JSON"),
            ("POST", "/api/repos/create", '{"name": "a b"}', 400, "is owner/name"),
            ("POST", "/api/models/owner/name/commit/main", "[]", 400, "cannot be read"),
            ("POST", "/api/models/owner/name/commit/main", '{"key": "lfsFile", "value": {}}', 400,
             "cannot be read"),
            ("POST", "/api/models/owner/name/commit/main", '{"key": "other", "value": {}}', 400,
             "does not support the operation other"),
            ("POST", "/owner/name.git/info/lfs/objects/batch", '{"operation": "download"}', 400,
             "supports only uploads"),
            ("POST", "/api/models/owner/name/commit/main",
             '{"key": "file", "value": {"path": "../x", "content": ""}}', 400, "cannot hold"),
            ("POST", "/api/models/owner/name/preupload/main", "{}", 500, "KeyError"),
        ]:  # fmt: skip
            seen, text = send(method, path, body)
            assert seen == status, path
            assert message in json.loads(text)["error"]
        for credentials in ("Basic a", "Basic", "Bearer x", "x y z"):
            assert send("GET", "/api/models", Authorization=credentials)[0] == 401


class TestLog:
    def test_what_a_download_asks(self, hub, first, download):
        download(revision=first)
        address = f"/owner/name/resolve/{first}/env.py"
        assert asked(hub) == [("HEAD", address), ("GET", address)]
        assert {request.token for request in hub.requests} == {None}

    def test_what_a_listing_asks(self, hub, first, api):
        api.list_repo_files("owner/name", revision=first)
        [request] = hub.requests
        assert request.path == f"/api/models/owner/name/tree/{first}"
        assert "recursive=true" in request.query.lower()
        assert (request.authorized, request.token, request.status) == (True, hub.token, 200)
        assert hub.token not in repr(request)

    def test_it_can_be_cleared(self, hub, first, download):
        download()
        hub.requests.clear()
        download()
        assert asked(hub) == [("HEAD", "/owner/name/resolve/main/env.py")]


class TestManyAtOnce:
    def test_readers(self, hub, first, tmp_path):
        def read(i: int) -> str:
            file = client.hf_hub_download(
                "owner/name", "env.py", revision=(first, "main")[i % 2],
                endpoint=hub.endpoint, cache_dir=tmp_path / str(i),
            )  # fmt: skip
            return Path(file).read_text()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, range(4))) == [ENV, OTHER_ENV] * 2

    def test_writers(self, hub, first, api):
        def write(i: int) -> None:
            api.upload_file(
                repo_id="owner/name", path_in_repo=f"new/{i}", path_or_fileobj=str(i).encode()
            )

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(8)))
        files = api.list_repo_files("owner/name")
        assert {f"new/{i}" for i in range(8)} <= set(files)
        log = git("log", "--oneline", cwd=repository(hub, "owner/name"))
        assert len(log.splitlines()) == 3 + 8

    def test_writers_on_top_of_the_same_commit(self, hub, first, api):
        head = hub.commit_of("owner/name")

        def write(i: int) -> int:
            operations = [client.CommitOperationAdd(f"new/{i}", str(i).encode())]
            try:
                api.create_commit("owner/name", operations, commit_message="x", parent_commit=head)
            except errors.HfHubHTTPError as exc:
                return exc.response.status_code
            return 200

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(write, range(8))) == [200] + [412] * 7

    def test_two_hubs(self, hub, first, tmp_path):
        with LocalHub(tmp_path / "other") as other:
            assert other.endpoint != hub.endpoint
            assert other.token != hub.token
            with pytest.raises(errors.RepositoryNotFoundError):
                client.HfApi(endpoint=other.endpoint, token=False).model_info("owner/name")

    def test_no_thread_is_left(self, tmp_path):
        before = set(threading.enumerate())
        with LocalHub(tmp_path) as hub:
            hub.create("owner/name")
            client.HfApi(endpoint=hub.endpoint, token=False).model_info("owner/name")
            assert set(threading.enumerate()) > before
        assert set(threading.enumerate()) <= before


class TestWithoutRequests:
    def test_a_name_that_is_taken(self, hub, first):
        with pytest.raises(FileExistsError):
            hub.create("owner/name")
        hub.create("owner/name", kind="dataset")

    def test_a_name_that_cannot_be(self, hub):
        for name in ("name", "a/b/c", "../x", "a/..", "a b/c", "", "a/"):
            with pytest.raises(ValueError, match="name of a repository is owner/name"):
                hub.create(name)

    def test_unknown_names(self, hub, first):
        with pytest.raises(UnknownName, match="Did you mean 'owner/name'"):
            hub.commit("owner/nam", {})
        with pytest.raises(UnknownName, match=r"No revision is called 'v2'\. Did you mean 'v1'"):
            hub.commit_of("owner/name", "v2")

    def test_a_path_that_cannot_be(self, hub, first):
        for path in ("../x", "/x", "a//b", ".git/config", "a/.GIT/x", "", "a\0"):
            with pytest.raises(ValueError, match="cannot hold a file at"):
                hub.commit("owner/name", {path: ""})

    def test_a_branch_called_like_a_tag(self, hub, first):
        head = hub.commit_of("owner/name")
        commit = hub.commit("owner/name", {"x": ""}, branch="v1")
        assert hub.commit_of("owner/name", "v1") == commit
        assert git("rev-parse", f"{commit}^", cwd=repository(hub, "owner/name")).strip() == head

    def test_a_branch_that_cannot_be(self, hub, first):
        with pytest.raises(GitFailed, match="`git fast-import` ended with exit code 1"):
            hub.commit("owner/name", {}, branch="a..b")

    def test_no_git(self, hub, first, monkeypatch):
        monkeypatch.setenv("PATH", "")
        with pytest.raises(GitFailed, match="`git cat-file` did not start"):
            hub.commit_of("owner/name")

    def test_a_second_hub_over_the_same_directory(self, hub, first, tmp_path):
        again = LocalHub(tmp_path / "hub")
        assert again.commit_of("owner/name", "v1") == first


def git(*arguments: str, cwd: Path, token: str | None = None) -> str:
    """Run git without anybody's configuration."""
    options = ["-c", "credential.helper="]
    if token:
        options = ["-c", f"credential.helper=!echo username=x; echo password={token}; :"]
    variables = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        ["git", *options, *arguments],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def repository(hub, name: str) -> Path:
    return hub._store.get(name, "model").repository.path


class TestGit:
    @pytest.fixture
    def local(self, tmp_path):
        """An empty repository to fetch into."""
        path = tmp_path / "local"
        path.mkdir()
        git("init", "--quiet", cwd=path)
        return path

    def test_a_commit_without_its_blobs(self, hub, first, local):
        address = f"{hub.endpoint}/owner/name.git"
        git("fetch", "--depth=1", "--filter=blob:none", address, first, cwd=local)
        assert git("rev-parse", "FETCH_HEAD", cwd=local).strip() == first
        listed = git("ls-tree", "-r", first, cwd=local).splitlines()
        assert f"100644 blob {Blob.of(ENV.encode()).id}\tenv.py" in listed
        objects = git("rev-list", "--objects", "--missing=print", first, cwd=local).splitlines()
        assert f"?{Blob.of(ENV.encode()).id}" in objects
        assert git("log", "--oneline", first, cwd=local).count("\n") == 1

    @pytest.mark.parametrize("version", ["0", "2"])
    def test_a_clone(self, hub, first, tmp_path, version):
        git("-c", f"protocol.version={version}", "clone", "--quiet", f"{hub.endpoint}/owner/name",
            "clone", cwd=tmp_path)  # fmt: skip
        assert (tmp_path / "clone/env.py").read_text() == OTHER_ENV
        assert git("tag", cwd=tmp_path / "clone") == "v1\n"

    def test_a_dataset(self, hub, local):
        hub.create("owner/data", kind="dataset")
        commit = hub.commit("owner/data", {"x": "1"}, kind="dataset")
        git("fetch", f"{hub.endpoint}/datasets/owner/data", commit, cwd=local)
        assert git("show", f"{commit}:x", cwd=local) == "1"

    def test_a_committed_link(self, hub, first, local, anyone):
        commit = hub.commit("owner/name", {"link": Link("../../etc/passwd")})
        git("fetch", "--depth=1", f"{hub.endpoint}/owner/name", commit, cwd=local)
        assert git("ls-tree", commit, "link", cwd=local).startswith("120000 blob")
        [entry] = anyone.get_paths_info("owner/name", "link")
        assert entry.blob_id == Blob.of(b"../../etc/passwd").id

    def test_a_request_that_git_packs(self, hub, first, local):
        commits = [hub.commit("owner/name", {"n": str(i)}) for i in range(30)]
        git("fetch", "--depth=1", f"{hub.endpoint}/owner/name", *commits, cwd=local)
        assert git("show", f"{commits[7]}:n", cwd=local) == "7"

    def test_an_unknown_commit(self, hub, first, local):
        with pytest.raises(RuntimeError, match="not our ref"):
            git("fetch", f"{hub.endpoint}/owner/name", "0" * 39 + "1", cwd=local)

    @pytest.mark.parametrize("option", ["private", "gated"])
    def test_with_and_without_the_token(self, hub, local, option):
        hub.create("owner/name", **{option: True})
        commit = hub.commit("owner/name", {"x": "1"})
        address = f"{hub.endpoint}/owner/name"
        with pytest.raises(RuntimeError, match="could not read Username"):
            git("fetch", address, commit, cwd=local)
        with pytest.raises(RuntimeError, match="Authentication failed"):
            git("fetch", address, commit, cwd=local, token="hf_wrong")
        git("fetch", address, commit, cwd=local, token=hub.token)
        assert git("show", f"{commit}:x", cwd=local) == "1"

    def test_a_push(self, hub, first, local):
        git("fetch", f"{hub.endpoint}/owner/name", "main", cwd=local)
        with pytest.raises(RuntimeError, match="403"):
            git("push", f"{hub.endpoint}/owner/name", "FETCH_HEAD:refs/heads/x", cwd=local)

    def test_faults(self, hub, first, local):
        address = f"{hub.endpoint}/owner/name"
        for fault in (Status(503), Gated(), Cut(after_bytes=50, matching="git-upload-pack$")):
            with hub.fault(fault), pytest.raises(RuntimeError):
                git("fetch", address, first, cwd=local)
        git("fetch", address, first, cwd=local)


class TestCommand:
    @pytest.fixture
    def hf(self, hub, tmp_path):
        """Runs `hf` with the token and gives what it prints."""
        variables = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "HF_TOKEN": hub.token,
            "NO_COLOR": "1",
        }

        def run(*arguments: str) -> str:
            command = Path(sys.executable).with_name("hf")
            done = subprocess.run(
                [command, *arguments],
                cwd=tmp_path, env=os.environ | variables,
                capture_output=True, text=True, timeout=100, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    def test_create_upload_download(self, hub, hf, tmp_path):
        folder = tmp_path / "folder"
        (folder / "sub").mkdir(parents=True)
        (folder / "env.py").write_text(ENV)
        (folder / "sub/more.py").write_text("1\n")
        kind = ("--repo-type", "dataset")
        hf("repos", "create", "owner/new", *kind)
        assert hub.endpoint in hf("upload", "owner/new", str(folder), "--revision", "dev", *kind)
        commit = hub.commit_of("owner/new", "dev", kind="dataset")
        hf("download", "owner/new", "--revision", commit, "--local-dir", "got", *kind)
        assert (tmp_path / "got/env.py").read_text() == ENV
        assert (tmp_path / "got/sub/more.py").read_text() == "1\n"


class TestServing:
    @pytest.mark.parametrize("module", ["envhub_localhub", "envhub.testing.hub"])
    def test_a_directory_for_a_shell(self, hub, first, tmp_path, module):
        argv = [sys.executable, "-m", module, str(tmp_path / "hub")]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            try:
                line = server.stdout.readline().split()
                assert line[0] == "export"
                variables = dict(word.split("=", 1) for word in line[1:])
                api = client.HfApi(endpoint=variables["HF_ENDPOINT"], token=variables["HF_TOKEN"])
                assert api.whoami()["name"] == "local"
                assert api.model_info("owner/name", revision="v1").sha == first
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0

    def test_the_fixture(self, tmp_path):
        (tmp_path / "test_it.py").write_text(
            "def test_it(local_hub):\n"
            "    local_hub.create('owner/name')\n"
            "    assert local_hub.endpoint.startswith('http://127.0.0.1:')\n"
        )
        argv = [sys.executable, "-m", "pytest", "-p", "envhub.testing.pytest_plugin", "-q", "."]
        variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(
            argv, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )
        assert "1 passed" in done.stdout, done.stdout + done.stderr

    def test_importing_it_imports_no_server(self):
        code = (
            "import sys, envhub.testing, envhub.testing.pytest_plugin as _\n"
            "print([name for name in ('http.server', 'huggingface_hub') if name in sys.modules])\n"
            "print(envhub.testing.LocalHub.__name__, dir(envhub.testing))\n"
            "print('huggingface_hub' in sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout == (
            "[]\nLocalHub ['BenchmarkConformance', 'LocalHub', 'check_benchmark']\nFalse\n"
        )

    def test_an_unknown_name(self):
        with pytest.raises(AttributeError, match=r"module 'envhub.testing' has no attribute 'x'"):
            _ = envhub.testing.x

    def test_the_old_names(self):
        from envhub.testing import hub as old

        assert old.LocalHub is envhub.testing.LocalHub is LocalHub
        assert old.faults.Slow is Slow
        with pytest.raises(AttributeError, match="no attribute 'x'"):
            _ = old.x

    def test_without_the_distribution(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "envhub_localhub", None)
        monkeypatch.delitem(vars(envhub.testing), "LocalHub", raising=False)
        with pytest.raises(UsageError) as missing:
            _ = envhub.testing.LocalHub
        assert str(missing.value) == (
            "LocalHub is in the distribution envhub-localhub, which is not installed. "
            "In a clone of EnvHub: pip install ./plugins/localhub"
        )
        code = (
            "import runpy, sys\nsys.modules['envhub_localhub'] = None\n"
            "runpy.run_module('envhub.testing.hub', run_name='__main__')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (2, f"error: {missing.value}\n")
