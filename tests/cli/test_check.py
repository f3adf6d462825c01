"""`envhub check` as a user sees it."""

import json
import subprocess

from click.testing import CliRunner
from support.commands import envhub, refused
from support.run_tools import ENVHUB, variables
from support.zoo import ZOO

from envhub.check import CHECKS
from envhub.cli.check import command


def test_the_table_and_what_a_failure_says():
    result = CliRunner().invoke(
        command, [str(ZOO), "--quick", "--workers", "0", "--task", "good,seeds-differ"]
    )
    assert result.exit_code == 0  # a warning
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("  passed")].count("loads") == 1
    assert "  failed   seeds-differ             warning: seeds-differ" in lines
    at = lines.index("warning seeds-differ, task seeds-differ")
    check = next(check for check in CHECKS if check.name == "seeds-differ")
    assert lines[at + 1 : at + 5] == [
        f"  rule  {check.rule}",
        "  seen  The episodes of three seeds are the same.",
        f"  why   {check.why}",
        f"  fix   {check.fix}",
    ]
    assert lines[-3].startswith("![envhub check: ")
    assert lines[-1].endswith("0 errors and 1 warning: seeds-differ.")
    assert "\x1b" not in result.stdout


def test_an_error_ends_with_exit_code_1():
    result = CliRunner().invoke(
        command, [str(ZOO), "--quick", "--workers", "0", "--task", "flags-boolean,reset-works"]
    )
    assert result.exit_code == 1
    assert "1 error and 1 warning: reset-works, flags-boolean." in result.stdout


def test_a_convention_that_does_not_exist():
    arguments = ["./conventions", "--quick", "--env-arg", "wrong=shut"]
    answer = envhub("check", *arguments)
    assert answer.code == 1
    said = "Benchmark 'arm': the convention gripper is 'shut', which is not one of none, positive"
    assert said in answer.out
    assert "error loads\n" in answer.out
    assert "dataclasses.py" not in answer.out


def test_card(tmp_path):
    card = tmp_path / "README.md"
    card.write_text("# Zoo\n<!-- envhub check -->\n<!-- /envhub check -->\n")
    arguments = [str(ZOO), "--quick", "--workers", "0", "--task", "good", "--card", str(card)]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["badge"] in card.read_text()
    assert "\n| good | " in card.read_text()


def test_wrong_command_lines():
    refused(envhub("check", "nothing-of-that-name"), 2, "nothing-of-that-name")
    refused(envhub("check", "./zoo", "--task", "goood"), 2, "good")
    refused(envhub("check", "./zoo", "--workers", "2"), 2, "--workers")
    refused(envhub("check", "owner/repo@main"), 2, "envhub trust owner/repo@main")


def test_breakpoint_works_without_workers(tmp_path):
    stop = "    breakpoint()\n    return Point()"
    text = (ZOO / "memory.py").read_text().replace("    return Point()", stop)
    (tmp_path / "env.py").write_text(text)
    (tmp_path / "point.py").write_text((ZOO / "point.py").read_text())
    done = subprocess.run(
        [ENVHUB, "check", "./env.py", "--quick", "--workers", "0"],
        cwd=tmp_path,
        env=variables(),
        input="print(task.name, 6 * 7)\nimport sys; sys.breakpointhook = lambda: None\nc\n",
        capture_output=True,
        text=True,
    )
    assert "push 42" in done.stdout, done
    assert "checks passed" in done.stdout
