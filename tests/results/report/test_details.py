"""Videos, curves and tracebacks: what is shown of single episodes."""

import json

import numpy as np
import pytest
from support.forgery import save_arrays

from envhub.results.arrays import STEP
from envhub.results.report.content import content
from envhub.results.report.details import curves, thin, tracebacks, videos
from envhub.results.report.page import render, report
from envhub.results.run import open_run
from envhub.results.videos import VideoFacts, keep_facts, keep_video


@pytest.fixture
def run(make_run):
    run = open_run(make_run("run", near="110p", far="1"))
    for record in run.records():
        steps = np.zeros(3, STEP)
        steps["reward"] = (0.0, 2.0, 1.0)
        actions = np.asarray([[0.0, 2.0], [2.0, 2.0], [4.0, 2.0]])
        save_arrays(run.directory, record.number, actions, steps)
    return run


def filmed(run, *numbers, difference=None):
    for number in numbers:
        keep_video(run, number, b"film")
    keep_facts(run, {number: VideoFacts("sha256:0", 1, difference) for number in numbers})
    return run


def test_videos_are_found_from_where_the_page_is(run, tmp_path):
    filmed(run, 1, 10, difference=41)
    found = videos(run, run.records(), run.directory / "report.html")
    assert found == {
        "near": {"1": ["videos/1.mp4", 41, 1]},
        "far": {"0": ["videos/10.mp4", 41, 1]},
    }
    elsewhere = videos(run, run.records(), tmp_path / "other" / "page.html")
    assert elsewhere["near"]["1"] == ["../run/videos/1.mp4", 41, 1]


def test_curves_of_failures_and_of_filmed_episodes(run):
    rewards, actions = (0.0, 2.0, ["0_W"]), (0.0, 4.0, ["0W_", "WWW"])
    assert curves(run, run.records(), {}) == {
        "near": {"2": [rewards, actions], "3": [rewards, actions]}
    }
    assert "far" in curves(run, run.records(), {"far": {"0": ["x", 0, 1]}})
    (run.directory / "actions" / "2.npy").write_bytes(b"damaged")
    assert set(curves(run, run.records(), {})["near"]) == {"3"}


@pytest.mark.parametrize(
    ("row", "low", "high", "count"),
    [
        ([1.0, 1.0], 1.0, 1.0, 2),
        (range(500), 0.0, 499.0, 64),
        ([1e200, -1e200], -1e200, 1e200, 2),
        ([1.7e308, -1.7e308], -1.7e308, 1.7e308, 2),
        ([float("nan"), 1.0], 0.0, 1.0, 2),
        ([float("-inf"), 0.0], -1.798e308, 0.0, 2),
    ],
)
def test_thinning(row, low, high, count):
    found = thin(np.asarray([row], float))
    assert found[:2] == (low, high)
    assert [len(line) for line in found[2]] == [count]
    assert json.loads(json.dumps(found)) == [low, high, found[2]]


def test_thinning_keeps_the_ends_and_one_scale_for_all_rows():
    low, high, (first, second) = thin(np.asarray([[0.0] * 200 + [5.0], [10.0] * 201]))
    assert (low, high) == (0.0, 10.0)
    assert (first[0], first[-1], set(second)) == ("0", "W", {"_"})


def test_tracebacks(make_run):
    run = open_run(make_run("raised", near="p1p"))
    path = run.directory / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["error"]["traceback"] = "x" * 5000 + "the end\n"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = tracebacks(run.records(), {})
    assert set(found["near"]) == {"0"}
    assert len(found["near"]["0"]) == 2000
    assert found["near"]["0"].endswith("xthe end")


def test_the_page_lists_videos_without_a_script(run):
    assert content(run)["videos"] == []
    assert '<h2 id="videos">' not in render(run)
    filmed(run, 2)
    assert content(run)["videos"] == [
        {"task": "near", "episode": 2, "kind": "failure", "file": "videos/2.mp4"}
    ]
    assert '<a href="videos/2.mp4" data-task="near" data-episode="2">' in render(run)


def test_a_page_elsewhere(run, tmp_path):
    (tmp_path / "a b").mkdir()
    text = report(filmed(run, 2), tmp_path / "a b" / "page.html").read_text()
    assert '<a href="../run/videos/2.mp4"' in text


def test_curves_of_many_failures_stay_within_the_budget(make_run):
    def many(info):
        info["plan"]["episodes"] = 1000

    run = open_run(make_run("many", many, near="0" * 1000))
    steps = np.zeros(300, STEP)
    steps["reward"] = np.random.default_rng(0).normal(size=300)
    for number in range(1000):
        save_arrays(run.directory, number, np.zeros((300, 7)), steps)
    found = curves(run, run.records(), {})
    assert 80 < len(found["near"]) < 250
    assert len(json.dumps(found, separators=(",", ":"))) < 80_000
