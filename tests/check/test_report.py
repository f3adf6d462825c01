"""A report as values, as JSON, as a badge and in a card."""

import json

import pytest

from envhub.check.checks import BY_NAME, CHECKS
from envhub.check.findings import Findings
from envhub.check.report import BEGIN, END, Report, Result, card_lines, fill_card, memory_to_declare
from envhub.errors import UsageError
from envhub.wire.messages import Probed


def report(**failed):
    every = []
    for task, names in failed.items():
        findings = Findings(task)
        for check in CHECKS:
            findings.judge(check.name, "seen it" if check.name in names else None)
        every += findings.results()
    return Report("./zoo", "zoo", tuple(failed), False, tuple(every), {}, 512)


class TestReport:
    def test_only_errors_fail_a_benchmark(self):
        assert report(a=()).ok
        warned = report(a=("renders",))
        assert warned.ok
        assert [result.check.name for result in warned.failures] == ["renders"]
        assert not report(a=("renders", "step-works")).ok

    def test_errors_come_first(self):
        found = report(a=("listing-light",), b=("memory-declared",)).failures
        assert [result.check.name for result in found] == ["memory-declared", "listing-light"]

    def test_a_check_that_failed_for_one_task_has_failed(self):
        both = report(a=(), b=("horizon",))
        assert both.status("horizon") == "failed"
        assert both.status("loads") == "passed"
        assert (both.count("failed"), both.count("passed")) == (1, len(CHECKS) - 1)

    @pytest.mark.parametrize(
        ("failed", "text", "color"),
        [
            ((), f"{len(CHECKS)} of {len(CHECKS)} passed", "brightgreen"),
            (("renders",), f"{len(CHECKS) - 1} of {len(CHECKS)} passed", "yellow"),
            (("loads",), f"{len(CHECKS) - 1} of {len(CHECKS)} passed", "red"),
        ],
    )
    def test_badge(self, failed, text, color):
        badge = report(a=failed).badge
        assert badge.startswith(f"![envhub check: {text}](https://")
        assert badge.endswith(f"-{text.replace(' ', '%20')}-{color})")

    def test_json_explains_what_failed(self):
        answer = json.loads(json.dumps(report(a=("horizon",)).to_json()))
        assert list(answer) == [
            "ref", "benchmark", "ok", "quick", "tasks", "badge", "memory_mb", "figures", "checks",
        ]  # fmt: skip
        [row] = [row for row in answer["checks"] if row["status"] == "failed"]
        check = BY_NAME["horizon"]
        assert row == {
            "name": "horizon",
            "group": check.group,
            "severity": "error",
            "task": "a",
            "status": "failed",
            "seen": "seen it",
            "rule": check.rule,
            "why": check.why,
            "fix": check.fix,
        }

    def test_a_result_says_what_was_seen_why_it_matters_and_how_to_fix_it(self):
        check = BY_NAME["horizon"]
        text = str(Result(check, "push", "failed", "seen it"))
        assert all(part in text for part in ("horizon", "push", "seen it", check.why, check.fix))


@pytest.mark.parametrize(("used", "declared"), [(0, 0), (1, 64), (51.2, 64), (52, 128), (300, 384)])
def test_the_memory_to_declare_leaves_room(used, declared):
    assert memory_to_declare(used) == declared


class TestFindings:
    def test_the_first_failure_counts_and_replaces_a_pass(self):
        findings = Findings("a")
        findings.passed("horizon")
        findings.failed("horizon", "first")
        findings.failed("horizon", "second")
        [result] = [r for r in findings.results() if r.check.name == "horizon"]
        assert (result.status, result.seen) == ("failed", "first")

    def test_what_was_not_reached_names_the_obstacle(self):
        findings = Findings("a")
        findings.failed("reset-works", "it raised")
        [result] = [r for r in findings.results() if r.check.name == "renders"]
        assert (result.status, result.seen) == ("skipped", "Not run, because reset-works failed.")

    def test_names_that_a_worker_made_up_are_left_out(self):
        findings = Findings("a")
        findings.add(
            Probed(1, ("made-up",), {"also": "x"}, {"renders": "none"}, {"step_ms": 1}, [])
        )
        assert {result.check.name for result in findings.results()} == {*BY_NAME}
        assert findings.figures == {"step_ms": 1}

    def test_figures_that_no_worker_can_have_measured_are_left_out(self):
        findings = Findings("a")
        claimed = {"step_ms": float("nan"), "memory_mb": float("inf"), "make_s": -1.0, "x": 1.0}
        findings.add(Probed(1, (), {}, {}, claimed, []))
        assert findings.figures == {}

    def test_what_a_worker_says_cannot_rewrite_a_terminal(self):
        findings = Findings("a")
        findings.failed("horizon", "\x1b[2J none")
        [result] = [r for r in findings.results() if r.check.name == "horizon"]
        assert "\x1b" not in result.seen


MEASURED = Report(
    "./zoo", "zoo", ("push",), True, (), {"push": {"make_s": 0.1234, "zero_rate": 0.5}}, 512
)


class TestCard:
    """The part of a card that `envhub check --card` fills."""

    def test_only_the_part_between_the_comments_changes(self, tmp_path):
        card = tmp_path / "README.md"
        card.write_text(f"# Zoo\n\n{BEGIN}\nold\n{END}\n\nMore.\n")
        for _ in range(2):  # filling again changes nothing
            fill_card(card, MEASURED)
            text = card.read_text()
            assert text == f"# Zoo\n\n{BEGIN}\n{card_lines(MEASURED)}\n{END}\n\nMore.\n"

    def test_badge_and_table(self):
        badge, blank, *table = card_lines(MEASURED).split("\n")
        assert (badge, blank) == (MEASURED.badge, "")
        assert table == ["| task | make | zero |", "| --- | --- | --- |", "| push | 0.12 s | 50% |"]

    def test_a_card_without_the_comments_is_left_alone(self, tmp_path):
        card = tmp_path / "README.md"
        card.write_text("# Zoo\n")
        with pytest.raises(UsageError, match="Add the lines <!-- envhub check -->"):
            fill_card(card, MEASURED)
        assert card.read_text() == "# Zoo\n"

    def test_a_card_that_does_not_exist(self, tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            fill_card(tmp_path / "README.md", MEASURED)
