"""What each change of a suite costs: the table by dimension."""

import json

import pytest
from support.manifests import INFO, write_run

from envhub.cli.show import show_run
from envhub.errors import RunDirectoryError
from envhub.results.compare import compare
from envhub.results.dimensions import compare_dimensions, render, to_json
from envhub.results.report import page
from envhub.results.run import open_run

TASK = INFO["plan"]["tasks"]["near"]
TASKS = {"near": {}, "far": {}, "near-dark": {"seeds_of": "near"}, "far-dark": {"seeds_of": "far"}}
NEAR, FAR = "1111111110", "1111110000"
NEAR_DARK, FAR_DARK = "1111100000", "0000000000"


def declare(info):
    info["plan"] |= {
        "suites": {"plain": ["near", "far"], "dark": ["near-dark", "far-dark"]},
        "dimensions": {"dark": ["plain", "light"]},
        "tasks": {name: TASK | more for name, more in TASKS.items()},
    }


def without(name, key="suites"):
    def change(info):
        declare(info)
        for task in info["plan"]["suites"].pop(name):
            del info["plan"]["tasks"][task]

    return change


@pytest.fixture
def run(make_run):
    played = {"near-dark": NEAR_DARK, "far-dark": FAR_DARK}
    return open_run(make_run("run", declare, near=NEAR, far=FAR, **played))


def test_a_changed_suite_is_held_against_the_one_it_was_made_from(run, make_run):
    found = compare_dimensions(run)
    (dark,) = found.changed
    assert (dark.base, dark.change, dark.line.rate) == ("plain", "light", 0.25)
    assert found.bases["plain"].rate == 0.75
    assert found.missing == []
    # As independent runs of the same tasks are compared.
    a = make_run("a", near=NEAR, far=FAR)
    b = make_run("b", near=NEAR_DARK, far=FAR_DARK)
    assert dark.compared == compare(a, b, paired=False)
    assert dark.compared.difference == -0.5
    assert dark.compared.ci_high < -0.2


def begin(run, *, dark, leaves=None, only=None):
    """Give every episode a first observation: that of its index, or in the dark another one."""
    file = run.directory / "episodes.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        other = record["task"].endswith("-dark") and only in (None, record["episode"])
        seen = f"{dark if other else 'seen'} {record['episode']}"
        record |= {"first_observation": seen, "first_leaves": leaves}
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return open_run(run.directory)


def test_episodes_that_began_alike_are_exact_pairs(run, make_run):
    (dark,) = compare_dimensions(begin(run, dark="seen")).changed
    a = make_run("a", near=NEAR, far=FAR)
    b = make_run("b", near=NEAR_DARK, far=FAR_DARK)
    assert dark.compared == compare(a, b)
    assert (dark.compared.paired, dark.compared.only_a, dark.compared.only_b) == (True, 10, 0)
    assert dark.between.endswith("] (=)")


@pytest.mark.parametrize(
    "change",
    [
        {"dark": "other"},
        {"dark": "other", "only": 9},
        {"dark": "seen", "leaves": []},  # nothing was seen: the hash of the state's number
    ],
)
def test_episodes_that_began_otherwise_are_not(run, change):
    (dark,) = compare_dimensions(begin(run, **change)).changed
    assert (dark.compared.paired, dark.between.endswith("]")) == (False, True)


def test_the_table(run):
    assert render(compare_dimensions(run)).splitlines()[:4] == [
        "by what was changed  success  95 % interval  points   95 % interval",
        "───────────────────────────────────────────────────────────────────",
        "plain                  75.0%  53.8% - 88.5%",
        "  light                25.0%  12.4% - 43.9%   -50.0  [-68.5, -21.6]",
    ]


def test_the_table_in_a_narrow_terminal(run):
    narrow = render(compare_dimensions(run), width=60).splitlines()
    assert narrow[3] == "  light                25.0%   -50.0  [-68.5, -21.6]"
    assert max(map(len, narrow[:4])) <= 60


def test_what_a_suite_was_made_from_was_not_played(make_run):
    dark = {"near-dark": NEAR_DARK, "far-dark": FAR_DARK}
    found = compare_dimensions(open_run(make_run("run", without("plain"), **dark)))
    assert (found.bases, found.changed[0].compared) == ({"plain": None}, None)
    shown = render(found)
    assert "\nplain (not played)         -              -" in shown
    assert "\n  light                25.0%  12.4% - 43.9%" in shown
    assert shown.endswith("\nPoints are missing; play also: --suite plain")
    assert to_json(found)[0]["compared"] is None


def test_a_part_of_the_tasks(make_run):
    """The rates of the suites are over what was played; the difference is over what both have."""

    def part(info):
        declare(info)
        info["plan"]["suites"]["plain"] = ["near"]
        del info["plan"]["tasks"]["far"]

    dark = {"near-dark": NEAR_DARK, "far-dark": FAR_DARK}
    (found,) = compare_dimensions(open_run(make_run("run", part, near=NEAR, **dark))).changed
    assert [task.task for task in found.compared.tasks] == ["near"]
    assert (found.line.rate, found.compared.difference) == (0.25, pytest.approx(-0.4))


def test_without_episodes_or_success(make_run):
    begun = compare_dimensions(open_run(make_run("begun", declare)))
    assert (begun.changed[0].line.rate, begun.changed[0].compared) == (None, None)
    assert "\n  light                    -              -" in render(begun)


def test_a_run_without_changed_suites_has_no_table(make_run, capsys):
    found = compare_dimensions(open_run(make_run("run", near="10")))
    assert (found.changed, render(found), to_json(found)) == ((), "", [])


def test_show_and_the_page_have_the_table(run, capsys):
    show_run(run, as_json=False)
    assert render(compare_dimensions(run)) in capsys.readouterr().out
    show_run(run, as_json=True)
    (dark,) = json.loads(capsys.readouterr().out)["dimensions"]
    assert {key: dark[key] for key in ("suite", "base", "change", "n", "rate")} == {
        "suite": "dark", "base": "plain", "change": "light", "n": 20, "rate": 0.25,
    }  # fmt: skip
    assert dark["compared"]["difference"] == -0.5
    written = page.render(run)
    for text in ("Success by what was changed", ">light <small>", ">-50.0<", "[-68.5, -21.6]"):
        assert text in written


@pytest.mark.parametrize(
    "dimensions", [{"gone": ["plain", "light"]}, {"dark": ["plain", "<b>"]}, {"dark": ["plain"]}]
)
def test_a_run_that_names_what_there_cannot_be(tmp_path, dimensions):
    def change(info):
        declare(info)
        info["plan"]["dimensions"] = dimensions

    with pytest.raises(RunDirectoryError):
        open_run(write_run(tmp_path / "run", change))
