"""`envhub runs`: which runs there are."""

import json
import re
from pathlib import Path

import pytest
from support.journals import record
from support.run_json import MANIFEST, changed, without
from support.run_tools import Answer, envhub, snapshot

from envhub.results.journal import Journal, write_json


def make(directory: Path, manifest: dict = MANIFEST, episodes: int = 0) -> None:
    """A run's directory with so many records, of which the first is a success."""
    directory.mkdir(parents=True)
    write_json(directory / "run.json", manifest)
    journal = Journal(directory)
    for number in range(episodes):
        suite, task, index = (
            ("short", "near", number) if number < 2 else ("long", "far", number - 2)
        )
        one = record(index, suite=suite, task=task, seed=index, success=number == 0)
        journal.append(one, None)
    journal.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(tmp_path / "runs" / "walk-late", changed("created", "2026-02-01T12:00:00+00:00"), 4)
    make(tmp_path / "runs" / "walk-early", changed("policy.args", {"noise": 0.5}), 3)
    make(tmp_path / "runs" / "walk-unplayed", changed("created", "2026-03-01T12:00:00+00:00"))
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "file").touch()
    return tmp_path


def test_three_lines_for_each_the_oldest_first(place):
    before = snapshot(place)
    answer = envhub("runs", cwd=place, TZ="UTC")
    assert answer == Answer(
        0,
        "2026-01-01 12:00   25.0%  [0.0, 99.6]          3 of 4  runs/walk-early\n"
        "    ./walk, policy ./policy.py noise=0.5\n"
        "    incomplete, seed 0, protocol 2\n"
        "2026-02-01 12:00   25.0%  [0.0, 99.6]          4 of 4  runs/walk-late\n"
        "    ./walk, policy ./policy.py\n"
        "    seed 0, protocol 2\n"
        "2026-03-01 12:00       -                       0 of 4  runs/walk-unplayed\n"
        "    ./walk, policy ./policy.py\n"
        "    incomplete, seed 0, protocol 2\n",
        "",
    )
    assert snapshot(place) == before


@pytest.mark.parametrize("columns", [60, 80])
def test_as_wide_as_the_terminal(place, columns):
    policy = {"args": {f"argument_{i}": "some-long-value" for i in range(6)}}
    make(place / "runs" / ("walk-" + "x" * 30), {**MANIFEST, "policy": MANIFEST["policy"] | policy})
    lines = envhub("runs", cwd=place, COLUMNS=str(columns)).out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.strip() == f"runs/walk-{'x' * 30}" for line in lines)
    words = " ".join(lines).split()
    assert {f"argument_{i}=some-long-value" for i in range(5)} <= set(words)


def test_json(place):
    answer = envhub("runs", "runs", "--json", cwd=place)
    assert (answer.code, answer.err) == (0, "")
    first, second, third = json.loads(answer.out)["runs"]
    assert first == {
        "run": "runs/walk-early",
        "created": "2026-01-01T12:00:00+00:00",
        "ref": "./walk",
        "policy": "./policy.py noise=0.5",
        "episodes": 3,
        "planned": 4,
        "rate": 0.25,
        "ci_low": pytest.approx(0.0005, abs=0.0001),
        "ci_high": pytest.approx(0.996, abs=0.001),
        "seed": 0,
        "protocol": "sha256:2",
        "complete": False,
        "error": None,
    }
    assert (second["complete"], third["rate"]) == (True, None)


def test_a_run_itself(place):
    answer = envhub("runs", "runs/walk-late", cwd=place)
    assert (answer.code, answer.out.count("\n")) == (0, 3)
    assert answer.out.splitlines()[0].endswith("4 of 4  runs/walk-late")


def test_long_names_stay_whole_in_80_columns(tmp_path):
    ref = f"someone/some-benchmark@{'0' * 40}:env.py"
    make(tmp_path / "a-directory-with-a-name-that-is-long" / "run", changed("benchmark.ref", ref))
    answer = envhub("runs", "./a-directory-with-a-name-that-is-long", cwd=tmp_path)
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.strip() for line in lines[1:]] == [
        "a-directory-with-a-name-that-is-long/run",
        f"{ref},",
        "policy ./policy.py",
        "incomplete, seed 0, protocol 2",
    ]


def test_one_that_cannot_be_read_hides_no_other(place):
    make(place / "runs" / "walk-broken", without("plan.seed"))
    answer = envhub("runs", cwd=place)
    assert (answer.code, answer.err) == (1, "")
    assert re.match(r"runs/walk-broken\n    runs/walk-broken/run\.json is damaged", answer.out)
    assert "`seed`" in answer.out
    assert "runs/walk-late" in answer.out
    rows = json.loads(envhub("runs", "--json", cwd=place).out)["runs"]
    assert [row["error"] is None for row in rows] == [False, True, True, True]


def test_nothing_rewrites_a_terminal(tmp_path):
    make(tmp_path / "runs" / "run", changed("benchmark.ref", "./wa\x1b[2Jlk"))
    answer = envhub("runs", cwd=tmp_path)
    assert "./wa\\x1b[2Jlk, policy ./policy.py" in answer.out


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ((), Answer(0, "No runs in runs. `envhub eval REF` makes one.\n", "")),
        (("--json",), Answer(0, '{\n  "runs": []\n}\n', "")),
        (
            ("nowhere",),
            Answer(2, "", "envhub: nowhere does not exist. Name a directory with runs in it.\n"),
        ),
        (("file",), Answer(2, "", "envhub: file cannot be read: Not a directory.\n")),
    ],
)
def test_where_there_are_none(tmp_path, arguments, answer):
    (tmp_path / "file").touch()
    assert envhub("runs", *arguments, cwd=tmp_path) == answer
