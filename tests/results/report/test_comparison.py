"""The page about two runs."""

import re

import pytest

from envhub.errors import UsageError
from envhub.results.report.comparison import render_comparison
from envhub.results.report.page import report
from envhub.results.run import open_run


@pytest.fixture
def runs(make_run):
    def named(info):
        info["policy"]["ref"] = "<b>mine"

    return (
        open_run(make_run("a", near="0000000011", far="1")),
        open_run(make_run("b", named, near="1111111111", far="1e")),
    )


def test_both_strips_and_the_conclusion(runs, tmp_path):
    text = render_comparison(*runs, tmp_path / "page.html")
    assert "<b>" not in text
    assert "&lt;b&gt;mine" in text
    assert "B is better than A by 40.0 points [" in text
    assert text.count('data-task="near"') == 2
    assert "2 of 10 succeeded; failed: 0, 1, 2, 3, 4, 5, 6, 7." in text
    assert "10 of 10 succeeded." in text
    assert "9 pairs do not count" in text
    assert re.search(r"script-src &#39;sha256-[^&]+&#39;;", text), "its own script alone"
    assert re.findall(r"<strong>([^<]+)</strong>", text) == ["60.0%", "100.0%", "+40.0"]
    assert "mean over 2 tasks" in text
    order = re.findall(r'data-name="(\w+)" data-difference="([^"]+)"', text)
    assert order == [("near", "0.8"), ("far", "0.0")]


def test_files(runs, tmp_path):
    a, b = runs
    assert report(a, other=b) == b.directory / "comparison.html"
    assert 'href="../a/report.html"' not in (b.directory / "comparison.html").read_text()
    report(a)
    out = report(a.directory, tmp_path / "page.html", other=b.directory)
    assert 'href="a/report.html"' in out.read_text()


def test_runs_that_played_other_episodes(make_run, runs, tmp_path):
    def seeded(info):
        info["plan"]["seed"] = 5

    other = make_run("c", seeded)
    with pytest.raises(UsageError, match=r"differ in --seed \(0, 5\)"):
        report(runs[0], tmp_path / "page.html", other=other)
