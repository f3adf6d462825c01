"""`envhub merge`: what it prints, its exit codes, and shards that still play."""

import json
import subprocess

import pytest
from support.replays import copy_recorded
from support.run_tools import envhub, start

from envhub import open_run

PLAY = ("eval", "./run_walk", "--policy", "zero", "--episodes", 2, "--max-steps", 5)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    for index in (1, 2):
        answer = envhub(*PLAY, "--workers", 0, "--shard", f"{index}/2", "--out", place / f"{index}")
        assert answer.code == 0, answer.err
        assert f", shard {index}/2, incomplete: " in answer.out
    return place


@pytest.fixture
def parts(played, tmp_path):
    for index in ("1", "2"):
        copy_recorded(open_run(played / index), tmp_path / "parts" / index)
    return tmp_path / "parts"


def test_shards_of_a_run(parts, tmp_path):
    answer = envhub("merge", tmp_path / "out", parts / "1")
    assert answer.code == 1
    assert "are missing: " in answer.err
    assert f"play what is missing here: envhub eval --resume {tmp_path}/out" in answer.err
    answer = envhub("merge", tmp_path / "out", parts / "1", parts / "2")
    assert (answer.code, answer.err) == (0, "")
    assert "Played in 2 parts, on 1 kind of processor." in answer.out
    shown = envhub("merge", tmp_path / "out", parts / "1", "--json")
    assert json.loads(shown.out)["complete"] is True


def test_another_shard_does_not_continue_a_run(parts):
    answer = envhub(*PLAY, "--shard", "2/2", "--out", parts / "1", "--continue")
    assert answer.code == 2
    assert "The --shard" in answer.err
    again = envhub(*PLAY, "--workers", 0, "--shard", "1/2", "--out", parts / "1", "--continue")
    assert again.code == 0, again.err


def test_shards_that_still_play(parts, tmp_path):
    watching = start("merge", tmp_path / "out", parts / "1", tmp_path / "2", "--watch")
    try:
        assert watching.stderr.readline().startswith("3 of ")  # of the shard that is there
        subprocess.run(["cp", "-r", parts / "2", tmp_path / "2"], check=True)
        out, err = watching.communicate(timeout=60)
    finally:
        watching.kill()
    assert (watching.returncode, "Played in 2 parts" in out) == (0, True), err


def test_runs_that_contradict_each_other(parts, tmp_path):
    for index in (1, 2):
        envhub("merge", tmp_path / f"{index}", parts / "1", parts / "2")
    path = tmp_path / "2" / "episodes.jsonl"
    path.write_text(path.read_text().replace('"steps":5', '"steps":4'))
    answer = envhub("merge", tmp_path / "out", tmp_path / "1", tmp_path / "2")
    assert (answer.code, answer.out) == (1, "")
    assert "Episode 0 of " in answer.err
    assert "steps 5 in " in answer.err
