"""`envhub check`, thoroughly: the whole zoo in workers, LIBERO, and simulators of other people."""

import re

import pytest
from support import libero_setup as libero
from support.needs import needs_egl, needs_index, needs_libero, needs_sandbox
from support.paths import DOCS
from support.simulators import SIMULATORS
from support.zoo import GOOD, INLINE, PROCESSES, ZOO, check, failures

from envhub.testing import check_benchmark

pytestmark = pytest.mark.soak

PAGE = (DOCS / "checks.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## What it finds elsewhere")[2]
FOUND = dict(re.findall(r"^\| (\w+) \| (`.*`) \|$", SECTION, re.MULTILINE))
"""The checks that fail, by the name of the env file."""
LOADED = {"loads", "env-made", "reset-works", "step-works"}


@needs_sandbox
def test_the_whole_zoo_in_workers():
    answer = check(ZOO, "--task", ",".join((*GOOD, *INLINE, *PROCESSES)))[1]
    found = {task: failures(answer, task) for task in answer["tasks"]}
    broken = {name: [name] for name in (*INLINE, *PROCESSES)}
    assert found == {**broken, **{name: [] for name in GOOD}}


@needs_egl
@needs_libero
def test_libero_passes_without_a_waiver(monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))
    report = check_benchmark("libero", quick=True, env_args={"assets": str(libero.assets())})
    assert [str(result) for result in report.failures] == []
    assert report.count("passed") > 50


@needs_egl
@needs_index
@pytest.mark.parametrize("name", sorted(FOUND))
def test_simulators_of_other_people_end_with_the_report_that_the_page_shows(name):
    report = check_benchmark(SIMULATORS / name, quick=True)
    assert {check for check in LOADED if report.status(check) != "passed"} == set(), report.failures
    assert report.count("passed") > 30
    found = {result.check.name for result in report.failures}
    assert sorted(found) == sorted(FOUND[name].strip("`").split("`, `"))
