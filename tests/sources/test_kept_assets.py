"""Sets of assets that are kept at one commit, until they are updated."""

import json
from dataclasses import replace as changed

import msgspec
import pytest
from envhub_localhub import Large, faults

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.files import cache_home, discard_tree, set_writable, state_home
from envhub.sources import http, kept_assets, store
from envhub.sources.profiles import ASSETS

REPO = "owner/meshes"
MESH = bytes(range(256)) * 8000


@pytest.fixture
def dataset(hub):
    hub.create(REPO, kind="dataset")
    return hub.commit(REPO, {"red.stl": Large(MESH), "table.xml": "<table/>"}, kind="dataset")


def test_the_newest_commit_is_chosen_once(hub, dataset):
    found = kept_assets.obtain(REPO)
    assert (found.kept.repo, found.kept.commit) == (REPO, dataset)
    assert (found.files, found.size) == (2, len(MESH) + 8)
    assert found.kept.endpoint == hub.endpoint
    newer = hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    assert kept_assets.obtain(REPO) == found
    updated = kept_assets.update(REPO)
    assert updated.kept.commit == newer
    assert updated.kept.digest != found.kept.digest
    assert kept_assets.obtain(REPO) == updated
    assert kept_assets.all_kept() == [updated.kept]


def test_an_update_without_a_new_commit(hub, dataset):
    found = kept_assets.obtain(REPO)
    assert kept_assets.update(REPO) == found


def test_what_was_removed_from_the_cache_comes_again_at_the_same_commit(hub, dataset):
    found = kept_assets.obtain(REPO)
    hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    discard_tree(store.stored_path(REPO, dataset, ASSETS))
    assert kept_assets.load(found.kept) is None
    assert kept_assets.obtain(REPO) == found


def test_a_changed_file_is_found_and_fetched_again(hub, dataset):
    found = kept_assets.obtain(REPO)

    def change():
        set_writable(found.directory, writable=True)
        (found.directory / "red.stl").write_bytes(MESH[::-1])

    change()
    with pytest.raises(SourceCorrupt, match=r"damaged: red\.stl has different content"):
        kept_assets.load(found.kept)
    assert (kept_assets.obtain(REPO).directory / "red.stl").read_bytes() == MESH
    change()
    hub.close()
    with pytest.raises(SourceCorrupt, match="It was removed"):
        kept_assets.obtain(REPO)


def test_another_content_than_was_recorded(hub, dataset):
    found = kept_assets.obtain(REPO)
    [path] = (state_home() / "assets").glob("*.json")
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(found.kept, digest="sha256:0")))
    with pytest.raises(SourceCorrupt, match=f"are not those of before.*assets update {REPO}"):
        kept_assets.obtain(REPO)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"repo": 3}'])
def test_a_note_that_cannot_be_read_is_none(hub, dataset, content):
    found = kept_assets.obtain(REPO)
    [path] = (state_home() / "assets").glob("*.json")
    path.write_text(content)
    assert kept_assets.all_kept() == []
    assert kept_assets.obtain(REPO).kept.commit == found.kept.commit


def test_a_cut_fetch_is_continued(hub, dataset, monkeypatch):
    monkeypatch.setattr(http, "_PAUSE", 0)
    cut = faults.Cut(50_000, "/large-files/")
    with hub.fault(cut), pytest.raises(SourceUnavailable, match="could not be requested"):
        kept_assets.obtain(REPO)
    assert kept_assets.recall(REPO) is None
    hub.requests.clear()
    assert (kept_assets.obtain(REPO).directory / "red.stl").read_bytes() == MESH
    [request] = [request for request in hub.requests if "/large-files/" in request.path]
    assert request.range == "bytes=250000-"


def test_everything_is_removed(hub, dataset):
    kept_assets.obtain(REPO)
    hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    kept_assets.update(REPO)
    assert kept_assets.remove(REPO)
    assert not kept_assets.remove(REPO)
    assert kept_assets.all_kept() == []
    assert not store.stored_path(REPO, dataset, ASSETS).parent.exists()


def test_what_a_cut_fetch_left_is_removed_too(hub, dataset):
    with hub.fault(faults.Status(503, "/large-files/")), pytest.raises(SourceUnavailable):
        kept_assets.obtain(REPO)
    assert store.partials(REPO, ASSETS)
    assert kept_assets.remove(REPO)
    assert store.partials(REPO, ASSETS) == []


def test_the_files_are_read_only(hub, dataset):
    found = kept_assets.obtain(REPO)
    modes = [path.stat().st_mode & 0o222 for path in found.directory.rglob("*")]
    assert modes == [0] * len(modes)
    assert found.directory.is_relative_to(cache_home())


def test_a_private_dataset_needs_the_token_once(hub, monkeypatch):
    hub.create("owner/secret", kind="dataset", private=True)
    hub.commit("owner/secret", {"a.stl": Large(MESH)}, kind="dataset")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with pytest.raises(SourceUnavailable, match="does not exist or is private"):
        kept_assets.obtain("owner/secret")
    found = kept_assets.obtain("owner/secret", private=True)
    assert kept_assets.obtain("owner/secret") == changed(found)


def test_the_note_is_plain(hub, dataset):
    kept_assets.obtain(REPO)
    note = json.loads((state_home() / "assets/owner--meshes.json").read_text())
    assert note.keys() == {"repo", "commit", "digest", "endpoint", "fetched"}
