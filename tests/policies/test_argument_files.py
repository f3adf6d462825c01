"""The files that a policy's arguments name."""

from envhub.policies.argument_files import hash_named_files


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
