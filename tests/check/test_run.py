"""Every check fails on the env that breaks its rule, and on no other."""

import pytest
from support.needs import reason_to_skip
from support.paths import ASSETS, DOCS
from support.zoo import FILES, GOOD, INLINE, PROCESSES, ZOO, check, failures

from envhub.check import CHECKS
from envhub.errors import UnknownName, UsageError
from envhub.testing import check_benchmark

pytestmark = pytest.mark.timeout(600)  # a test inspects many envs

CHUNKS = 2
"""Tests that share the zoo, so that they can run side by side."""


def rows(answer, name, task):
    return [r for r in answer["checks"] if (r["name"], r["task"]) == (name, task)]


def found(answer):
    return {task: failures(answer, task) for task in answer["tasks"]}


def test_there_is_a_broken_env_for_every_check():
    assert {*INLINE, *PROCESSES, *FILES} == {check.name for check in CHECKS}
    assert len(CHECKS) >= 30


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_exactly_the_broken_rule_is_named(chunk):
    """In one process, which is fast."""
    names = INLINE[chunk::CHUNKS]
    answer = check(ZOO, "--workers", "0", "--task", ",".join(names))[1]
    assert found(answer) == {name: [name] for name in answer["tasks"]}
    assert {*answer["tasks"]} == {*names}
    for name in names:
        [row] = rows(answer, name, name)
        assert all(row[part] for part in ("seen", "why", "fix", "rule", "severity"))


def test_exactly_the_broken_rule_is_named_in_workers():
    """One of each kind: a process that differs, one that is left, a sandbox. `make soak`: all."""
    names = ("same-in-other-process", "close-frees-processes", "runs-in-sandbox")
    assert {*names} < {*PROCESSES}
    answer = check(ZOO, "--task", ",".join(names))[1]
    expected = {name: [name] for name in names}
    if "runs-in-sandbox" in names and reason_to_skip("sandbox"):
        expected["runs-in-sandbox"] = []
    assert found(answer) == expected


def test_nothing_is_found_where_nothing_is_wrong():
    code, answer = check(ZOO, "--task", ",".join(GOOD))
    assert (code, found(answer)) == (0, {name: [] for name in GOOD})
    passed = {row["name"] for row in answer["checks"] if row["status"] == "passed"}
    without = {"runs-in-sandbox"} if reason_to_skip("sandbox") else set()
    assert {check.name for check in CHECKS} - passed == without
    figures = answer["figures"]["good"]
    assert {"make_s", "first_reset_s", "reset_s", "step_ms", "frame_ms", "memory_mb"} <= {*figures}
    assert (figures["zero_rate"], figures["random_rate"], figures["expert_rate"]) == (0, 0, 1)
    memory = answer["memory_mb"]
    assert memory["declared"] == 1024
    assert memory["to_declare"] >= 1.25 * figures["memory_mb"]
    assert memory["to_declare"] % 64 == 0


def test_nothing_is_found_in_one_process_either():
    """As a test of an author's: pytest has used more memory than the benchmark declares."""
    bytearray(b"1") * (300 * 2**20)
    report = check_benchmark(ZOO, quick=True, workers=0, tasks=("good-*", "good"))
    assert (report.ok, report.failures, report.tasks) == (True, (), GOOD)
    [result, *_] = report.result("same-in-other-process")
    assert result.status == "skipped"
    assert result.seen == "With --workers 0 everything runs in this process."
    assert report.status("memory-declared") == "skipped"


def test_quick_inspects_the_first_task_unless_tasks_are_named():
    assert check_benchmark(ZOO, quick=True, workers=0).tasks == GOOD[:1]


@pytest.mark.parametrize(
    ("file", "broken", "code"),
    [("listing.py", "listing-light", 0), ("memory.py", "memory-declared", 1)],
)
def test_files_that_break_a_rule_of_benchmarks(file, broken, code):
    assert found_in(check(ZOO / file)) == (code, [broken])


def found_in(answered):
    code, answer = answered
    return code, sorted(failures(answer))


def test_a_file_of_the_published_contract():
    """It cannot say how successes count; without a horizon it cannot be evaluated."""
    file = ZOO / "published.py"
    for horizon, broken in ((None, ["success-declared"]), (False, ["horizon", "success-declared"])):
        env_args = {} if horizon is None else {"horizon": horizon}
        report = check_benchmark(file, quick=True, workers=0, env_args=env_args)
        assert sorted(result.check.name for result in report.failures) == broken
        assert report.ok is (horizon is None)


@pytest.mark.parametrize("asset", ["raises", "os_exits"])
def test_a_benchmark_that_cannot_be_loaded_is_a_report_too(asset):
    code, answer = check(ASSETS / asset)
    assert failures(answer) == ["loads"]
    assert code == 1
    [other] = [row for row in answer["checks"] if row["name"] == "env-made"]
    assert other["seen"] == "Not run, because loads failed."


def test_a_worker_that_dies_in_an_episode_is_a_finding(tmp_path):
    text = (ZOO / "memory.py").read_text().replace("memory_mb=1)", ")")
    dies = (
        "class Dies(Point):\n    def move(self, action):\n        import os\n        os._exit(3)\n"
    )
    (tmp_path / "env.py").write_text(f"{text.replace('return Point()', 'return Dies()')}\n\n{dies}")
    (tmp_path / "point.py").write_text((ZOO / "point.py").read_text())
    code, answer = check(tmp_path)
    assert failures(answer) == ["step-works"]
    assert code == 1
    [row] = [row for row in answer["checks"] if row["name"] == "step-works"]
    assert "exit" in row["seen"]


def test_wrong_arguments():
    with pytest.raises(UnknownName, match="reach-blue"):
        check_benchmark(DOCS / "examples" / "reach", tasks=("reach-blu",))
    with pytest.raises(UsageError, match="quick"):
        check_benchmark(DOCS / "examples" / "reach", quick=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sandboxes'"):
        check_benchmark(DOCS / "examples" / "reach", sandboxes="none")
