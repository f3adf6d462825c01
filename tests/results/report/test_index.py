"""The page about a directory of runs."""

import pytest

from envhub.results.report.index import holds_runs
from envhub.results.report.page import report


@pytest.fixture
def runs(make_run, tmp_path):
    def named(info):
        info["policy"]["ref"] = "<i>best"

    def other(info):
        info["runtime"]["packages"] = {"mujoco": "1.0"}
        info["protocol"] = "sha256:ffffffffffffff"

    make_run("weak", near="1000")
    make_run("strong", named, near="1111")
    make_run("another", other, near="1")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("[")
    (tmp_path / "nothing").mkdir()
    return tmp_path


def test_a_directory_is_a_matrix_with_its_runs(runs):
    report(runs / "weak")
    path = report(runs)
    text = path.read_text()
    assert path == runs / "report.html"
    assert text.count("<section") == 3
    assert '<h2 id="matrix">Success by policy and benchmark</h2>' in text
    assert "<strong>100.0%</strong>" in text
    assert "&lt;i&gt;best" in text
    assert '<a href="weak/report.html">weak</a>' in text
    assert "<h1>3 runs</h1>" in text
    assert "ffffffffffff" in text
    assert "broken/run.json is damaged" in text
    assert "<i>" not in text


def test_what_holds_runs(runs, tmp_path):
    assert holds_runs(runs)
    assert not holds_runs(runs / "weak")
    assert not holds_runs(runs / "nothing")
    assert not holds_runs(runs / "missing")
