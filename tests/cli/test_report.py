"""`envhub report`: a page about a run."""

import json

import pytest
from support.manifests import write_run
from support.run_tools import Answer, envhub


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
