"""What a source is, byte by byte."""

import base64
import hashlib
import importlib
from pathlib import Path

import pytest

from envhub.errors import ExitCode, UnknownName, UsageError
from envhub.refs import PathRef
from envhub.sources import fingerprint
from envhub.sources.find import locate
from envhub.sources.fingerprint import hash_directory, hash_file, hash_named_files, identify
from envhub.types import PluginSource


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def fill(directory: Path, **files: str) -> None:
    """Write files; `__` in a name stands for `/`, `_dot_` for a dot."""
    for name, content in files.items():
        path = directory / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_every_file_counts_by_its_path(tmp_path):
    fill(tmp_path, env_dot_py="x = 1", scenes__a_dot_xml="<a/>", scenes__deep__b_dot_bin="")
    assert hash_directory(tmp_path) == {
        "env.py": sha(b"x = 1"),
        "scenes/a.xml": sha(b"<a/>"),
        "scenes/deep/b.bin": sha(b""),
    }


def test_what_is_no_code_is_left_out(tmp_path):
    fill(tmp_path, env_dot_py="x = 1")
    before = hash_directory(tmp_path)
    fill(tmp_path, _dot_git__HEAD="ref", _dot_hidden="x", runs__one__run_dot_json="{}")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "env.pyc").write_bytes(b"\0")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert hash_directory(tmp_path) == before


def test_a_run_in_the_benchmarks_own_directory_does_not_change_it(tmp_path):
    fill(tmp_path, env_dot_py="x = 1")
    before = hash_directory(tmp_path)
    fill(tmp_path, out__run_dot_json="{}", out__episodes_dot_jsonl="", out__logs__w_dot_log="x")
    assert hash_directory(tmp_path) == before
    # Of a data set it is, which has one of the two.
    fill(tmp_path, meta__episodes_dot_jsonl="{}")
    assert hash_directory(tmp_path) == {**before, "meta/episodes.jsonl": sha(b"{}")}


def test_links_to_files_count_and_loops_do_no_harm(tmp_path):
    fill(tmp_path, env_dot_py="x = 1")
    (tmp_path / "same.py").symlink_to("env.py")
    (tmp_path / "loop").symlink_to(".")
    assert hash_directory(tmp_path) == {"env.py": sha(b"x = 1"), "same.py": sha(b"x = 1")}


def test_of_very_many_files_only_python_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "_MAX_FILES", 3)
    fill(tmp_path, env_dot_py="x = 1", a_dot_txt="", b_dot_txt="")
    assert len(hash_directory(tmp_path)) == 3
    fill(tmp_path, c_dot_txt="")
    assert hash_directory(tmp_path) == {"env.py": sha(b"x = 1")}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "memory").symlink_to("/proc/self/mem")  # refuses even root
    with pytest.raises(
        UsageError, match=r"/memory cannot be read: Input/output error\.$"
    ) as caught:
        hash_file(tmp_path / "memory")
    assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(UsageError, match=r"gone cannot be read: No such file or directory\.$"):
        hash_file(tmp_path / "gone")


def test_a_local_source(tmp_path):
    fill(tmp_path, env_dot_py="x = 1", other_dot_py="")
    assert identify(locate(PathRef(str(tmp_path)))) == {
        "kind": "local",
        "files": {"env.py": sha(b"x = 1"), "other.py": sha(b"")},
    }


def test_an_installed_plugin(tmp_path, monkeypatch):
    """Its package says what its files are."""
    info = tmp_path / "envhub_toy-2.5.dist-info"
    hashed = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1").digest()).rstrip(b"=").decode()
    fill(tmp_path, envhub_toy_dot_py="x = 1")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: envhub-toy\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[envhub]\ntoy = envhub_toy\n")
    (info / "RECORD").write_text(
        f"envhub_toy.py,sha256={hashed},5\nenvhub_toy/a.xml,sha256={hashed},5\n"
        "__pycache__/envhub_toy.pyc,,\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert identify(PluginSource("toy")) == {
        "kind": "plugin",
        "package": "envhub-toy 2.5",
        "files": {"envhub_toy.py": f"sha256:{hashed}"},
    }
    with pytest.raises(UnknownName):
        identify(PluginSource("toyy"))


@pytest.mark.parametrize("found_by", ["_toy.pth", "__editable___toy_finder.py"])
def test_a_plugin_that_is_installed_editable(tmp_path, monkeypatch, found_by):
    """Its package's record lists none of its files, and they are what may change."""
    site, project = tmp_path / "site", tmp_path / "project"
    about = site / "envhub_toy-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: envhub-toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[envhub]\ntoy = toy_in_progress\n")
    listed = f"envhub_toy-1.0.dist-info/METADATA,,\n{found_by},sha256=abc,3\n"
    (about / "RECORD").write_text(listed)
    (project / "toy_in_progress").mkdir(parents=True)
    code = project / "toy_in_progress" / "__init__.py"
    code.write_text("raise RuntimeError('imported')")
    for folder in (site, project):
        monkeypatch.syspath_prepend(str(folder))
    before = identify(PluginSource("toy"))["files"]
    assert before == {"toy_in_progress/__init__.py": hash_file(code)}
    code.write_text("changed")
    assert identify(PluginSource("toy"))["files"] != before


def test_files_are_hashed_also_in_lists(tmp_path):
    file = tmp_path / "weights"
    file.write_text("1")
    args = {"a": str(file), "b": [3, str(file)], "c": {"d": [str(file)], "e": "no file"}}
    hashes = hash_named_files(args, tmp_path)
    assert list(hashes) == ["a", "b[1]", "c.d[0]"]
    assert len(set(hashes.values())) == 1


def test_relative_paths_begin_in_the_directory(tmp_path):
    (tmp_path / "weights").write_text("1")
    assert list(hash_named_files({"a": "weights", "b": "\0", "c": "x" * 5000}, tmp_path)) == ["a"]
    assert hash_named_files({"a": "weights"}, tmp_path / "elsewhere") == {}
