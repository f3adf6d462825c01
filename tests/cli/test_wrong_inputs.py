"""Several hundred wrong inputs: each is answered with its exit code and a sentence.

None ends in a traceback, in a hang or in a silent success, and none leaves anything behind. They
run in this process, so that all of them take less than a minute.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import TESTS
from support.wrong_inputs import make_workspace, run_here

import envhub
from envhub.errors import (
    ContractError,
    InvalidBenchmark,
    InvalidReference,
    RemoteCodeRefused,
    RunDirectoryError,
    UnknownName,
    UnpinnedReference,
    UsageError,
)


def _rows() -> list[tuple[str, int, list[str]]]:
    """The command lines of the table, each with its exit code and words of its answer."""
    table = (TESTS / "support" / "wrong_commands.txt").read_text(encoding="utf-8")
    rows = []
    for row in table.splitlines():
        if row and not row.startswith("#"):
            code, line, *words = row.split(" | ")
            rows.append((line, int(code), words))
    return rows


ROWS = _rows()
HEX, LONG = "0" * 40, "x" * 300
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wrong")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        make_workspace(place)
    (place / ".home").symlink_to(home)
    return place


@pytest.fixture(autouse=True)
def _here(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", os.readlink(workspace / ".home"))  # with the key of its runs
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    before = {path.name for path in workspace.iterdir()}
    yield
    left = {path.name for path in workspace.iterdir()} - before
    for name in left:
        shutil.rmtree(workspace / name)
    # A policy or an env that failed has begun its run; see docs/runs.md. With --workers 0 Python
    # itself may keep what it compiled.
    assert left <= {"fresh", "__pycache__"}


@pytest.mark.timeout(60)  # much more than any of them takes, on a busy machine too
@pytest.mark.parametrize(("line", "code", "words"), ROWS)
def test_a_wrong_command_line(line, code, words):
    arguments = shlex.split(line.replace("{hex}", HEX).replace("{long}", LONG))
    if arguments[:1] == ["eval"] and not {"--out", "--resume"} & {*arguments}:
        arguments += ["--out", "fresh"]
    answer = run_here(arguments)
    assert answer.code == code, answer
    assert code != 0
    for word in words:
        assert word.replace("{hex}", HEX) in answer.err + answer.out, answer
    assert "Traceback" not in answer.err
    assert not CONTROL.search(answer.err), answer.err
    assert code == 1 or not answer.out


def test_there_are_at_least_300():
    assert len({line for line, _, _ in ROWS}) >= 300
    assert all(words for _, _, words in ROWS)


PYTHON = [
    (lambda: envhub.open_run("nowhere"), RunDirectoryError, "nowhere is not a run", "envhub runs"),
    (lambda: envhub.open_run(Path("file.txt")), RunDirectoryError, "Name a run's directory"),
    (lambda: envhub.open_run("noplan"), RunDirectoryError, "required field `plan`", "Restore"),
    (lambda: envhub.open_run("seedtext"), RunDirectoryError, "plan.seed: Expected `int`"),
    (lambda: envhub.open_run("badrecord").summary(), RunDirectoryError, "success: ", "Delete the"),
    (lambda: envhub.open_run("seedrecord").complete, RunDirectoryError, "its seed is 9", "Delete"),
    (lambda: envhub.open_run("fiforecords").records(), RunDirectoryError, "not a regular file"),
    (lambda: envhub.compare("ok", "nowhere"), RunDirectoryError, "nowhere is not a run"),
    (lambda: envhub.compare("format2", "ok"), RunDirectoryError, "the format 3", "Use the version"),
    (lambda: envhub.report("names"), RunDirectoryError, "plan.suites", "Restore the file"),
    (lambda: envhub.make_env("./nowhere"), UsageError, "./nowhere does not exist", "Check the"),
    (lambda: envhub.make_env("./file.txt"), UsageError, "is not a Python file", "name a .py file"),
    (lambda: envhub.make_env("./empty"), UsageError, "has no env.py", "name the file"),
    (lambda: envhub.make_env("./fifo"), UsageError, "is not a Python file", "name a .py file"),
    (lambda: envhub.make_env(""), InvalidReference, "it is empty", "Name a benchmark"),
    (lambda: envhub.make_env("a b"), InvalidReference, "not the name of a benchmark", "write ./"),
    (lambda: envhub.make_env("o/r"), UnpinnedReference, "can change at any time", "envhub trust"),
    (lambda: envhub.make_env(f"o/r@{HEX}"), RemoteCodeRefused, "nobody here has agreed", "trust"),
    (lambda: envhub.make_env("./bench", 0), UsageError, "n_envs"),
    (lambda: envhub.make_env("./bench", -1), UsageError, "n_envs"),
    (lambda: envhub.make_env("./bench", 1.5), UsageError, "n_envs"),
    (lambda: envhub.evaluate("./nowhere"), UsageError, "./nowhere does not exist", "Check the"),
    (lambda: envhub.evaluate("./big.py"), UsageError, "3,072 MB", "name the file with the code"),
    (lambda: envhub.evaluate("o/r@main"), UnpinnedReference, "can change", "envhub trust"),
    (lambda: envhub.evaluate("./bench", workers=0, out="full"), RunDirectoryError, "Choose"),
    (lambda: envhub.evaluate("./bench", workers=0, out="ok"), RunDirectoryError, "--resume ok"),
    (lambda: _evaluate(tasks="neer"), UnknownName, "'neer'", "Did you mean 'near'"),
    (lambda: _evaluate(suites="nowhere"), UnknownName, "'nowhere'", "Available: all, long, short"),
    (lambda: _evaluate("ranom"), UnknownName, "'ranom'", "Did you mean 'random'"),
    (lambda: _evaluate("./nowhere.py"), UsageError, "./nowhere.py does not exist", "Check the"),
    (lambda: _evaluate("./policy.py:unmade"), ContractError, "ValueError: no weights (policy.py"),
    (lambda: _evaluate("./policy.py:no_policy"), ContractError, "no method act(obs, episodes)"),
    (lambda: _evaluate(env_args={"unknown": 1}), ContractError, "unexpected keyword argument"),
    (lambda: envhub.Task("a b", "", 3), InvalidBenchmark, "'a b'", "names are plain text"),
    (lambda: envhub.Task("a", "", 0), InvalidBenchmark, "horizon must be a whole number from 1"),
    (lambda: envhub.Benchmark("a", ":make", {}), InvalidBenchmark, "suites"),
    (lambda: envhub.nothing, AttributeError, "has no attribute 'nothing'"),
]


def _evaluate(policy: object = "zero", **question: object) -> object:
    return envhub.evaluate("./bench", policy, workers=0, out="fresh", **question)


@pytest.mark.parametrize(("call", "error", "words"), [(row[0], row[1], row[2:]) for row in PYTHON])
def test_a_wrong_call(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
