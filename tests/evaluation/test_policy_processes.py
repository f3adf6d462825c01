"""A policy in several processes: the same records, and each process costs its own episodes only."""

import json
import re
import signal
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from support.engine_runs import PATIENT, play
from support.processes import descendants, ending, kill, wait_until
from support.run_tools import WALK, counted, ended, envhub, outcomes, start
from support.run_tools import WALKERS as RUN_WALKERS

from envhub import UsageError, evaluate
from envhub.errors import RunAborted
from envhub.options import Limits

EPISODES = {"tasks": ("at-end", "ever"), "episodes": 5}
FOUR = {"tasks": ("at-end", "ever"), "episodes": 2}
SHORT = Limits(start=60, reset=60, step=60, act=2, close=20)


def diaries(directory):
    """What each process of the policy wrote, by its pid."""
    return {int(path.stem): path.read_text().splitlines() for path in directory.iterdir()}


def told(lines, what):
    """The episodes that a process was told of."""
    begin = f"{what} "
    return sorted(line.removeprefix(begin) for line in lines if line.startswith(begin))


def acted(directory):
    """The processes that acted in each episode."""
    found = defaultdict(set)
    for pid, lines in diaries(directory).items():
        for episode in told(lines, "act"):
            found[episode].add(pid)
    return found


@pytest.mark.parametrize("kind", ["dreamy", "ragged_pairs", "fours"])
def test_records_do_not_depend_on_the_number_of_processes(kind):
    alone = play(kind=kind, workers=0, **EPISODES)
    assert play(kind=kind, workers=5, processes=2, **EPISODES) == alone


def test_episodes_are_spread_and_stay_where_they_began(tmp_path):
    outcome = play(kind="signed", path=str(tmp_path), workers=4, devices=("5", "GPU-7"), **EPISODES)
    assert outcome == play(kind="dreamy", workers=0, **EPISODES)
    found = diaries(tmp_path)
    assert sorted(lines[0] for lines in found.values()) == ["made 5", "made GPU-7"]
    assert {lines[-1] for lines in found.values()} == {"close"}
    assert len(acted(tmp_path)) == 10
    assert {len(pids) for pids in acted(tmp_path).values()} == {1}
    assert set().union(*acted(tmp_path).values()) == set(found)
    for lines in found.values():
        assert told(lines, "start") == told(lines, "finish")


def test_no_more_processes_than_workers(tmp_path):
    play(kind="signed", path=str(tmp_path), workers=2, processes=7, **EPISODES)
    assert len(diaries(tmp_path)) == 2


def test_a_process_that_is_killed_costs_its_own_episodes_only(tmp_path):
    killed = []

    def on_record(record):
        if not killed:
            killed.append(min(diaries(tmp_path)))
            kill(killed[0])

    outcome = play(
        kind="signed",
        path=str(tmp_path),
        workers=4,
        processes=2,
        retries=1,
        watch=on_record,
        **EPISODES,
    )
    assert outcome == play(kind="dreamy", workers=0, **EPISODES)
    found = diaries(tmp_path)
    (dead,) = killed
    assert "close" not in found.pop(dead)
    assert found
    for lines in found.values():
        begun = told(lines, "start")
        assert len(begun) == len(set(begun))
        assert begun == told(lines, "finish")


@pytest.mark.parametrize(
    ("what", "status"),
    [("raises", "policy_error"), ("exits", "worker_died"), ("hangs", "timeout")],
)
def test_a_policy_costs_the_episode_that_it_fails_for(what, status):
    outcome = play(
        kind="faulty",
        what=what,
        workers=4,
        processes=2,
        limits=SHORT if what == "hangs" else PATIENT,
        **FOUR,
    )
    sound = play(kind="plain", workers=0, **FOUR)
    assert outcome.only(lambda r: r.seed % 2 == 0) == sound.only(lambda r: r.seed % 2 == 0)
    failed = [record for record in outcome.records if record.seed % 2]
    assert {record.status for record in failed} == {status}
    for record in failed:
        assert re.search("^acting of the policy in process [01]: ", record.error.message)


def test_a_policy_that_wants_to_be_in_the_workers():
    outcome = play(kind="dreamy", placement="worker", workers=4, processes=2, **EPISODES)
    assert outcome == play(kind="dreamy", workers=0, **EPISODES)
    assert outcome.engine.runners.facts.placement == "worker"


