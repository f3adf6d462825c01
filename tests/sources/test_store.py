"""Files that were fetched: checked whenever they are used, and replaced if they differ."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.fetching import FILES

from envhub.errors import SourceCorrupt
from envhub.files import set_writable
from envhub.sources import store
from envhub.sources.fetch import obtain


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
            sha256, blob_id = store.file_ids(file, large=False)
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


def test_a_state_directory_that_cannot_be_written_leaves_a_commit_unknown(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "file"))
    store.remember("me/env", "0" * 40, store.DirectoryNote("digest"))
    assert store.recall("me/env", "0" * 40) is None


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
