"""Large files (LFS): the real client and the real git against a Hub on loopback."""

import hashlib
import http.client
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import huggingface_hub as client
import pytest
from envhub_localhub import Cut, Large, LocalHub, MoreBytes, WrongBytes, WrongSize
from envhub_localhub.large import REGULAR_BYTES, LargeFiles, Pointer, is_large
from huggingface_hub import constants, errors
from support.needs import needs_git

pytestmark = [
    needs_git,
    # Of the client: it hands files to its HTTP library in an old way.
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
]

MESH = bytes(range(256)) * 1200
SHA256 = hashlib.sha256(MESH).hexdigest()
MESHES = "*.stl filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture(autouse=True)
def _without_xet(monkeypatch):
    """No proxy, no token of whoever runs this, and LFS instead of Xet."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    for name in ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        monkeypatch.setattr(constants, name, True)


@pytest.fixture
def hub(tmp_path):
    client.get_session()
    with LocalHub(tmp_path / "hub") as hub:
        yield hub
    client.close_session()


@pytest.fixture
def meshes(hub):
    """A dataset with a large file and a small one; the commit."""
    hub.create("owner/meshes", kind="dataset")
    files = {"cups/red.stl": Large(MESH), "table.xml": "<table/>"}
    return hub.commit("owner/meshes", files, kind="dataset")


@pytest.fixture
def api(hub):
    return client.HfApi(endpoint=hub.endpoint, token=hub.token)


@pytest.fixture
def fetch(hub, tmp_path):
    """Fetches the large file with the client, without a token unless one is given."""

    def fetch(token=False, repo_type="dataset", **options):
        path = client.hf_hub_download(
            "owner/meshes", "cups/red.stl", repo_type=repo_type, endpoint=hub.endpoint,
            cache_dir=tmp_path / "cache", token=token, **options,
        )  # fmt: skip
        return Path(path).read_bytes()

    return fetch


def send(hub, method: str, address: str, body=b"", token="") -> int:
    parts = urlsplit(address)
    port = parts.port or urlsplit(hub.endpoint).port
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, f"{parts.path}?{parts.query}", body, headers)
    with connection.getresponse() as answer:
        answer.read()
    connection.close()
    return answer.status


class TestReading:
    def test_a_listing_has_the_pointer_and_the_content(self, api, meshes):
        entries = api.list_repo_tree("owner/meshes", recursive=True, repo_type="dataset")
        files = {
            entry.path: entry for entry in entries if isinstance(entry, client.hf_api.RepoFile)
        }
        large, small = files["cups/red.stl"], files["table.xml"]
        assert (large.size, large.lfs.size, large.lfs.sha256) == (len(MESH), len(MESH), SHA256)
        pointer = Pointer(SHA256, len(MESH)).data
        assert large.lfs.pointer_size == len(pointer)
        assert large.blob_id == hashlib.sha1(b"blob %d\0%b" % (len(pointer), pointer)).hexdigest()
        assert (small.size, small.lfs) == (8, None)

    def test_information_about_the_files(self, api, meshes):
        info = api.dataset_info("owner/meshes", files_metadata=True)
        found = {
            each.rfilename: (each.size, each.lfs and each.lfs.sha256) for each in info.siblings
        }
        assert found["cups/red.stl"] == (len(MESH), SHA256)
        assert found["table.xml"] == (8, None)

    def test_metadata_names_another_address_and_the_hash(self, hub, meshes):
        url = client.hf_hub_url(
            "owner/meshes", "cups/red.stl", repo_type="dataset", endpoint=hub.endpoint
        )
        metadata = client.get_hf_file_metadata(url, token=False)
        assert (metadata.etag, metadata.size) == (SHA256, len(MESH))
        assert metadata.commit_hash == meshes
        assert "/large-files/download/datasets/owner/meshes/" in metadata.location

    def test_the_content_comes_from_there(self, hub, meshes, fetch):
        assert fetch() == MESH
        assert hub.requests[-1].path.endswith(f"/{SHA256}/cups/red.stl")

    def test_a_snapshot(self, hub, meshes, tmp_path):
        place = client.snapshot_download(
            "owner/meshes", repo_type="dataset", endpoint=hub.endpoint, cache_dir=tmp_path / "c"
        )
        assert Path(place, "cups/red.stl").read_bytes() == MESH
        assert Path(place, "table.xml").read_text() == "<table/>"

    def test_git_gets_the_pointer(self, hub, meshes, tmp_path):
        subprocess.run(
            ["git", "clone", "-q", f"{hub.endpoint}/datasets/owner/meshes", tmp_path / "clone"],
            check=True,
        )
        committed = (tmp_path / "clone/cups/red.stl").read_bytes()
        assert Pointer.parse(committed) == Pointer(SHA256, len(MESH))

    def test_a_cut_download_is_tried_again(self, hub, meshes, fetch, monkeypatch):
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        hub.misbehave(Cut(100_000, "/large-files/", times=1))
        assert fetch() == MESH
        assert len([request for request in hub.requests if "/large-files/" in request.path]) == 2

    def test_a_part_is_answered(self, hub, meshes):
        url = f"{hub.endpoint}/datasets/owner/meshes/resolve/main/cups/red.stl"
        address = client.get_hf_file_metadata(url, token=False).location
        with client.get_session().stream("GET", address, headers={"Range": "bytes=5-9"}) as answer:
            assert (answer.status_code, answer.read()) == (206, MESH[5:10])

    def test_a_private_repository(self, hub, fetch):
        hub.create("owner/meshes", kind="model", private=True)
        hub.commit("owner/meshes", {"cups/red.stl": Large(MESH)})
        with pytest.raises(errors.RepositoryNotFoundError):
            fetch(repo_type="model")
        assert fetch(repo_type="model", token=hub.token) == MESH
        content = [request for request in hub.requests if "/large-files/" in request.path]
        assert [request.token for request in content] == [None]

    def test_an_address_with_a_wrong_signature(self, hub, meshes):
        path = f"/large-files/download/datasets/owner/meshes/{SHA256}/cups/red.stl"
        assert send(hub, "GET", f"{path}?signature=0") == 403
        assert send(hub, "GET", path) == 403

    def test_a_file_that_only_looks_like_a_pointer(self, hub, api):
        hub.create("owner/plain")
        pointer = Pointer("0" * 64, 5).data
        hub.commit("owner/plain", {"pointer.txt": pointer})
        path = client.hf_hub_download("owner/plain", "pointer.txt", endpoint=hub.endpoint)
        assert Path(path).read_bytes() == pointer
        [entry] = api.get_paths_info("owner/plain", "pointer.txt")
        assert (entry.size, entry.lfs) == (len(pointer), None)


class TestFaults:
    def test_wrong_bytes(self, hub, meshes, fetch):
        with hub.fault(WrongBytes("cups/red.stl")):
            wrong = fetch()
        assert len(wrong) == len(MESH)
        assert wrong != MESH

    def test_more_bytes(self, hub, meshes):
        address = client.get_hf_file_metadata(
            f"{hub.endpoint}/datasets/owner/meshes/resolve/main/cups/red.stl", token=False
        ).location
        with hub.fault(MoreBytes("cups/red.stl", 3)):
            parts = urlsplit(address)
            connection = http.client.HTTPConnection("127.0.0.1", parts.port)
            connection.request("GET", f"{parts.path}?{parts.query}")
            with connection.getresponse() as answer:
                assert len(answer.read()) == len(MESH) + 3
            connection.close()

    def test_another_size(self, hub, meshes, api):
        with hub.fault(WrongSize("cups/red.stl", 5)):
            [entry] = api.get_paths_info("owner/meshes", "cups/red.stl", repo_type="dataset")
        assert entry.size == 5


class TestWriting:
    @pytest.fixture
    def folder(self, hub, tmp_path):
        """A folder to upload, to a repository whose meshes are large files."""
        hub.create("owner/new")
        hub.commit("owner/new", {".gitattributes": MESHES})
        (tmp_path / "new/cups").mkdir(parents=True)
        (tmp_path / "new/cups/red.stl").write_bytes(MESH)
        (tmp_path / "new/cups/blue.stl").write_bytes(MESH + b"blue")
        (tmp_path / "new/table.xml").write_text("<table/>")
        return tmp_path / "new"

    def test_a_folder(self, hub, api, folder, tmp_path):
        api.upload_folder(repo_id="owner/new", folder_path=folder)
        entries = api.get_paths_info("owner/new", ["cups/red.stl", "table.xml"])
        assert [entry.lfs and entry.lfs.sha256 for entry in entries] == [SHA256, None]
        path = client.hf_hub_download(
            "owner/new", "cups/red.stl", endpoint=hub.endpoint, cache_dir=tmp_path / "cache"
        )
        assert Path(path).read_bytes() == MESH
        sent = [request for request in hub.requests if request.method == "PUT"]
        assert [request.status for request in sent] == [200, 200]

    def test_what_is_stored_is_not_sent_again(self, hub, api, folder):
        api.upload_folder(repo_id="owner/new", folder_path=folder)
        (folder / "cups/green.stl").write_bytes(MESH)
        hub.requests.clear()
        api.upload_folder(repo_id="owner/new", folder_path=folder)
        assert [request for request in hub.requests if request.method == "PUT"] == []
        [entry] = api.get_paths_info("owner/new", ["cups/green.stl"])
        assert entry.lfs.sha256 == SHA256

    def test_without_the_token_nothing_is_taken(self, hub, folder):
        wanted = json.dumps({"operation": "upload", "objects": [{"oid": SHA256, "size": 5}]})
        assert send(hub, "POST", "/owner/new.git/info/lfs/objects/batch", wanted) == 401
        assert send(hub, "PUT", f"/large-files/upload/models/owner/new/{SHA256}", MESH) == 403

    def test_another_content_than_announced(self, hub, api, folder):
        body = json.dumps({"operation": "upload", "objects": [{"oid": SHA256, "size": len(MESH)}]})
        connection = http.client.HTTPConnection("127.0.0.1", int(hub.endpoint.rpartition(":")[2]))
        headers = {"Authorization": f"Bearer {hub.token}"}
        connection.request("POST", "/owner/new.git/info/lfs/objects/batch", body, headers)
        with connection.getresponse() as answer:
            [about] = json.loads(answer.read())["objects"]
        connection.close()
        actions = {name: action["href"] for name, action in about["actions"].items()}
        assert send(hub, "PUT", actions["upload"], b"other") == 400
        size = json.dumps({"oid": SHA256, "size": len(MESH)})
        assert send(hub, "POST", actions["verify"], size, hub.token) == 404
        assert send(hub, "PUT", actions["upload"], MESH) == 200
        assert send(hub, "POST", actions["verify"], size, hub.token) == 200

    def test_a_commit_of_a_file_that_never_came(self, hub, api, folder):
        line = json.dumps({"key": "lfsFile", "value": {"path": "a.stl", "oid": SHA256, "size": 1}})
        path = "/api/models/owner/new/commit/main"
        assert send(hub, "POST", path, line, hub.token) == 400


@pytest.mark.parametrize(
    ("path", "size", "attributes", "expected"),
    [
        ("a.stl", 10, "", False),
        ("a.stl", 10, MESHES, True),
        ("cups/a.stl", 10, MESHES, True),
        ("a.stl", 0, MESHES, False),
        ("a.xml", 10, MESHES, False),
        ("a.stl", 10, f"{MESHES}\n*.stl -filter\n", False),
        ("cups/a.bin", 10, "cups/*.bin filter=lfs\n", True),
        ("a.bin", REGULAR_BYTES + 1, "", True),
        ("a.bin", REGULAR_BYTES, "", False),
        ("a.stl", 10, "*.stl -text\n", False),
    ],
)
def test_which_uploads_are_large(path, size, attributes, expected):
    assert is_large(path, size, attributes) is expected


@pytest.mark.parametrize("size", [0, 5, 10**12])
def test_a_pointer_is_read_as_it_was_written(size):
    pointer = Pointer("ab" * 32, size)
    assert Pointer.parse(pointer.data) == pointer
    assert Pointer.parse(pointer.data + b"x") is None


def test_a_content_is_found_by_its_hash(tmp_path):
    files = LargeFiles(tmp_path)
    assert files.find(SHA256) is None
    pointer = files.write(MESH)
    assert files.find(SHA256) == pointer == Pointer(SHA256, len(MESH))
    assert files.read(pointer) == MESH
    assert files.has(pointer)
    assert not files.has(Pointer(SHA256, 5))
