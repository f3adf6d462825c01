"""`envhub replay`: a recorded episode, drawn."""

import json

import pytest
from support.forgery import load_arrays, save_arrays
from support.replays import copy_recorded, make_recorded
from support.run_tools import Answer, envhub

from envhub.results.run import open_run
from envhub.results.seal import key_path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_recorded(tmp_path_factory.mktemp("made") / "run", tasks="at-end", episodes=2)


@pytest.fixture
def run(made, tmp_path):
    return copy_recorded(made, tmp_path / "run").directory


def test_it_prints_where_the_video_is(run):
    assert envhub("replay", run, "at-end:1") == Answer(0, f"{run}/videos/1.mp4\n", "")
    assert (run / "videos" / "1.mp4").stat().st_size > 500


def test_json_and_a_picture(run, tmp_path):
    out = tmp_path / "a b.png"
    answer = envhub("replay", run, "--worst", "at-end", "--out", out, "--json")
    records = open_run(run).records()
    assert json.loads(answer.out) == {
        "task": "at-end",
        "episode": min(records, key=lambda r: (r.success, r.return_)).episode,
        "file": str(out),
        "frames": 2,
        "identical": True,
        "difference": None,
    }
    assert not (run / "videos").exists()


def test_an_episode_that_went_differently(run):
    actions, steps = load_arrays(run, 0)
    save_arrays(run, 0, -actions, steps)
    answer = envhub("replay", run, "at-end:0", "--every", 3)
    assert answer.code == 0
    assert answer.err == ("The replay went differently from step 1 on: envhub verify says more.\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("at-end",), 2, "'at-end' is not an episode: write TASK:K, such as at-end:0."),
        (("at-end:7",), 2, "has no episode at-end:7"),
        (("at-end:0", "--out", "x.gif"), 2, "--out x.gif must end in .mp4 or .png."),
        (("at-end:0", "--env-arg", "a=1"), 2, "--env-arg needs --benchmark"),
        (("at-end:0", "--every", "0"), 2, "'--every'"),
        ((), 2, "Name an episode as TASK:K, or give --failed or --worst."),
        (("--failed", "--worst"), 2, "--failed and --worst name two episodes"),
    ],
)
def test_wrong_commands(run, words, code, said):
    answer = envhub("replay", run, *words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def test_a_run_of_somebody_else(run):
    key_path().unlink()
    answer = envhub("replay", run, "at-end:0")
    assert answer.code == 2
    assert answer.err.endswith(f"Say yourself what to run: envhub replay {run} --benchmark REF\n")


def test_without_pyav(run, tmp_path):
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "av.py").write_text("raise ImportError('none here')")
    answer = envhub("replay", run, "at-end:0", PYTHONPATH=str(tmp_path / "shadow"))
    assert (answer.code, answer.out) == (5, "")
    assert answer.err == "envhub: Videos need PyAV: pip install av\n"
