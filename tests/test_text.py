"""Aligned columns and counted nouns."""

from envhub.text import align, pluralize


def test_columns_are_as_wide_as_their_widest_cells():
    rows = [("task", "rate", ""), ("reach-red", "5 %", "x"), ("a", "100 %", "")]
    assert align(rows, right=(1,)) == [
        "task        rate",
        "reach-red    5 %  x",
        "a          100 %",
    ]


def test_no_rows_are_no_lines():
    assert align([]) == []


def test_one_is_singular():
    assert [pluralize(n, "task") for n in (0, 1, 2, 1000)] == [
        "0 tasks", "1 task", "2 tasks", "1,000 tasks",
    ]  # fmt: skip
