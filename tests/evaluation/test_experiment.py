"""Whole experiments: their runs are those of single commands, whatever happens in between."""

import json
import os
import shlex
import signal
import time
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from support.processes import descendants, wait_until
from support.run_tools import WALK, WALKERS, counted, ended, envhub, outcomes, snapshot, start

from envhub import experiment
from envhub.errors import UsageError
from envhub.results.experiment import open_experiment

FILE = f"""
baseline = "expert"
seeds = [0, 50]

[options]
retries = 0
seeding = "shared"

[policies]
expert = "expert"
noisy = "{WALKERS}:noisy_chunked"

[benchmarks.walk]
ref = "{WALK}"
tasks = ["near", "far"]
episodes = 3
env_args = {{pause = 0.01}}
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "sweep.toml"
    path.write_text(dedent(text))
    return path


def records_of(directory: Path) -> dict[str, object]:
    return {place.name: outcomes(place) for place in sorted(directory.iterdir()) if place.is_dir()}


def test_killed_and_resumed_its_records_are_those_of_the_single_commands(tmp_path):
    path, out = write(tmp_path, FILE), tmp_path / "out"
    for wanted in (3, 14):
        command = start(
            *("eval", *(("--resume", out) if out.exists() else (path, "--out", out))),
            *("--workers", "2", "--quiet"),
        )
        wait_until(lambda: sum(map(counted, out.glob("*-seed*"))) >= wanted)  # noqa: B023
        os.kill(command.pid, signal.SIGKILL)
        ended(command)
    answer = envhub("eval", "--resume", out, "--workers", "2", "--json")
    assert answer.code == 0, answer
    matrix = json.loads(answer.out)
    assert [cell["complete"] for cell in matrix["cells"]] == [True] * 2
    assert {tuple(cell["seeds"]) for cell in matrix["cells"]} == {(0, 50)}

    single = tmp_path / "single"
    single.mkdir()
    for cell in open_experiment(out).cells[::3]:
        described = json.loads((out / "experiment.json").read_text())["cells"]
        line = next(each for each in described if each["directory"] == cell.directory.name)
        words = shlex.split(line["command"].split("&& ")[-1])[1:]
        assert envhub(*words, "--out", single / cell.directory.name, "--quiet").code == 0
    found, due = records_of(out), records_of(single)
    assert len(found) == 4
    assert {name: found[name] for name in due} == due
    for name in due:
        actions = [snapshot(place / name / "actions") for place in (out, single)]
        assert actions[0] == actions[1]
    before = snapshot(out)
    again = envhub("eval", path, "--out", out, "--continue", "--json", "--quiet")
    assert (again.code, json.loads(again.out)["cells"]) == (0, matrix["cells"])
    after = snapshot(out)
    assert {k: v for k, v in after.items() if "-seed" in k} == {
        k: v for k, v in before.items() if "-seed" in k
    }


def test_a_cell_that_cannot_be_played_costs_only_itself(tmp_path):
    path = write(
        tmp_path,
        f"""
        [policies]
        timid = "{WALKERS}"
        gone = "./gone.py"
        broken = "{WALKERS}:no_such_name"
        [benchmarks.near]
        ref = "{WALK}"
        tasks = ["near"]
        episodes = 1
        """,
    )
    out = tmp_path / "out"
    answer = envhub("eval", path, "--out", out, "--json")
    assert answer.code == 1, answer
    cells = {cell["policy"]: cell for cell in json.loads(answer.out)["cells"]}
    assert (cells["timid"]["recorded"], cells["gone"]["recorded"]) == (1, 0)
    assert "gone.py does not exist" in cells["gone"]["reason"]
    assert "no_such_name" in cells["broken"]["reason"]
    assert "gone on near, seed 0: " in answer.err
    refused = envhub("eval", path, "--out", out)
    assert (refused.code, refused.out) == (2, "")
    assert "Add --continue" in refused.err
    text = envhub("compare", out)
    assert "gone.py does not exist" in text.out
    assert text.code == 0


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (("[policies]", "[polcies]"), 2, "did you mean 'policies'"),
        ((f'ref = "{WALK}"', f'ref = "{WALK}"\nlatency = "fast"'), 2, "'fast' is no time"),
        ((f'ref = "{WALK}"', 'ref = "./nowhere"'), 2, "./nowhere does not exist"),
        ((f'ref = "{WALK}"', f'ref = "me/env@{"a" * 40}"'), 3, "--trust-remote-code"),
    ],
)
def test_what_is_wrong_or_not_trusted_starts_nothing(tmp_path, change, code, said):
    path = write(tmp_path, FILE.replace(*change))
    answer = envhub("eval", path, cwd=tmp_path)
    assert (answer.code, answer.out) == (code, ""), answer
    assert said in answer.err
    assert sorted(each.name for each in tmp_path.rglob("*") if each.is_file()) == ["sweep.toml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--episodes", "3"), "--episodes cannot be given with an experiment"),
        (("--policy", "zero"), "--policy cannot be given with an experiment"),
        (("--workers", "0"), "An experiment needs workers"),
        (("--continue",), "--continue needs the experiment's directory"),
    ],
)
def test_options_that_belong_in_the_file(tmp_path, words, said):
    answer = envhub("eval", write(tmp_path, FILE), *words, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, ""), answer
    assert said in answer.err


def test_ctrl_c_finishes_what_is_under_way_and_a_second_one_stops(tmp_path):
    gate = tmp_path / "gate"
    gate.mkdir()
    (gate / "near.1").touch()
    text = FILE.replace('["near", "far"]', '["near"]').replace("pause = 0.01", f'gate = "{gate}"')
    path, out = write(tmp_path, text), tmp_path / "out"
    command = start("eval", path, "--out", out, "--workers", "1", "--quiet")
    wait_until(lambda: (gate / "near.1.waiting").exists())
    command.send_signal(signal.SIGINT)
    assert "Finishing the episodes under way" in command.stderr.readline()
    (gate / "near.1").unlink()
    answer = ended(command)
    assert answer.code == 130, answer
    assert f"envhub eval --resume {out}" in answer.err
    assert sum(map(counted, out.glob("*-seed*"))) == 2
    (gate / "near.50").touch()
    command = start("eval", "--resume", out, "--workers", "1", "--quiet")
    wait_until(lambda: (gate / "near.50.waiting").exists())
    for _ in range(2):
        command.send_signal(signal.SIGINT)
        time.sleep(0.3)
    answer = ended(command)
    assert (answer.code, "Traceback" in answer.err) == (130, False), answer
    (gate / "near.50").unlink()
    assert envhub("eval", "--resume", out, "--workers", "2", "--json").code == 0
    assert not descendants(os.getpid())


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


def test_from_python_with_a_policy_object(tmp_path):
    said: list[str] = []
    path = write(
        tmp_path,
        f"""
        baseline = "zero"
        [policies]
        zero = "zero"
        still = "given"
        gone = "./gone.py"
        [benchmarks.near]
        ref = "{WALK}"
        tasks = ["near"]
        episodes = 2
        """,
    )
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match=r"gone on near, seed 0: .*gone\.py does not exist"):
        played = experiment(
            path, out=out, workers=2, objects={"still": Still()}, progress=said.append
        )
    assert [cell.policy for cell in played.runs] == ["zero", "still"]
    found = played.matrix()
    assert found.at(("still", None), "near").difference.difference == 0.0
    assert "zero on near, seed 0: ended" in said
    with pytest.raises(UsageError, match="Give resume=True"):
        experiment(path, out=out)
    with pytest.raises(UsageError, match="No policy is called 'stil'"):
        experiment(path, out=out, resume=True, objects={"stil": Still()})
    assert not descendants(os.getpid())


def test_a_dry_run_says_what_is_known_and_what_is_missing_and_plays_no_cell(tmp_path):
    commit = "a" * 40
    text = (
        FILE
        + f"""
        [benchmarks.hub]
        ref = "me/env@{commit}"
        [policies.gone]
        policy = "./gone.py"
        """
    )
    path = write(tmp_path, text)
    answer = envhub("eval", path, "--dry-run", "--workers", "3", "--json", cwd=tmp_path)
    assert answer.code == 3, answer
    found = json.loads(answer.out)
    columns = {column["benchmark"]: column for column in found["columns"]}
    assert (found["cells"], found["workers"], found["episodes"]) == (12, 3, None)
    assert (columns["walk"]["episodes"], columns["hub"]["episodes"]) == (36, None)
    assert columns["walk"]["source"] == "from 2 probes with expert"
    assert columns["walk"]["seconds"] > 0
    assert commit in found["downloads"][0]
    assert "--trust-remote-code" in found["refused"][0]
    assert "gone.py does not exist" in found["problems"][0]
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["sweep.toml"]
    refused = envhub("eval", WALK, "--dry-run", cwd=tmp_path)
    assert (refused.code, "--dry-run is for experiments" in refused.err) == (2, True)


def test_a_run_becomes_the_file_of_an_experiment(tmp_path):
    words = ("--policy", f"{WALKERS}:noisy", "--task", "near", "--episodes", 1, "--seed", 5)
    more = ("--env-arg", "picture=gray", "--max-steps", 3, "--out", tmp_path / "run", "--quiet")
    assert envhub("eval", WALK, *words, *more).code == 0
    text = envhub("show", tmp_path / "run", "--toml").out
    answer = envhub("eval", write(tmp_path, text), "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer
    (cell,) = json.loads(answer.out)["cells"]
    assert outcomes(Path(cell["runs"][0])) == outcomes(tmp_path / "run")
    protocols = [
        json.loads((place / "run.json").read_text())["protocol"]
        for place in (tmp_path / "run", Path(cell["runs"][0]))
    ]
    assert protocols[0] == protocols[1]
