"""Fetching by kind: what each kind may have, and large files that come in several attempts."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from envhub_localhub import Large, faults

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.files import cache_home, set_writable
from envhub.refs import HubRef
from envhub.sources import http, store
from envhub.sources.fetch import obtain, obtain_files, resolve
from envhub.sources.hub import Hub
from envhub.sources.profiles import (
    ASSETS,
    BENCHMARK,
    CHECKPOINT,
    MODEL,
    PROFILES,
    RUN,
    TOKENIZER,
)

MESH = bytes(range(256)) * 12_000
WEIGHTS = bytes(range(255, -1, -1)) * 12_000


@pytest.mark.parametrize(
    ("profile", "wanted", "left_out"),
    [
        (
            BENCHMARK,
            "env.py a/b.json mesh.stl",
            "model.safetensors a/x.pkl x.tar.gz .gitattributes",
        ),
        (ASSETS, "a/b.stl x.xml notes.pkl weights.bin", ".gitattributes a/.hidden m.so m.pyc"),
        (CHECKPOINT, "model.safetensors config.json a/b.json", "model.bin x.pt env.py README.md"),
        (
            TOKENIZER,
            "tokenizer.json vocab.txt a/spiece.model",
            "model.safetensors pytorch_model.bin code.py template.jinja x.pkl",
        ),
        (MODEL, "tokenizer.json model.safetensors", "pytorch_model.bin code.py README.md x.pt"),
        (
            RUN,
            "run.json episodes.jsonl actions.zip actions/0.npy",
            "env.py logs/worker-0.log x.pkl",
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_which_files_are_fetched(profile, wanted, left_out):
    assert [path for path in wanted.split() if not profile.wants(path)] == []
    assert [path for path in left_out.split() if profile.wants(path)] == []


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.kind)
def test_a_kind_has_limits(profile):
    name = profile.needed[0].replace("*", "x") if profile.needed else "x.json"
    most = {f"{number}/{name}": 0 for number in range(profile.max_files)}
    profile.check("me/it", most)
    with pytest.raises(SourceUnavailable, match=rf"me/it has {len(most) + 1} files of 0 MB; a "):
        profile.check("me/it", {**most, f"more/{name}": 0})
    profile.check("me/it", {name: profile.max_bytes})
    with pytest.raises(SourceUnavailable) as caught:
        profile.check("me/it", {name: profile.max_bytes + 1})
    assert str(caught.value).endswith(profile.advice)
    profile.check("me/it", {name: 0, ".gitattributes": 2**60})


@pytest.fixture
def checkpoint(hub):
    files = {
        "model.safetensors": Large(WEIGHTS),
        "config.json": "{}",
        "optimizer.pt": b"\x80pickle",
    }
    hub.create("me/policy")
    return HubRef("me", "policy", hub.commit("me/policy", files), "")


@pytest.fixture
def meshes(hub):
    hub.create("me/meshes", kind="dataset")
    files = {"cups/red.stl": Large(MESH), "table.xml": "<table/>", "blue.stl": Large(MESH + b"!")}
    return HubRef("me", "meshes", hub.commit("me/meshes", files, kind="dataset"), "")


def asked(hub, name):
    return [r for r in hub.requests if "/large-files/" in r.path and r.path.endswith(name)]


def test_a_checkpoint_is_its_weights_and_their_description(hub, checkpoint):
    seen = []
    stored = obtain_files(checkpoint, CHECKPOINT, on_progress=lambda *told: seen.append(told))
    assert sorted(stored.manifest.files) == ["config.json", "model.safetensors"]
    assert stored.manifest.left_out == (".gitattributes", "optimizer.pt")
    assert (stored.directory / "model.safetensors").read_bytes() == WEIGHTS
    assert stored.manifest.files["model.safetensors"].large
    assert stored.manifest.proof == "git"
    assert seen[-1] == (2, 2, len(WEIGHTS) + 2, len(WEIGHTS) + 2)
    assert stored.directory.is_relative_to(cache_home() / "checkpoints")


def test_weights_that_are_pickles_only_are_refused(hub):
    hub.create("me/old")
    ref = HubRef(
        "me", "old", hub.commit("me/old", {"pytorch_model.bin": b"\x80", "c.json": ""}), ""
    )
    with pytest.raises(SourceUnavailable) as caught:
        obtain_files(ref, CHECKPOINT)
    assert str(caught.value) == (
        f"{ref} has no file *.safetensors, as a checkpoint must. It has pytorch_model.bin, a "
        "pickle, which can run code when it is loaded and is never fetched. Ask its author for "
        "safetensors."
    )
    assert not any("/resolve/" in request.path for request in hub.requests)


def test_a_repository_of_another_kind(hub):
    hub.create("me/data", kind="dataset")
    commit = hub.commit("me/data", {"table.xml": ""}, kind="dataset")
    with pytest.raises(SourceUnavailable, match=r"has no file run\.json, as a run must\. Check"):
        obtain_files(HubRef("me", "data", commit, ""), RUN)


def test_datasets_are_asked_as_datasets(hub, meshes):
    hub.create("me/meshes")  # a model of the same name
    dataset = Hub(repositories="datasets")
    assert resolve(HubRef("me", "meshes", None, ""), dataset).commit == meshes.revision
    stored = obtain_files(meshes, ASSETS)
    assert sorted(stored.manifest.files) == ["blue.stl", "cups/red.stl", "table.xml"]
    assert stored.manifest.proof == "git"
    with pytest.raises(SourceUnavailable, match="unknown revision"):
        obtain_files(meshes, CHECKPOINT)


def test_the_second_time_nothing_is_asked(hub, meshes):
    obtain_files(meshes, ASSETS)
    hub.close()
    assert obtain_files(meshes, ASSETS).manifest.commit == meshes.revision


def test_kinds_of_one_repository_are_stored_apart(hub):
    files = {"env.py": "", "config.json": "{}", "model.safetensors": Large(WEIGHTS)}
    commit = hub.commit("me/env", files)
    obtain(HubRef("me", "env", commit))
    obtain_files(HubRef("me", "env", commit, ""), CHECKPOINT)
    benchmark = store.load("me/env", commit)
    checkpoint = store.load("me/env", commit, CHECKPOINT)
    assert "env.py" in benchmark.manifest.files
    assert "env.py" not in checkpoint.manifest.files


def test_nobody_is_asked_for_branches_if_nothing_is_run(hub, meshes, ref):
    obtain_files(meshes, ASSETS)
    services = [request for request in hub.requests if "info/refs" in request.path]
    obtain(ref)
    assert len([r for r in hub.requests if "info/refs" in r.path]) - len(services) > len(services)


def partials(repo):
    found = (cache_home() / ASSETS.folder).glob(f".partial-{repo.replace('/', '--')}-*")
    return (path for path in found if path.is_dir())


def test_a_cut_fetch_is_continued_by_the_next_one(hub, meshes, monkeypatch):
    """In the middle of a file, for good: all attempts of the first fetch fail."""
    monkeypatch.setattr(http, "_PAUSE", 0)
    cut = faults.Cut(50_000, "/large-files/.*/cups/red.stl$")
    with hub.fault(cut), pytest.raises(SourceUnavailable):
        obtain_files(meshes, ASSETS)
    assert store.load("me/meshes", meshes.revision, ASSETS) is None
    [partial] = list(partials("me/meshes"))
    kept = (partial / "files/cups/red.stl").stat().st_size
    assert kept == 5 * 50_000
    hub.requests.clear()
    stored = obtain_files(meshes, ASSETS)
    assert (stored.directory / "cups/red.stl").read_bytes() == MESH
    assert [request.range for request in asked(hub, "red.stl")] == [f"bytes={kept}-"]
    assert list(partials("me/meshes")) == []


def test_a_file_that_had_come_is_not_fetched_again(hub, meshes):
    with hub.fault(faults.Status(503, "/cups/red.stl$")), pytest.raises(SourceUnavailable):
        obtain_files(meshes, ASSETS)
    hub.requests.clear()
    obtain_files(meshes, ASSETS)
    assert len(asked(hub, "blue.stl")) == 0
    assert len(asked(hub, "red.stl")) == 1


@pytest.mark.parametrize("size", [1000, len(MESH), len(MESH) + 5])
def test_what_is_not_the_beginning_of_the_file_is_fetched_anew(hub, meshes, size):
    with store.resume("me/meshes", meshes.revision, ASSETS) as partial:
        (partial / "files/cups").mkdir()
        (partial / "files/cups/red.stl").write_bytes(bytes(size))
        (partial / "files/another.stl").write_bytes(b"of an earlier version")
    stored = obtain_files(meshes, ASSETS)
    assert (stored.directory / "cups/red.stl").read_bytes() == MESH
    assert "another.stl" not in stored.manifest.files


def test_wrong_bytes_are_refused_and_not_kept(hub, meshes):
    wrong = faults.WrongBytes("cups/red.stl")
    with hub.fault(wrong), pytest.raises(SourceCorrupt, match=r"red\.stl of .* differs from the"):
        obtain_files(meshes, ASSETS)
    assert (obtain_files(meshes, ASSETS).directory / "cups/red.stl").read_bytes() == MESH


def test_a_changed_file_is_found(hub, meshes):
    stored = obtain_files(meshes, ASSETS)
    place = stored.directory.parent
    set_writable(place, writable=True)
    (stored.directory / "cups/red.stl").write_bytes(bytes(len(MESH)))
    with pytest.raises(SourceCorrupt, match=r"damaged: cups/red\.stl has different content"):
        store.load("me/meshes", meshes.revision, ASSETS)
    assert (obtain_files(meshes, ASSETS).directory / "cups/red.stl").read_bytes() == MESH


def test_several_fetch_the_same_at_once(hub, meshes):
    """One fetches, the others wait for it."""
    start = threading.Barrier(4)

    def fetch(_: int) -> bytes:
        start.wait()
        return (obtain_files(meshes, ASSETS).directory / "cups/red.stl").read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(fetch, range(4))) == {MESH}
    assert len(asked(hub, "red.stl")) == 1


def test_what_nobody_continues_is_removed_in_time(hub, meshes):
    with store.resume("me/other", "0" * 40, ASSETS) as left:
        (left / "files/half.stl").write_bytes(b"half")
    os.utime(left, (0, 0))
    obtain_files(meshes, ASSETS)
    assert not left.exists()


def test_a_private_dataset(hub, monkeypatch):
    hub.create("me/secret", kind="dataset", private=True)
    commit = hub.commit("me/secret", {"a.stl": Large(MESH)}, kind="dataset")
    ref = HubRef("me", "secret", commit, "")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with pytest.raises(SourceUnavailable, match="--private"):
        obtain_files(ref, ASSETS)
    assert obtain_files(ref, ASSETS, private=True).manifest.proof == "git"


def test_limits_are_those_of_the_kind(hub, meshes):
    with pytest.raises(
        SourceUnavailable, match=r"@[0-9a-f]{40} has 3 files of 6 MB; a set of assets"
    ):
        obtain_files(meshes, replace(ASSETS, max_bytes=10**6))
