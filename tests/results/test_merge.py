"""Merging shards: the records of one machine, whoever played them and in whatever order."""

import json
import random
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace as changed
from support.replays import copy_recorded
from support.run_tools import WALK, WALKERS, outcomes, snapshot

from envhub import evaluate, merge_runs, open_run, verify
from envhub.errors import RunDirectoryError, UsageError
from envhub.evaluation.run import resume_run
from envhub.results.merge import Contradicting
from envhub.results.seal import is_sealed, make_seal

SHARDS = 16
POLICY = f"{WALKERS}:noisy_chunked"


def play(out: Path, **more):
    options = {"tasks": "near,far", "episodes": 6, "workers": 0, "max_steps": 20, **more}
    return evaluate(str(WALK), POLICY, out=out, **options)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run of twelve episodes, and sixteen shards of it: four of them have none."""
    place = tmp_path_factory.mktemp("played")
    runs = [play(place / "whole")]
    for index in range(1, SHARDS + 1):
        baselines = ["zero"] * (index in (2, 3))
        runs.append(play(place / f"{index}", shard=f"{index}/{SHARDS}", baselines=baselines))
    return runs


@pytest.fixture
def whole(played, tmp_path):
    return copy_recorded(played[0], tmp_path / "whole").directory


@pytest.fixture
def shards(played, tmp_path):
    return [copy_recorded(run, tmp_path / run.directory.name).directory for run in played[1:]]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_shards_in_any_order_are_the_run_of_one_machine(whole, shards, out):
    shuffled = shards.copy()
    random.Random(0).shuffle(shuffled)
    run = merge_runs(out, shuffled)
    assert run.complete
    assert outcomes(out) == outcomes(whole)
    assert open_run(out).run_info.protocol == open_run(whole).run_info.protocol
    for path in (whole / "actions").iterdir():
        assert (out / "actions" / path.name).read_bytes() == path.read_bytes()
    assert is_sealed(open_run(out).info)
    numbers = sorted(n for part in run.run_info.parts for first, n in part.numbers)
    assert numbers == list(range(12))
    assert open_run(out / "baselines" / "zero").records()
    assert {one.verdict for one in verify(run, workers=1).episodes} == {"identical"}


def test_a_run_grows_with_its_shards(whole, shards, out):
    first = merge_runs(out, shards[:5])
    assert (len(first.records()), first.complete) == (3, False)
    before = snapshot(out)
    merge_runs(out, shards[:5])
    assert {name: data for name, data in snapshot(out).items() if name != ".lock"} == {
        name: data for name, data in before.items() if name != ".lock"
    }
    assert merge_runs(out, shards[4:]).complete
    assert outcomes(out) == outcomes(whole)


def test_what_is_missing_is_played(whole, shards, out):
    merge_runs(out, shards[:-6])
    resume_run(out, 0, _Silent())
    assert open_run(out).complete
    assert outcomes(out) == outcomes(whole)


def test_the_same_episodes_twice(whole, shards, out):
    assert merge_runs(out, [*shards, whole]).complete
    assert outcomes(out) == outcomes(whole)


def test_an_episode_that_failed_elsewhere_is_replaced(whole, tmp_path, out):
    failed = shutil.copytree(whole, tmp_path / "failed")
    edit(failed, 3, status="worker_died", success=None, end="error", error=ERROR)
    run = merge_runs(out, [failed, whole])
    assert [record.status for record in run.records()] == ["ok"] * 12
    assert outcomes(out) == outcomes(whole)


def test_runs_that_contradict_each_other(whole, tmp_path, out):
    other = shutil.copytree(whole, tmp_path / "other")
    edit(other, 3, trace="sha256:" + "0" * 64)
    edit(other, 4, success=not json.loads(lines(whole)[4])["success"])
    with pytest.raises(Contradicting, match=r"Episode 3 of near differs: trace .* in .*whole") as e:
        merge_runs(out, [whole, other])
    assert "Nothing was merged" in str(e.value)
    assert len(e.value.found) == 2
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": 1}, "--seed"),
        ({"episodes": 5}, "--episodes"),
        ({"max_steps": 19}, "--max-steps"),
        ({"tasks": "far"}, "the suites"),
    ],
)
def test_runs_of_other_questions(whole, tmp_path, out, options, said):
    play(tmp_path / "other", shard="1/12", **options)
    with pytest.raises(RunDirectoryError, match=f"do not belong together: they differ in .*{said}"):
        merge_runs(out, [whole, tmp_path / "other"])
    assert not out.exists()


def test_directories_that_cannot_be_merged(whole, shards, out, tmp_path):
    with pytest.raises(UsageError, match="merged into itself"):
        merge_runs(shards[0], shards)
    with pytest.raises(RunDirectoryError, match="a run of its own, which was not merged"):
        merge_runs(whole, shards)
    with pytest.raises(RunDirectoryError, match="is not a run"):
        merge_runs(out, [tmp_path])
    with pytest.raises(UsageError, match="Name the runs"):
        merge_runs(out, [])


def test_a_strangers_shard_is_counted_and_not_obeyed(shards, tmp_path, out):
    stranger = shutil.copytree(shards[3], tmp_path / "stranger")
    content = json.loads((stranger / "run.json").read_text())
    (stranger / "run.json").write_text(json.dumps({**content, "seal": None}))
    assert merge_runs(out, [*shards[:3], stranger]).run_info.seal is None
    with pytest.raises(RunDirectoryError, match="does not carry your seal"):
        resume_run(out, 0, _Silent())


def test_machines_are_told_apart(shards, tmp_path, out):
    other = shutil.copytree(shards[1], tmp_path / "other")
    info = open_run(other).run_info
    moved = changed(info, machine=changed(info.machine, cpu="another"), seal=None)
    moved = changed(moved, seal=make_seal(moved.to_json()))
    (other / "run.json").write_text(json.dumps(moved.to_json()))
    run = merge_runs(out, [shards[3], other])
    assert len(run.run_info.machines) == 2
    resume_run(out, 0, _Silent())
    found = open_run(out).run_info
    assert [part.name for part in found.parts] == ["4", "other"]
    assert {machine.cpu for machine in found.all_machines} == {info.machine.cpu, "another"}


def test_a_run_that_moves_says_where_its_first_episodes_were_played(whole, tmp_path):
    place = shutil.copytree(whole, tmp_path / "moved")
    (place / "episodes.jsonl").write_text("\n".join(lines(whole)[:5]) + "\n")
    info = open_run(place).run_info
    elsewhere = changed(info, machine=changed(info.machine, cpu="another"), seal=None)
    elsewhere = changed(elsewhere, seal=make_seal(elsewhere.to_json()))
    (place / "run.json").write_text(json.dumps(elsewhere.to_json()))
    resume_run(place, 0, _Silent())
    found = open_run(place).run_info
    assert found.machine == info.machine
    assert [(found.machines[p.machine].cpu, p.numbers) for p in found.parts] == [
        ("another", [(0, 4)])
    ]


ERROR = {"where": "worker", "type": "X", "message": "x", "step": 0, "traceback": None}


def lines(place: Path) -> list[str]:
    return (place / "episodes.jsonl").read_text().splitlines()


def edit(place: Path, line: int, **fields) -> None:
    found = lines(place)
    found[line] = json.dumps({**json.loads(found[line]), **fields})
    (place / "episodes.jsonl").write_text("\n".join(found) + "\n")


class _Silent:
    def __getattr__(self, name):
        return lambda *_: None
