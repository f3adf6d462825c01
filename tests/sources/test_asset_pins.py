"""Sets of assets that are kept at one commit, until they are updated."""

import json
from dataclasses import replace as changed

import msgspec
import pytest
from envhub_localhub import Large, faults

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.files import cache_home, discard_tree, set_writable, state_home
from envhub.sources import asset_pins, http, store
from envhub.sources.profiles import ASSETS

REPO = "owner/meshes"
MESH = bytes(range(256)) * 8000


@pytest.fixture
def dataset(hub):
    hub.create(REPO, kind="dataset")
    return hub.commit(REPO, {"red.stl": Large(MESH), "table.xml": "<table/>"}, kind="dataset")


def test_the_newest_commit_is_chosen_once(hub, dataset):
    found = asset_pins.obtain(REPO)
    assert (found.pin.repo, found.pin.commit) == (REPO, dataset)
    assert (found.files, found.size) == (2, len(MESH) + 8)
    assert found.pin.endpoint == hub.endpoint
    newer = hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    assert asset_pins.obtain(REPO) == found
    updated = asset_pins.update(REPO)
    assert updated.pin.commit == newer
    assert updated.pin.digest != found.pin.digest
    assert asset_pins.obtain(REPO) == updated
    assert asset_pins.all_pins() == [updated.pin]


def test_an_update_without_a_new_commit(hub, dataset):
    found = asset_pins.obtain(REPO)
    assert asset_pins.update(REPO) == found


def test_what_was_removed_from_the_cache_comes_again_at_the_same_commit(hub, dataset):
    found = asset_pins.obtain(REPO)
    hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    discard_tree(store.stored_path(REPO, dataset, ASSETS))
    assert asset_pins.load(found.pin) is None
    assert asset_pins.obtain(REPO) == found


def test_a_changed_file_is_found_and_fetched_again(hub, dataset):
    found = asset_pins.obtain(REPO)

    def change():
        set_writable(found.directory, writable=True)
        (found.directory / "red.stl").write_bytes(MESH[::-1])

    change()
    with pytest.raises(SourceCorrupt, match=r"damaged: red\.stl has different content"):
        asset_pins.load(found.pin)
    assert (asset_pins.obtain(REPO).directory / "red.stl").read_bytes() == MESH
    change()
    hub.close()
    with pytest.raises(SourceCorrupt, match="It was removed"):
        asset_pins.obtain(REPO)


def test_another_content_than_was_recorded(hub, dataset):
    found = asset_pins.obtain(REPO)
    [path] = (state_home() / "assets").glob("*.json")
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(found.pin, digest="sha256:0")))
    with pytest.raises(SourceCorrupt, match=f"are not those of before.*assets update {REPO}"):
        asset_pins.obtain(REPO)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"repo": 3}'])
def test_a_note_that_cannot_be_read_is_none(hub, dataset, content):
    found = asset_pins.obtain(REPO)
    [path] = (state_home() / "assets").glob("*.json")
    path.write_text(content)
    assert asset_pins.all_pins() == []
    assert asset_pins.obtain(REPO).pin.commit == found.pin.commit


def test_a_cut_fetch_is_continued(hub, dataset, monkeypatch):
    monkeypatch.setattr(http, "_PAUSE", 0)
    cut = faults.Cut(50_000, "/large-files/")
    with hub.fault(cut), pytest.raises(SourceUnavailable, match="could not be requested"):
        asset_pins.obtain(REPO)
    assert asset_pins.recall(REPO) is None
    hub.requests.clear()
    assert (asset_pins.obtain(REPO).directory / "red.stl").read_bytes() == MESH
    [request] = [request for request in hub.requests if "/large-files/" in request.path]
    assert request.range == "bytes=250000-"


def test_a_commit_that_is_not_kept_any_more_is_chosen_again(hub, dataset):
    asset_pins.obtain(REPO)
    other = hub.commit(REPO, {"table.xml": "<other/>"}, kind="dataset")
    assert asset_pins.forget(REPO)
    assert not asset_pins.forget(REPO)
    assert asset_pins.all_pins() == []
    assert asset_pins.obtain(REPO).pin.commit == other


def test_the_files_are_read_only(hub, dataset):
    found = asset_pins.obtain(REPO)
    modes = [path.stat().st_mode & 0o222 for path in found.directory.rglob("*")]
    assert modes == [0] * len(modes)
    assert found.directory.is_relative_to(cache_home())


def test_a_private_dataset_needs_the_token_once(hub, monkeypatch):
    hub.create("owner/secret", kind="dataset", private=True)
    hub.commit("owner/secret", {"a.stl": Large(MESH)}, kind="dataset")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with pytest.raises(SourceUnavailable, match="does not exist or is private"):
        asset_pins.obtain("owner/secret")
    found = asset_pins.obtain("owner/secret", private=True)
    assert asset_pins.obtain("owner/secret") == changed(found)


def test_the_note_is_plain(hub, dataset):
    asset_pins.obtain(REPO)
    note = json.loads((state_home() / "assets/owner--meshes.json").read_text())
    assert note.keys() == {"repo", "commit", "digest", "endpoint", "fetched"}
