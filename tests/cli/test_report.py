"""`envhub report`: a page about a run."""

import json

import pytest
from support.manifests import write_run
from support.replays import copy_recorded, make_recorded
from support.run_tools import Answer, envhub

from envhub.results.seal import key_path


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", near="110p", far="0000")


def test_it_prints_where_the_page_is(run):
    assert envhub("report", run) == Answer(0, f"{run}/report.html\n", "")
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_json_and_another_file(run, tmp_path):
    out = tmp_path / "a b.html"
    answer = envhub("report", run, "--out", out, "--json")
    assert json.loads(answer.out) == {"report": str(out), "bytes": out.stat().st_size}
    assert not (run / "report.html").exists()


def test_a_browser_that_is_not_there(run):
    answer = envhub("report", run, "--open", PATH="/nonexistent", BROWSER="/nonexistent/browser")
    assert answer.code == 0
    assert (
        answer.err == f"No browser was found here: open {(run / 'report.html').as_uri()} in one.\n"
    )


def test_where_there_is_no_run(tmp_path):
    answer = envhub("report", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"envhub: {tmp_path} is not a run: it has no run.json. ")


def test_a_file_that_cannot_be_written(run):
    answer = envhub("report", run, "--out", run / "missing" / "x.html")
    assert (answer.code, answer.out) == (2, "")
    assert "The report cannot be written to" in answer.err
    assert "--out" in answer.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_recorded(tmp_path_factory.mktemp("made") / "run", tasks="at-end,once", episodes=2)


@pytest.fixture
def recorded(made, tmp_path):
    return copy_recorded(made, tmp_path / "recorded").directory


def drawn(count):
    return f"Drawing {count} videos. Ctrl-C stops it.\n{count} of {count} videos drawn\n"


class TestVideos:
    """VideoProgress from recorded actions, and shown in the page."""

    def test_some(self, recorded):
        answer = envhub("report", recorded, "--videos", "some", "--workers", 2)
        count = len(list((recorded / "videos").glob("*.mp4")))
        assert answer == Answer(0, f"{recorded}/report.html\n", drawn(count))
        assert 2 <= count <= 4
        assert (recorded / "report.html").read_text().count("data-episode=") == count
        again = envhub("report", recorded, "--videos", "some")
        assert again == Answer(0, f"{recorded}/report.html\n", "")

    def test_one_and_where_the_page_is(self, recorded, tmp_path):
        out = tmp_path / "page.html"
        answer = envhub("report", recorded, "--videos", "once:1", "--every", 2, "--out", out)
        assert (answer.code, answer.out) == (0, f"{out}\n")
        assert 'href="recorded/videos/3.mp4"' in out.read_text()

    def test_an_env_that_draws_nothing(self, tmp_path):
        env_args = {"picture": "none"}
        run = make_recorded(tmp_path / "blind", tasks="once", episodes=1, env_args=env_args)
        answer = envhub("report", run.directory, "--videos", "all")
        assert (answer.code, answer.out) == (0, f"{run.directory}/report.html\n")
        assert "\n1 of 1 videos could not be drawn, the first, of once:0: " in answer.err

    def test_without_pyav(self, recorded, tmp_path):
        (tmp_path / "shadow").mkdir()
        (tmp_path / "shadow" / "av.py").write_text("raise ImportError('none here')")
        shadow = str(tmp_path / "shadow")
        answer = envhub("report", recorded, "--videos", "some", PYTHONPATH=shadow)
        assert (answer.code, answer.out) == (5, "")
        assert answer.err == "envhub: Videos need PyAV: pip install av\n"
        assert envhub("report", recorded, PYTHONPATH=shadow).code == 0
        out = ("--workers", 1, "--out", tmp_path / "new", "--video", 1)
        answer = envhub("eval", "./replayed", "--policy", "zero", *out, PYTHONPATH=shadow)
        assert answer.code == 5
        assert not (tmp_path / "new").exists(), "it is said before anything is played"

    def test_a_run_of_somebody_else_is_shown_but_not_run(self, recorded):
        key_path().unlink()
        assert envhub("report", recorded).code == 0
        answer = envhub("report", recorded, "--videos", "some")
        assert answer.code == 2
        assert "does not carry your seal" in answer.err
        assert envhub("report", recorded, "--videos", "some", "--benchmark", "./replayed").code == 0

    def test_at_the_end_of_eval(self, tmp_path):
        out = tmp_path / "run"
        words = ("--task", "at-end,once", "--episodes", 2, "--workers", 1, "--out", out)
        answer = envhub("eval", "./replayed", "--policy", "zero", *words, "--video", 3)
        assert answer.code == 0
        assert answer.err.endswith(f"{drawn(3)}Report: {out}/report.html\n")
        assert len(list((out / "videos").glob("*.mp4"))) == 3
        assert (out / "report.html").read_text().count("data-episode=") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--videos", "near:99"), "has no episode near:99"),
        (("--videos", "many"), "'many' is not an episode: write TASK:K"),
        (("--every", "0"), "'--every'"),
        (("--env-arg", "a=1"), "--env-arg needs --benchmark"),
    ],
)
def test_wrong_options(run, words, said):
    answer = envhub("report", run, *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_two_runs_and_a_directory_of_runs(run, tmp_path):
    other = write_run(tmp_path / "other", near="1111", far="0000")
    answer = envhub("report", run, other)
    assert answer == Answer(0, f"{other}/comparison.html\n", "")
    assert "compared with" in (other / "comparison.html").read_text()
    assert envhub("report", tmp_path).out == f"{tmp_path}/report.html\n"
    assert "<h1>2 runs</h1>" in (tmp_path / "report.html").read_text()
    for words in ((run, other), (tmp_path,)):
        answer = envhub("report", *words, "--videos", "some")
        assert (answer.code, answer.out) == (2, "")
        assert "--videos draws the episodes of one run" in answer.err
