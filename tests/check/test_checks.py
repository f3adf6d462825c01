"""The table of checks, and the page that is made of it."""

import re

import pytest
from support.paths import DOCS

from envhub.check.checks import CHECKS

PAGE = (DOCS / "checks.md").read_text(encoding="utf-8")


def test_names_are_unique_and_groups_are_together():
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    groups = [check.group for check in CHECKS]
    assert len(list(dict.fromkeys(groups))) == sum(
        a != b for a, b in zip(["", *groups], groups, strict=False)
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_is_documented_in_its_own_words(check):
    section = re.search(rf"^## {check.group}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section
    row = f"| `{check.name}` | {check.severity} | {check.rule} | {check.why} | {check.fix} |"
    assert row in section[1]


def test_no_check_is_documented_that_does_not_exist():
    rows = re.findall(r"^\| `([\w-]+)` \| (?:error|warning) \|", PAGE, re.MULTILINE)
    assert rows == [check.name for check in CHECKS]


def test_sentences():
    for check in CHECKS:
        assert all(text.endswith(".") for text in (check.rule, check.why, check.fix)), check
        assert "|" not in check.rule + check.why + check.fix
