"""Completion in a real bash; and what the other shells' functions are told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import needs_bash
from support.paths import DOCS
from support.run_tools import envhub

from envhub.cli import COMMANDS

ASK = """
{script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_envhub_completion envhub
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two runs, a folder that is none, and a benchmark that notes its import."""
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "env.py").write_text("open('imported', 'w').close()\n")
    return tmp_path


def complete(place: Path, words: str) -> list[str]:
    """What bash offers for the last word; an empty one is written as ''."""
    script = envhub("completion", "bash").out
    bin_ = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(script=script, words=words)],
        cwd=place,
        env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    return done.stdout.split()


@needs_bash
def test_commands_and_options(place):
    assert sorted(complete(place, "envhub ''")) == sorted(COMMANDS)
    assert complete(place, "envhub ve") == ["verify"]
    assert complete(place, "envhub cache clean mod") == ["models"]
    assert complete(place, "envhub eval --pol") == [
        *("--policy", "--policy-arg", "--policy-python", "--policy-processes"),
    ]
    assert complete(place, "envhub eval x --control") == [], "an old name is not offered"


@needs_bash
def test_benchmarks_suites_tasks_and_policies_of_plugins(place):
    assert complete(place, "envhub eval metaw") == ["metaworld"]
    assert complete(place, "envhub eval metaworld --suite mt1") == ["mt10"]
    tasks = complete(place, "envhub eval metaworld --task reach-v3,door-c")
    assert tasks == ["reach-v3,door-close-v3"]
    assert complete(place, "envhub eval metaworld --policy e") == ["expert"]
    assert {"random", "zero"} <= set(complete(place, "envhub eval --policy ''"))


@needs_bash
def test_runs(place):
    assert complete(place, "envhub show ''") == ["runs/first", "runs/second"]
    assert complete(place, "envhub eval --resume runs/s") == ["runs/second"]
    assert complete(place, "envhub compare runs/first runs/f") == ["runs/first"]


@needs_bash
def test_no_code_of_a_directory_is_run(place):
    assert complete(place, "envhub eval ./bench --task ''") == []
    assert complete(place, "envhub eval owner/repo@main --task ''") == []
    assert not (place / "imported").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_page_has_the_line_of_each_shell_and_the_shell_accepts_the_script(shell, tmp_path):
    answer = envhub("completion", shell)
    assert answer.code == 0
    line = answer.out.partition("\n")[0].partition(": ")[2]
    assert line in (DOCS / "commands.md").read_text(encoding="utf-8").replace("\\|", "|")
    (tmp_path / "script").write_text(answer.out)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)