def test_processes_that_declare_different_things():
    """A policy whose batch follows from the GPU would give records that depend on it."""
    with pytest.raises(RunAborted, match="the policy declares something else than before"):
        play(kind="undecided", workers=2, devices=("1", "2"), **EPISODES)


def test_each_process_has_a_log(tmp_path):
    play(kind="signed", path=str(tmp_path / "d"), workers=2, processes=2, logs=tmp_path, **EPISODES)
    for number in range(2):
        assert (tmp_path / f"policy-{number}.log").read_text().startswith("made in ")


# Whole runs

QUESTION = ("--suite", "all", "--episodes", 4, "--workers", 3)
NOISY = f"{RUN_WALKERS}:noisy"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    out = tmp_path_factory.mktemp("reference") / "run"
    evaluate(str(WALK), NOISY, suites="all", episodes=4, workers=0, out=out)
    return outcomes(out)


def test_a_run_records_its_processes_and_is_resumed_with_another_number(tmp_path, reference):
    out = tmp_path / "run"
    asked = (*QUESTION, "--policy-processes", 2, "--out", out)
    answer = envhub("eval", WALK, "--policy", NOISY, *asked)
    assert answer.code == 0
    assert "The policy runs in 2 processes.\n" in answer.err
    assert outcomes(out) == reference
    begun = json.loads((out / "run.json").read_text())
    assert begun["policy"]["processes"] == [None, None]
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:3]))
    answer = envhub("eval", "--resume", out, "--policy-processes", 3)
    assert (answer.code, "in 3 processes" in answer.err) == (0, True)
    assert outcomes(out) == reference
    (out / "episodes.jsonl").write_text("".join(lines[:3]))
    answer = envhub("eval", "--resume", out)
    assert (answer.code, "in 2 processes" in answer.err) == (0, True)
    assert outcomes(out) == reference
    ended_as = json.loads((out / "run.json").read_text())
    assert ended_as["policy"]["processes"] == [None, None]
    assert ended_as["protocol"] == begun["protocol"]


def test_an_interrupt_ends_all_processes(tmp_path, reference):
    out, gate = tmp_path / "run", tmp_path / "gate"
    gate.mkdir()
    for name in ("near.1", "back.1", "far.1"):  # where these episodes wait in their resets
        (gate / name).touch()
    asked = (*QUESTION, "--env-arg", f"gate={gate}", "--policy-processes", 2, "--out", out)
    with ending(start("eval", WALK, "--policy", NOISY, *asked)) as command:
        wait_until(lambda: len(list(gate.glob("*.waiting"))) == 3)
        below = descendants(command.pid)
        assert sum(" policy " in line for _, line in below.values()) >= 2
        command.send_signal(signal.SIGINT)
        while "Finishing" not in command.stderr.readline():
            pass
        command.send_signal(signal.SIGINT)
        answer = ended(command)
    assert (answer.code, counted(out)) == (130, 3)
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    for name in gate.glob("*.1"):
        name.unlink()
    assert envhub("eval", "--resume", out).code == 0
    assert outcomes(out) == reference


class Still:
    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


@pytest.mark.parametrize(
    ("policy", "more", "said"),
    [
        (Still(), {}, "--policy-processes is for .*; this one is an object of this program"),
        ("random", {}, "--policy-processes is for .*; this one runs where the benchmark does"),
        (NOISY, {"workers": 0}, "--policy-processes: --workers 0 runs everything in this process"),
    ],
)
@pytest.mark.parametrize("processes", [2, "auto"])
def test_policies_without_a_process(tmp_path, policy, more, said, processes):
    with pytest.raises(UsageError, match=said):
        evaluate(str(WALK), policy, policy_processes=processes, out=tmp_path / "run", **more)


def test_baselines_have_no_processes_of_their_own(tmp_path):
    run = evaluate(
        *(str(WALK), NOISY), tasks="near", episodes=2, workers=2, policy_processes=2,
        policy_python=sys.executable, baselines="zero", out=tmp_path / "run",
    )  # fmt: skip
    assert (run.directory / "baselines" / "zero" / "summary.json").exists()
