"""A run, as programs see it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.journals import failed, record

import envhub
from envhub import Run, open_run
from envhub.errors import RunDirectoryError
from envhub.results.journal import Journal, write_json
from envhub.results.summary import summarize

SUITES = {"short": ["near", "back"], "long": ["far", "near"]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    plan = {"suites": SUITES, "episodes": 2}
    write_json(tmp_path / "run.json", {"format": 1, "plan": plan})
    return tmp_path


def append(directory: Path, *records: tuple[str, int]) -> None:
    journal = Journal(directory)
    for task, episode in records:
        journal.append(record(episode, task=task), None)
    journal.close()


def keys(run: Run) -> list[tuple[str, int, int]]:
    return [(one.task, one.episode, one.number) for one in run.records()]


def test_records_come_in_the_order_of_the_plan(directory):
    append(directory, ("far", 1), ("near", 1), ("back", 0), ("near", 0))
    run = open_run(directory)
    assert keys(run) == [("near", 0, 0), ("near", 1, 1), ("back", 0, 2), ("far", 1, 5)]
    assert run.suites == SUITES


def test_a_run_is_read_anew_as_it_grows(directory):
    run = open_run(directory)
    assert (run.records(), run.complete) == ((), False)
    append(directory, *((task, index) for task in ("near", "far") for index in (0, 1)))
    append(directory, ("back", 0))
    assert (len(run.records()), run.complete) == (5, False)
    append(directory, ("back", 1))
    assert (len(run.records()), run.complete) == (6, True)


def test_an_errored_episode_has_a_record_too(directory):
    append(directory, *((task, index) for task in ("near", "far") for index in (0, 1)))
    append(directory, ("back", 0))
    journal = Journal(directory)
    journal.append(replace(failed(1), task="back"), None)
    journal.close()
    assert open_run(directory).complete


def test_the_summary_is_that_of_the_records(directory):
    append(directory, ("far", 1), ("near", 1))
    run = open_run(directory)
    assert run.summary() == summarize(run.records(), SUITES)
    assert (run.summary().overall.n, run.summary().overall.n_tasks) == (2, 2)


def test_it_is_opened_by_text_and_by_path(directory):
    assert envhub.open_run(str(directory)) == envhub.open_run(directory)
    assert open_run(directory).info == json.loads((directory / "run.json").read_text())


def test_there_is_no_run(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"is not a run: it has no run\.json\.$"):
        open_run(tmp_path)
