"""The part of a card that `envhub check --card` fills."""

import pytest

from envhub.errors import UsageError
from envhub.testing.conformance.card import BEGIN, END, card_lines, fill_card
from envhub.testing.conformance.report import Report

REPORT = Report(
    "./zoo", "zoo", ("push",), True, (), {"push": {"make_s": 0.1234, "zero_rate": 0.5}}, 512
)


def test_only_the_part_between_the_comments_changes(tmp_path):
    card = tmp_path / "README.md"
    card.write_text(f"# Zoo\n\n{BEGIN}\nold\n{END}\n\nMore.\n")
    for _ in range(2):  # filling again changes nothing
        fill_card(card, REPORT)
        text = card.read_text()
        assert text == f"# Zoo\n\n{BEGIN}\n{card_lines(REPORT)}\n{END}\n\nMore.\n"


def test_badge_and_table():
    badge, blank, *table = card_lines(REPORT).split("\n")
    assert (badge, blank) == (REPORT.badge, "")
    assert table == ["| task | make | zero |", "| --- | --- | --- |", "| push | 0.12 s | 50% |"]


def test_a_card_without_the_comments_is_left_alone(tmp_path):
    card = tmp_path / "README.md"
    card.write_text("# Zoo\n")
    with pytest.raises(UsageError, match="Add the lines <!-- envhub check -->"):
        fill_card(card, REPORT)
    assert card.read_text() == "# Zoo\n"


def test_a_card_that_does_not_exist(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        fill_card(tmp_path / "README.md", REPORT)
