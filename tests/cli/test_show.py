"""`envhub show`: a run that is there, printed again."""

import json
import os
from pathlib import Path

import click
import pytest
from support.episodes import won
from support.run_tools import WALKERS, Answer, envhub, snapshot

from envhub.cli.show import render
from envhub.results.summary import summarize


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """A run with an episode that the policy failed in, and what eval printed at its end."""
    out = tmp_path_factory.mktemp("shown") / "run"
    answer = envhub(
        *("eval", "./run_walk", "--task", "near", "--episodes", 2, "--retries", 0),
        *("--policy", f"{WALKERS}:fails", "--workers", 0, "--out", out),
    )
    assert answer.code == 1
    return out, answer


def test_it_prints_what_eval_printed(shown):
    out, answer = shown
    before = snapshot(out)
    assert envhub("show", out) == Answer(0, answer.out, answer.err)
    assert snapshot(out) == before


def test_json(shown):
    out, answer = shown
    again = envhub("show", out, "--json")
    assert (again.code, again.err) == (0, "")
    content = json.loads(again.out)
    assert (content["run"], content["complete"]) == (str(out), True)
    assert content["line"] in answer.out
    summary = json.loads((out / "summary.json").read_text())
    assert {key: content[key] for key in summary} == summary


def test_a_run_that_is_under_way(shown, tmp_path):
    """Its last line may be torn, and there is no summary yet."""
    for name in ("run.json", "episodes.jsonl"):
        (tmp_path / name).write_bytes((shown[0] / name).read_bytes())
    with (tmp_path / "episodes.jsonl").open("r+b") as file:
        file.truncate(os.fstat(file.fileno()).st_size - 1)
    content = json.loads(envhub("show", tmp_path, "--json").out)
    assert (content["complete"], content["overall"]["n"]) == (False, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episodes.jsonl", "run.json"]


def test_where_there_is_no_run(tmp_path):
    answer = envhub("show", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"envhub: {tmp_path} is not a run: it has no run.json. `envhub runs DIR` lists the runs in "
        "a directory.\n"
    )
    (tmp_path / "experiment.json").write_text("{}")
    said = f"envhub: {tmp_path} is an experiment, whose cells are runs: `envhub compare {tmp_path}`"
    assert envhub("show", tmp_path).err.startswith(said)


def test_requirements_for_ci(shown):
    out, _ = shown
    assert envhub("show", out, "--require", "policy_errors>=1", "--require", "n==2").code == 0
    answer = envhub("show", out, "--require", "rate>=2", "--require", "near.errors>0")
    assert answer.code == 1
    assert answer.err.endswith(
        "rate>=2 is not met: it is 0.5.\nnear.errors>0 is not met: it is 0.\n"
    )
    wrong = envhub("show", out, "--require", "rte>=2")
    assert (wrong.code, wrong.out) == (2, "")
    assert "rate" in wrong.err


def test_what_is_not_complete_meets_no_requirement(shown, tmp_path):
    for name in ("run.json", "episodes.jsonl"):
        (tmp_path / name).write_bytes((shown[0] / name).read_bytes())
    (tmp_path / "episodes.jsonl").write_text("")
    answer = envhub("show", tmp_path, "--require", "errors==0")
    assert (answer.code, answer.err) == (1, "The run is not complete.\n")


def test_requirements_of_a_new_run(tmp_path):
    words = ("eval", "./run_walk", "--task", "near", "--episodes", 1, "--policy", "zero")
    more = ("--workers", 0, "--max-steps", 2, "--out", tmp_path / "run", "--quiet")
    answer = envhub(*words, *more, "--require", "rate>=0.9")
    assert answer.code == 1
    assert answer.err.endswith("rate>=0.9 is not met: it is 0.\n")
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_requirement_on_what_is_not_played_ends_before_the_run(tmp_path):
    words = ("eval", "./run_walk", "--task", "near", "--policy", "zero", "--workers", 0, "--quiet")
    answer = envhub(*words, "--out", tmp_path / "run", "--require", "neer.rate>=0.9")
    assert (answer.code, answer.out) == (2, "")
    assert "near" in answer.err
    assert not (tmp_path / "run").exists()


def test_head_and_overall_stand_out_on_a_terminal():
    summary = summarize([won("a")], {"s": ["a"]})
    first, *_, last = render(summary).split("\n")
    assert first.startswith("\x1b[1m")
    assert last.startswith("\x1b[1m")
    assert click.unstyle(render(summary)) == str(summary)
