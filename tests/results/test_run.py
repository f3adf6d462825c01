"""A run, as programs see it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.journals import failed, record
from support.run_json import MANIFEST

import envhub
from envhub import Run, open_run
from envhub.errors import RunDirectoryError
from envhub.results.journal import Journal, write_json
from envhub.results.summary import summarize

SUITES = {"short": ["near", "back"], "long": ["far", "near"]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    task = {"horizon": 5, "success": "once", "init_states": 0}
    tasks = dict.fromkeys(("near", "back", "far"), task)
    info = {
        **MANIFEST,
        "plan": {**MANIFEST["plan"], "suites": SUITES, "seed": 7, "tasks": tasks},
        "benchmark": {**MANIFEST["benchmark"], "ref": "./<b>walk"},
        "policy": {**MANIFEST["policy"], "ref": "./steer.py"},
        "protocol": "sha256:" + "0" * 64,
    }
    write_json(tmp_path / "run.json", info)
    return tmp_path


def append(directory: Path, *records: tuple[str, int]) -> None:
    journal = Journal(directory)
    for task, episode in records:
        suite = next(suite for suite, tasks in SUITES.items() if task in tasks)
        journal.append(record(episode, suite=suite, task=task), None)
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
    journal.append(replace(failed(1), suite="short", task="back"), None)
    journal.close()
    assert open_run(directory).complete


def test_the_summary_is_that_of_the_records(directory):
    append(directory, ("far", 1), ("near", 1))
    run = open_run(directory)
    assert run.summary() == summarize(run.records(), SUITES, run.run_info.plan.seed_groups)
    assert (run.summary().overall.n, run.summary().overall.n_tasks) == (2, 2)


def test_it_is_opened_by_text_and_by_path(directory):
    assert envhub.open_run(str(directory)) == envhub.open_run(directory)
    assert open_run(directory).info == json.loads((directory / "run.json").read_text())


def test_there_is_no_run(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"is not a run: it has no run\.json\. `envhub"):
        open_run(tmp_path)


def test_it_is_one_line_to_a_python_prompt(directory):
    append(directory, ("far", 1))
    assert repr(open_run(directory)) == (
        f"<Run {directory}: ./<b>walk, policy ./steer.py, 6 episodes planned>"
    )


def test_its_summary_prints_as_the_table(directory):
    append(directory, ("far", 1), ("near", 1))
    lines = str(open_run(directory).summary()).splitlines()
    assert lines[0].split()[:1] == ["success"]
    assert lines[-1].startswith("overall")


def test_a_notebook_shows_the_table(directory):
    append(directory, ("far", 1), ("near", 1))
    shown = open_run(directory)._repr_html_()
    assert "./&lt;b&gt;walk, policy ./steer.py, incomplete: 2 of 6 episodes" in shown
    assert "<td>long/far</td>" in shown
    assert "<td>overall</td>" in shown
    assert "<script" not in shown
    assert "<b>" not in shown


def test_a_notebook_shows_no_more_than_60_tasks(directory):
    content = json.loads((directory / "run.json").read_text())
    tasks = [f"{'long-' * 30}{index}" for index in range(100)]
    fixed = content["plan"]["tasks"]["near"]
    content["plan"] |= {"suites": {"s": tasks}, "tasks": dict.fromkeys(tasks, fixed)}
    write_json(directory / "run.json", content)
    shown = open_run(directory)._repr_html_()
    assert shown.count("<tr>") == 62  # with the head, and overall
    assert "and 40 more tasks" in shown
    assert len(shown) < 60 * 1024


def test_a_data_frame_has_a_row_for_each_record(directory):
    pandas = pytest.importorskip("pandas")
    append(directory, ("far", 1), ("near", 1))
    journal = Journal(directory)
    journal.append(replace(failed(1), suite="short", task="back"), None)
    journal.close()
    run = open_run(directory)
    frame = run.to_pandas()
    assert list(frame.columns) == [
        *("suite", "task", "episode", "seed", "init_state", "status", "success", "success_step"),
        *("end", "return", "steps", "out_of_bounds", "trace", "seconds", "attempts"),
        *("error_where", "error_type", "error_message", "error_step"),
    ]
    assert list(frame["task"]) == ["near", "back", "far"]
    assert frame["success"].dtype == "boolean"
    assert frame["success"].isna().tolist() == [one.success is None for one in run.records()]
    assert frame["error_type"][1] == run.records()[1].error.type
    assert isinstance(frame, pandas.DataFrame)


def test_a_data_frame_needs_pandas(directory, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(envhub.UsageError, match=r"^to_pandas needs pandas: pip install pandas$"):
        open_run(directory).to_pandas()
