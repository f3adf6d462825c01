"""Any number of runs side by side: what `compare` says of each pair, adjusted for all."""

import csv
import io
import json
import random
import string
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec import structs
from support.manifests import write_run

from envhub.errors import UnknownName, UsageError
from envhub.results.compare import compare
from envhub.results.matrix import Entry, entries_of_runs, make_matrix
from envhub.results.matrix_text import render_matrix
from envhub.results.paired import holm
from envhub.results.run import open_run


@pytest.fixture
def entry(tmp_path: Path):
    """Writes a run of some policy, benchmark and seed."""

    def write(policy, benchmark, seed=0, *, other=None, near="", far=""):
        def change(info):
            info["policy"]["ref"] = policy
            info["benchmark"]["ref"] = benchmark
            info["plan"]["seed"] = seed
            info["plan"]["seeding"] = "shared"
            if other:
                info["runtime"]["packages"] = {"mujoco": other}

        name = f"{policy}-{benchmark}-{seed}-{other}"
        place = write_run(tmp_path / name, change, near=near, far=far)
        records = [json.loads(line) for line in (place / "episodes.jsonl").read_text().splitlines()]
        lines = [json.dumps({**each, "seed": each["episode"] + seed}) for each in records]
        (place / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return Entry(policy, benchmark, seed, open_run(place))

    return write


@pytest.fixture
def grid(entry):
    """Three policies, two benchmarks and two seeds; `new` is better on `b` alone."""
    outcomes = random.Random(3)

    def draw(rate):
        return "".join(str(int(outcomes.random() < rate)) for _ in range(10))

    return [
        entry(policy, benchmark, seed, near=draw(rate), far=draw(rate))
        for benchmark in ("a", "b")
        for policy, rate in (("old", 0.2), ("odd", 0.3), ("new", 0.2 if benchmark == "a" else 1.0))
        for seed in (0, 100)
    ]


def find(entries, policy, benchmark, seed):
    return next(
        e.run for e in entries if (e.policy, e.benchmark, e.seed) == (policy, benchmark, seed)
    )


def test_each_difference_is_that_of_compare_and_all_are_adjusted_together(grid):
    matrix = make_matrix(grid, baseline="old", seeds="rows")
    compared = {
        (cell.policy, cell.benchmark, cell.seeds[0]): cell.difference
        for cell in matrix.cells
        if cell.difference is not None
    }
    assert len(compared) == matrix.compared == 8
    p_values = []
    for (policy, benchmark, seed), found in compared.items():
        run, base = (find(grid, each, benchmark, seed) for each in (policy, "old"))
        pair = compare(base, run)
        assert (found.difference, found.ci_low, found.ci_high, found.p, found.dropped) == (
            pair.difference, pair.ci_low, pair.ci_high, pair.p, 0,
        )  # fmt: skip
        cell = matrix.at((policy, seed), benchmark)
        assert cell.line == run.summary().overall
        p_values.append(pair.p)
    assert [found.p_holm for found in compared.values()] == holm(p_values)
    shown = {key for key, found in compared.items() if found.verdict != "undecided"}
    assert shown == {("new", "b", 0), ("new", "b", 100)}


def test_seeds_are_pooled_as_the_episodes_of_one_run(grid):
    matrix = make_matrix(grid, baseline="old")
    cell = matrix.at(("new", None), "a")
    assert (cell.seeds, cell.recorded, cell.planned, cell.complete) == ((0, 100), 40, 40, True)
    runs = [find(grid, "new", "a", seed) for seed in (0, 100)]
    assert cell.seed_rates == tuple(run.summary().overall.rate for run in runs)
    assert cell.line.n == 40
    assert cell.line.successes == sum(run.summary().overall.successes for run in runs)
    pairs = [
        compare(find(grid, "old", "a", seed), find(grid, "new", "a", seed)) for seed in (0, 100)
    ]
    assert cell.difference.pairs == 40
    assert cell.difference.difference == pytest.approx(sum(p.difference for p in pairs) / 2)
    assert matrix.compared == 4
    assert "by Holm over all 4 differences" in matrix.method
    assert matrix.notes == ()


def test_seeds_that_play_the_same_episodes_count_each_once(entry):
    entries = [
        entry(policy, "a", seed, near=text[seed : seed + 10], far="")
        for policy, text in (("old", "000000000000000"), ("new", "111110000011111"))
        for seed in (0, 5)
    ]
    matrix = make_matrix(entries, baseline="old")
    cell = matrix.at(("new", None), "a")
    assert (cell.line.n, cell.line.successes, cell.difference.pairs) == (15, 10, 15)
    assert "5 of 20 records are of an episode that counts already" in matrix.notes[1]


def test_what_cannot_be_compared_stays_empty_with_the_reason(entry):
    entries = [
        entry("old", "a", near="1100", far="11"),
        entry("new", "a", other="9.9", near="1100", far="11"),
        entry("mute", "a", near="????"),
        Entry("gone", "a", 0, None, "no weights in ./gone"),
        entry("old", "b", near="11"),
        entry("new", "b", 7, near="11"),
        entry("mute", "b", near="eeee"),
        Entry("gone", "b", 0, None, "not played yet"),
    ]
    matrix = make_matrix(entries, baseline="old")
    reasons = {(c.policy, c.benchmark): c.reason for c in matrix.cells}
    assert all(cell.difference is None for cell in matrix.cells)
    assert reasons == {
        ("old", "a"): None,
        ("old", "b"): None,
        ("new", "a"): "the runs differ in the packages (mujoco 3.3.0, 9.9)",
        ("new", "b"): "the baseline has other seeds there",
        ("mute", "a"): "no success is reported",
        ("mute", "b"): "no episode counts",
        ("gone", "a"): "no weights in ./gone",
        ("gone", "b"): "not played yet",
    }
    text = render_matrix(matrix, "text", 200)
    for reason in filter(None, reasons.values()):
        assert reason in text
    assert "(2) " in text
    assert "differences to" not in matrix.method


def test_runs_by_themselves_find_their_rows_and_columns(entry, tmp_path):
    runs = [entry(p, b, near="10").run for p in ("old", "new") for b in ("a", "b")]
    matrix = make_matrix(entries_of_runs(runs), baseline="old")
    assert (matrix.policies, matrix.benchmarks, matrix.compared) == (("old", "new"), ("a", "b"), 2)
    with pytest.raises(UsageError, match="is named 2 times"):
        entries_of_runs([runs[0], open_run(runs[0].directory)])
    twin = replace(runs[0], directory=tmp_path / "twin")
    assert [each.policy for each in entries_of_runs([*runs[:2], twin])] == [
        "old (old-a-0-None)", "old (old-b-0-None)", "old (twin)",
    ]  # fmt: skip
    info = runs[0].run_info
    benchmark = structs.replace(info.benchmark, env_args={"speed": 2})
    other = replace(twin, run_info=structs.replace(info, benchmark=benchmark))
    assert [each.benchmark for each in entries_of_runs([runs[0], other])] == [
        "a (no arguments)", "a (speed=2)",
    ]  # fmt: skip
    with pytest.raises(UnknownName, match=r"No policy is called 'odl'\. Did you mean 'old'"):
        make_matrix(entries_of_runs(runs), baseline="odl")


def test_csv_has_a_line_for_each_cell_and_no_formulas(grid, entry):
    entries = [*grid, entry("=1+1", "a", near="10")]
    rows = list(
        csv.DictReader(io.StringIO(render_matrix(make_matrix(entries, baseline="old"), "csv")))
    )
    assert len(rows) == 7
    found = {(row["policy"], row["benchmark"]): row for row in rows}
    assert float(found["new", "b"]["rate"]) == 1.0
    assert found["new", "b"]["verdict"] == "better"
    assert found["old", "b"]["p_holm"] == ""
    assert "'=1+1" in {row["policy"] for row in rows}


def test_markdown_and_latex_escape_what_is_foreign(entry):
    entries = [entry("a|b_*x*\n&%$#", "c_d", near="1101"), entry("ü", "c_d", near="1111")]
    matrix = make_matrix(entries, baseline="ü")
    markdown = render_matrix(matrix, "markdown").splitlines()
    assert markdown[0] == r"| policy | c\_d |"
    assert markdown[2].startswith(r"| a\|b\_\*x\*\\n&%$\# | 75.0% \[30.1, 95.4\]; -25.0 ")
    latex = render_matrix(matrix, "latex")
    assert r"a\textbar{}b\_*x*\textbackslash{}n\&\%\$\# & 75.0\% [30.1, 95.4]" in latex
    assert r"\"{u} & 100.0\%" in latex
    assert latex.count(r"\\") == 4
    assert "adjusted by Holm" in latex


def test_markdown_renders_as_what_it_says(entry):
    """Read by a renderer of CommonMark with tables, as forges have one."""
    names = [string.punctuation, "<b>x</b> http://a.b _c_ `d` ~~e~~", "![i](j) \\| k"]
    entries = [entry(name.replace("/", ":"), "c|d", near="1101") for name in names]
    text = render_matrix(make_matrix(entries, baseline=entries[0].policy), "markdown")
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    cells = [token for token in tokens if token.type == "inline"][: 2 * (1 + len(names))]
    assert all(child.type == "text" for cell in cells for child in cell.children)
    plain = ["".join(child.content for child in cell.children) for cell in cells]
    assert plain[:2] == ["policy", "c|d"]
    assert plain[2::2] == [each.policy for each in entries]
    assert all("75.0% [30.1, 95.4]" in said for said in plain[3::2])


def test_a_wide_matrix_is_shown_benchmark_by_benchmark(grid):
    matrix = make_matrix(grid, baseline="old")
    wide, narrow = (render_matrix(matrix, "text", width) for width in (200, 40))
    assert wide.splitlines()[0].split() == ["a", "b"]
    assert narrow.splitlines()[0] == "a"
    assert "\n\nb\n" in narrow
    assert max(map(len, narrow.splitlines())) <= 80


def test_no_difference_is_shown_in_more_than_one_of_twenty_equal_experiments(entry):
    """Type I over all cells: two policies as good as the baseline, on three benchmarks."""
    draw = random.Random(30)
    made = [entry(p, b, near="0" * 10) for b in "abc" for p in ("old", "new", "odd")]
    of_record = made[0].run.records()[0]
    episodes, simulations = 40, 200
    false = 0
    for _ in range(simulations):
        hard = {b: [draw.random() for _ in range(episodes)] for b in "abc"}
        entries = []
        for each in made:
            info = each.run.run_info
            kept = tuple(
                replace(of_record, episode=k, seed=k, success=draw.random() < chance)
                for k, chance in enumerate(hard[each.benchmark])
            )
            plan = structs.replace(info.plan, episodes=episodes)
            run = replace(each.run, run_info=structs.replace(info, plan=plan), kept=kept)
            entries.append(replace(each, run=run))
        cells = make_matrix(entries, baseline="old").cells
        false += any(c.difference and c.difference.verdict != "undecided" for c in cells)
    print(f"type I over all cells: {false / simulations:.1%} of {simulations}")
    assert false / simulations <= 0.05
