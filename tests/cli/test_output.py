"""What is printed where little can be: full disks, plain terminals, old encodings."""

import os
import subprocess
from pathlib import Path

import pytest
from support.run_tools import ENVHUB, WALK, Answer, variables
from support.terminal import at_terminal

from envhub import open_run

FULL = "/dev/full"
NO_SPACE = "Standard output cannot be written: No space left on device. Send it elsewhere"


def envhub(*arguments: object, out: object = None, err: object = None, **more: str) -> Answer:
    """Run the command with its output going to files, or kept if None."""
    encoding = more.get("PYTHONIOENCODING", "utf-8")
    with open(out or os.devnull, "w") as stdout, open(err or os.devnull, "w") as stderr:
        done = subprocess.run(
            [ENVHUB, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=stdout if out else subprocess.PIPE,
            stderr=stderr if err else subprocess.PIPE,
            env=variables(**more),
        )
    said = (done.stdout or b"", done.stderr or b"")
    return Answer(done.returncode, *(text.decode(encoding) for text in said))


QUESTION = ("eval", WALK, "--task", "near", "--episodes", 2, "--policy", "zero", "--workers", 0)


class TestFullDisk:
    @pytest.mark.parametrize("arguments", [["list"], ["--help"], ["runs", "--json"]])
    def test_one_sentence(self, arguments):
        answer = envhub(*arguments, out=FULL)
        assert answer.code == 1
        assert answer.err.startswith(f"envhub: {NO_SPACE}")
        assert answer.err.count("\n") == 1

    def test_a_run_is_recorded_all_the_same(self, tmp_path):
        answer = envhub(*QUESTION, "--out", tmp_path / "run", out=FULL)
        assert answer.code == 1
        assert answer.err.startswith(f"envhub: {NO_SPACE}")
        assert answer.err.endswith("; `envhub show RUN` prints a finished run again.\n")
        assert open_run(tmp_path / "run").complete
        assert "overall" in envhub("show", tmp_path / "run").out

    def test_what_cannot_be_said_does_not_end_a_run(self, tmp_path):
        """There is something to say: no policy is named."""
        question = [each for each in QUESTION if each not in ("--policy", "zero")]
        answer = envhub(*question, "--out", tmp_path / "run", err=FULL)
        assert (answer.code, open_run(tmp_path / "run").complete) == (0, True)
        assert "overall" in answer.out

    @pytest.mark.parametrize(
        ("arguments", "code"), [(["lst"], 2), (["--nonsense"], 2), (["show", "nowhere"], 2)]
    )
    def test_the_exit_code_says_it_too(self, arguments, code):
        assert envhub(*arguments, out=FULL, err=FULL).code == code


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("output") / "run"
    assert envhub(*QUESTION, "--out", out).code == 0
    return out


def shown(run: Path, **more: str) -> str:
    """What a run looks like, in the given surroundings."""
    answer = envhub("show", run, **more)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def test_latin_1(run):
    table = shown(run, COLUMNS="120", PYTHONIOENCODING="latin-1")
    assert "\\u" not in table
    assert "·" * 20 in table
    assert "\n" + "-" * 60 in table


def test_ascii(run):
    table = shown(run, COLUMNS="120", PYTHONIOENCODING="ascii")
    assert "\\u" not in table
    assert "." * 20 in table


def test_80_columns_where_there_is_no_terminal(run):
    table = shown(run).partition("\n\n")[0]
    assert "·" not in table
    assert max(map(len, table.splitlines()[1:])) <= 80
    assert "·" * 20 in shown(run, COLUMNS="120")


BOLD = "\x1b[1m"


@pytest.mark.parametrize(
    ("variable", "escapes"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_styles_at_a_terminal(run, variable, escapes):
    code, text = at_terminal([ENVHUB, "show", run], env=variables(**variable))
    assert code == 0
    assert "overall" in text
    assert (BOLD in text) is escapes
    assert escapes or "\x1b" not in text


def test_no_live_picture_on_a_dumb_terminal(tmp_path):
    command = [ENVHUB, *map(str, QUESTION), "--out", tmp_path / "run"]
    code, text = at_terminal(command, env=variables(TERM="dumb"))
    assert code == 0
    assert "overall" in text
    assert "\x1b" not in text
