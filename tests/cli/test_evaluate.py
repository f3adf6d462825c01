"""`envhub eval`, as a real process: what it prints, how it ends, and what it leaves behind."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.disks import SmallDisk
from support.needs import needs_own_mount
from support.processes import descendants, ending, wait_until
from support.run_tools import (
    ENVHUB,
    WALK,
    WALKERS,
    Answer,
    Outcomes,
    counted,
    ended,
    envhub,
    outcomes,
    snapshot,
    start,
    variables,
)

from envhub import evaluate
from envhub.cli.evaluate import command as evaluate_command
from envhub.errors import UsageError
from envhub.results.journal import write_json
from envhub.results.seal import key_path, seal
from envhub.sandbox.variables import kernel_variables

NOISY = f"{WALKERS}:noisy"
QUESTION = ("--policy", NOISY, "--suite", "all", "--episodes", 3)


def refused(answer: Answer, code: int, *said: str) -> None:
    """Check an error: its code, its words, one or two sentences, nothing else."""
    assert (answer.code, answer.out) == (code, ""), answer
    for part in said:
        assert part in answer.err, answer.err
    assert "Traceback" not in answer.err
    lines = [line for line in answer.err.splitlines() if not line.startswith("No --policy")]
    assert len(lines) <= 2, answer.err


def resume(out: Path, expected: Outcomes) -> None:
    """Go on with a run, to the same end as if nothing had happened."""
    answer = envhub("eval", "--resume", out, "--workers", 1)
    assert (answer.code, answer.err) == (0, "")
    assert outcomes(out) == expected
    assert not list(out.rglob("*.part"))


def drained(terminal: int) -> bool:
    """Take what a command shows on a terminal, so that it never waits for its reader."""
    try:
        while os.read(terminal, 65536):
            pass
    except BlockingIOError:
        return True
    return True


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    directory = tmp_path / "gate"
    directory.mkdir()
    return directory


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The records of an uninterrupted run, by one process."""
    directory = tmp_path_factory.mktemp("reference") / "run"
    evaluate(str(WALK), NOISY, suites="all", episodes=3, workers=0, out=directory)
    found = outcomes(directory)
    assert len(found) == 9
    assert len({record["trace"] for record in found.values()}) == 9
    return found


class TestOutput:
    def test_a_table_and_a_line_to_paste(self, out, reference):
        answer = envhub("eval", "./run_walk", *QUESTION, "--workers", 2, "--out", out)
        assert (answer.code, answer.err) == (0, "")
        lines = answer.out.splitlines()
        assert lines.pop(0) == f"./run_walk, policy {NOISY}"
        assert lines[0].split() == [
            *("success", "95", "%", "interval", "episodes", "return", "steps", "errors")
        ]
        assert [line.split()[0] for line in lines[1:4]] == ["short/near", "short/back", "long/far"]
        successes = sum(record["success"] for record in reference.values())
        rate = f"{successes / 9:.1%}"
        assert lines[8].split()[:2] == ["overall", rate]
        digest = json.loads((out / "run.json").read_text())["protocol"][7:19]
        assert re.fullmatch(
            rf"\./run_walk \| policy {re.escape(NOISY)} \| protocol {digest} \| "
            rf"seed 0, horizon 20 \| {rate} \[.*%, .*%\] \| 9 episodes, 3 tasks",
            lines[-2],
        )
        assert lines[-1] == str(out)
        assert "\x1b" not in answer.out
        assert outcomes(out) == reference

    def test_json_and_nothing_else(self, out):
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 2),
            *("--workers", 0, "--json", "--out", out),
        )
        assert (answer.code, answer.err) == (0, "No --policy: evaluating random actions.\n")
        shown = json.loads(answer.out)
        assert list(shown) == [
            *("run", "complete", "policy", "protocol", "conventions", "instructions"),
            *("policy_instructions", "line", "evidence", "tasks", "suites", "overall"),
            *("dimensions", "attestations", "baselines"),
        ]
        assert (shown["run"], shown["complete"]) == (str(out), True)
        start_of_line = f"./run_walk | policy random | protocol {shown['protocol'][7:19]} | "
        assert shown["line"].startswith(start_of_line)
        summary = json.loads((out / "summary.json").read_text())
        assert {key: shown[key] for key in summary} == summary

    def test_returns_only(self, out):
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 2, "--policy", "zero"),
            *("--workers", 0, "--env-arg", "silent=true", "--out", out),
        )
        assert (answer.code, answer.err) == (0, "")
        assert re.search(r"\| mean return -[\d.]+ \| 2 episodes, 1 task\n", answer.out)
        assert "█" not in answer.out

    def test_an_observer_that_raises_is_reported_once(self, out, tmp_path):
        (tmp_path / "faulty.py").write_text(
            "from envhub import hookimpl\n\n"
            "@hookimpl\ndef envhub_episode_finished(record):\n"
            "    raise OSError('no \\x1b[2Jdisk')\n"
        )
        info = tmp_path / "faulty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[envhub.observers]\nwatch = faulty\n")
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 3, "--policy", "zero"),
            *("--workers", 0, "--out", out),
            PYTHONPATH=str(tmp_path),
        )
        assert answer.code == 0
        assert answer.err == (
            "envhub: Plugin 'watch' of faulty failed in envhub_episode_finished: OSError: no "
            "\\x1b[2Jdisk; disabled for the rest of this run.\n"
        )
        assert len(outcomes(out)) == 3

    def test_a_logger_that_is_missing_begins_nothing(self, out):
        answer = envhub("eval", "./run_walk", "--policy", "zero", "--log", "mlfow", "--out", out)
        refused(answer, 2, "No logger is called 'mlfow'. Did you mean 'mlflow'?")
        assert not out.exists()

    def test_the_policys_own_limit(self, out):
        """`act` is a phase like the others; a policy that exceeds it has failed."""
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 2, "--retries", 0),
            *("--policy", f"{WALKERS}:hangs", "--timeout", "act=0.3", "--workers", 1),
            *("--out", out),
        )
        assert answer.code == 1
        assert outcomes(out)["near", 1]["status"] == "timeout"
        assert outcomes(out)["near", 1]["error"]["where"] == "policy"
        assert json.loads((out / "run.json").read_text())["limits"]["act"] == 0.3


class TestExitCodes:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["./run_walk", "--task", "neer"], "No task is called 'neer'. Did you mean 'near'"),
            (["./run_walk", "--policy", "ranom"], "Did you mean 'random'?"),
            (["./run_wlak"], "./run_wlak does not exist."),
            ([], "Name a benchmark, or resume a run: envhub eval --resume DIR."),
            (
                ["./run_walk", "--workers", "many"],
                "a number up to 4096 or auto, found",
            ),
            (["./run_walk", "--episodes", "0"], "0 is not in the range x>=1"),
            (["--resume", "nowhere", "--seed", "0"], "--seed cannot be changed: --resume takes it"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_2_what_cannot_be_meant(self, tmp_path, arguments, said):
        shutil.copytree(WALK, tmp_path / "run_walk", ignore=shutil.ignore_patterns("__pycache__"))
        before = snapshot(tmp_path)
        answer = envhub("eval", *arguments, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
        assert "Traceback" not in answer.err
        after = snapshot(tmp_path)
        assert {name: after[name] for name in after if "__pycache__" not in name} == before

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (
                [str(WALK), "--workers", "-1"],
                "must be a number up to 4096 or auto, found '-1'.",
            ),
            ([str(WALK), "--workers", "9999"], "--workers must be a number up to 4096 or auto"),
            ([str(WALK), "--workers", "2.5"], "--workers must be a number up to 4096 or auto"),
            ([str(WALK), "--env-arg", "pause=1e999"], "pause: 1e999 is not a 64-bit number."),
            ([str(WALK), "--env-arg", "pause=NaN"], "pause: NaN is not a 64-bit number."),
            ([str(WALK), "--policy-arg", f"noise={2**64}"], f"{2**64} is not a 64-bit number."),
            ([str(WALK), "--timeout", "nap=3"], "Available: start, reset, step, act."),
            (["--resume", "nowhere"], "nowhere is not a run: it has no run.json."),
            (
                ["--resume", "nowhere", "./run_walk"],
                "--resume takes the benchmark from the run: leave",
            ),
            (["--resume", "nowhere", "--policy", "zero"], "--policy cannot be changed: --resume"),
            (["--resume", "nowhere", "--retries", "1"], "--retries cannot be changed: --resume"),
            (["--resume", "nowhere", "--timeout", "9"], "--timeout cannot be changed: --resume"),
            (["--resume", "nowhere", "--out", "here"], "--out cannot be changed: --resume"),
            (["--resume", "nowhere", "--continue"], "--continue cannot be changed: --resume"),
            ([str(WALK), "--continue"], "--continue needs the run's directory: --out DIR."),
        ],
    )
    def test_2_without_a_process(self, arguments, said):
        with pytest.raises(UsageError, match=re.escape(said)):
            evaluate_command.main(arguments, standalone_mode=False)

    def test_1_some_episodes_errored(self, out, gate):
        (gate / "near.1.raise").touch()
        question = (
            *("eval", "./run_walk", "--task", "near", "--episodes", 3, "--policy", "zero"),
            *("--env-arg", f"gate={gate}", "--retries", 0, "--out", out),
        )
        answer = envhub(*question, "--workers", 1)
        assert answer.code == 1
        assert "1x env_error, the first: " in answer.err
        assert "RuntimeError: the ground gave way" in answer.err
        assert " | 1 errored episode left out (with them 0.0% to 33.3%)" in answer.out
        # Resumed where nothing is in the way any more, it is as if nothing had happened.
        (gate / "near.1.raise").unlink()
        answer = envhub("eval", "--resume", out, "--workers", 0, "--json")
        assert (answer.code, answer.err) == (0, "")
        assert json.loads(answer.out)["overall"]["errors"] == 0
        assert counted(out) == 4
        assert [record["status"] for record in outcomes(out).values()] == ["ok"] * 3

    def test_1_the_policy_failed(self, out):
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 2, "--retries", 0),
            *("--policy", f"{WALKERS}:fails", "--workers", 0, "--out", out, "--json"),
        )
        assert (answer.code, answer.err) == (1, "")
        shown = json.loads(answer.out)["overall"]
        assert (shown["n"], shown["errors"], shown["policy_errors"]) == (2, 0, 1)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["./run_walk", "--policy", f"{WALKERS}:unmade"], "ValueError: no weights"),
            (
                ["./run_walk", "--policy", f"{WALKERS}:no_policy"],
                "object is not a policy: it has no",
            ),
            (["./run_walk", "--policy", f"{WALKERS}:gone"], "gone"),
            (["./raises"], "--debug shows the traceback."),
            (["./no_horizon"], "--max-steps"),
        ],
        ids=["unmade", "no_policy", "gone", "raises", "no_horizon"],
    )
    def test_4_who_breaks_the_contract(self, out, arguments, said):
        refused(envhub("eval", *arguments, "--workers", 0, "--out", out), 4, said)

    def test_4_nothing_ever_works(self, out, gate):
        for index in range(12):
            (gate / f"near.{index}.raise").touch()
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 50, "--workers", 0),
            *("--env-arg", f"gate={gate}", "--retries", 0, "--out", out),
        )
        refused(
            answer, 4, "12 attempts in a row failed with the same error;", "the ground gave way"
        )


class TestTracebacks:
    """What the user's own code raised: where in the sentence, whole in the logs and the record."""

    def test_of_a_policy(self, out):
        question = (
            *("eval", "./run_walk", "--task", "near", "--episodes", 2, "--retries", 0),
            *("--policy", f"{WALKERS}:fails", "--workers", 1, "--out", out),
        )
        answer = envhub(*question)
        line = 1 + WALKERS.read_text().splitlines().index(
            '            raise RuntimeError("I fell\\x1b[2J")'
        )
        assert answer.code == 1
        assert f"I fell\\x1b[2J (walkers.py, line {line}, in act)" in answer.err
        assert "Traceback" not in answer.err
        error = outcomes(out)["near", 1]["error"]
        assert error["traceback"].startswith("Traceback (most recent call last):\n  File ")
        assert f'walkers.py", line {line}, in act' in error["traceback"]
        assert "envhub/evaluation" not in error["traceback"]
        assert error["traceback"] in (out / "logs" / "policy.log").read_text()
        again = envhub("eval", "--resume", out, "--workers", 1, "--debug")
        assert again.code == 1
        assert f'walkers.py", line {line}, in act' in again.err

    @pytest.mark.parametrize("workers", [0, 1])
    def test_of_an_env(self, out, gate, workers):
        (gate / "near.1.raise").touch()
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 3, "--policy", "zero"),
            *("--env-arg", f"gate={gate}", "--retries", 0, "--workers", workers, "--out", out),
        )
        assert re.search(
            r"RuntimeError: the ground gave way \(env.py, line \d+, in _pass\)", answer.err
        )
        trace = outcomes(out)["near", 1]["error"]["traceback"]
        assert ", in reset\n" in trace
        assert trace in (out / "logs" / "worker-0.log").read_text()

    def test_of_a_policy_that_cannot_be_made(self, out):
        question = ("eval", "./run_walk", "--policy", f"{WALKERS}:unmade", "--workers", 1)
        answer = envhub(*question, "--out", out)
        refused(answer, 4, "ValueError: no weights (walkers.py, line ", "--debug shows the trace")
        assert "no weights" in (out / "logs" / "policy.log").read_text()
        shown = envhub(*question, "--out", f"{out}2", "--debug").err
        assert re.search(r'In the worker:\nTraceback .*\n  File ".*/walkers.py", line', shown)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "def make_policy(): ...",
                "action_space, gain=...), but takes (): too many positional arguments.",
            ),
            (
                "class Mine:\n    def act(self, obs): 0\ndef make_policy(*_, gain): return Mine()",
                "Mine.act is called as act(obs, episodes), but takes (obs): too many positional",
            ),
        ],
    )
    def test_of_a_policy_that_cannot_be_called_so(self, text, said, out, tmp_path):
        """Nothing is played: its episodes would count as failures."""
        (tmp_path / "policy.py").write_text(text)
        arguments = ("--policy", f"{tmp_path}/policy.py", "--policy-arg", "gain=2")
        answer = envhub("eval", "./run_walk", *arguments, "--workers", 1, "--out", out)
        refused(answer, 4, said)


class TestMachine:
    """The same episodes compute the same on every CPU, and the run says what it was played on."""

    def test_it_is_recorded(self, out):
        question = ("eval", "./run_walk", "--task", "near", "--episodes", 1, "--policy", "zero")
        answer = ended(start(*question, "--workers", 1, "--out", out))
        assert answer.code == 0
        machine = json.loads((out / "run.json").read_text())["machine"]
        assert list(machine) == ["arch", "cpu", "flags", "libc", "openblas", "gl", "gl_devices"]
        if machine["openblas"] is not None and kernel_variables():
            assert machine["openblas"] == "Haswell"
        own = envhub(*(*question, "--workers", 1, "--out", f"{out}2"), OPENBLAS_CORETYPE="Nehalem")
        assert own.code == 0
        if machine["openblas"] is not None and kernel_variables():
            info = json.loads(Path(f"{out}2", "run.json").read_text())
            assert info["machine"]["openblas"] == "Nehalem"


class TestTooMuch:
    @pytest.mark.parametrize(
        ("what", "continuing"), [("gigabytes", True), ("pipe", False), ("directory", True)]
    )
    def test_a_policy_that_is_no_code_is_refused_at_once(self, place, what, continuing):
        path = place / "odd.py"
        if what == "gigabytes":
            with path.open("wb") as file:
                file.truncate(20 * 2**30)
        elif what == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
        more = ("--out", "run", "--continue") if continuing else ("--out", "new")
        answer = envhub(
            *("eval", "./walk", "--policy", "./odd.py", "--task", "near", "--episodes", 2),
            *("--workers", 0, *more),
            cwd=place,
        )
        refused(answer, 2, "odd.py")
        path.rmdir() if what == "directory" else path.unlink()

    def test_a_thousand_million_episodes_are_refused_at_once(self, out):
        answer = envhub("eval", "./run_walk", "--episodes", 10**9, "--workers", 0, "--out", out)
        refused(answer, 2, "a run has at most 1,000,000: choose fewer, or fewer tasks.")


class TestMaxErrors:
    def test_equal_errors_of_the_policy_stop_the_run(self, out, tmp_path):
        (tmp_path / "bad.py").write_text(
            "class Bad:\n    def act(self, obs, episodes):\n        raise ValueError('no')\n\n"
            "def make_policy(*_):\n    return Bad()\n"
        )
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 50, "--workers", 0),
            *("--policy", tmp_path / "bad.py", "--retries", 0, "--max-errors", 3, "--out", out),
        )
        refused(
            answer,
            4,
            "3 attempts in a row failed with the same error; --max-errors allows more.",
            "ValueError: no (bad.py, line 3, in act)",
            "--debug shows the traceback.",
        )
        assert counted(out) == 2
        again = envhub("eval", "--resume", out, "--workers", 0, "--max-errors", 2)
        refused(again, 4, "2 attempts in a row failed")

    def test_a_run_that_has_worked_before_is_finished(self, out, gate):
        """Its errors are recorded again, however many: they are results."""
        for index in range(1, 5):
            (gate / f"near.{index}.raise").touch()
        answer = envhub(
            *("eval", "./run_walk", "--task", "near", "--episodes", 5, "--policy", "zero"),
            *("--env-arg", f"gate={gate}", "--retries", 0, "--workers", 0, "--out", out),
        )
        assert answer.code == 1
        again = envhub("eval", "--resume", out, "--workers", 0, "--max-errors", 2)
        assert again.code == 1, again.err
        assert counted(out) == 9


class TestComfort:
    @pytest.mark.parametrize(
        ("option", "said"),
        [
            ("--policy", "The policy's name is empty: name one, such as random"),
            ("--suite", "The name of a suite is empty: name one, or leave --suite out."),
            ("--task", "The name of a task is empty: name one, or leave --task out."),
            ("--timeout", "--timeout is empty: write e.g. --timeout start=300,step=60."),
            ("--out", "--out is empty: name a path."),
            ("--resume", "--resume is empty: name a path."),
        ],
    )
    @pytest.mark.parametrize("text", ["", " "])
    def test_an_empty_option_is_an_error(self, tmp_path, monkeypatch, option, said, text):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match=re.escape(said)):
            evaluate_command.main(
                [str(WALK), "--workers", "0", option, text], standalone_mode=False
            )
        assert list(tmp_path.iterdir()) == []

    def test_paths_are_understood_without_a_dot(self, place):
        """Where nothing else can be meant; a bare directory could be an installed benchmark."""
        question = ("--policy", "policy.py", "--task", "near", "--episodes", 1, "--workers", 0)
        (place / "deep" / "er").mkdir(parents=True)
        shutil.copytree(place / "walk", place / "deep" / "er" / "walk")
        answer = envhub("eval", "deep/er/walk", *question, "--out", "a", cwd=place)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("deep/er/walk, policy ./policy.py\n")
        shutil.copy(place / "walk" / "env.py", place / "lone.py")
        answer = envhub("eval", "lone.py", *question, "--out", "b", cwd=place)
        assert (answer.code, answer.err) == (0, "")
        refused(
            envhub("eval", "walk", *question, cwd=place),
            2,
            "No benchmark called 'walk' is installed. For the local path write ./walk",
        )

    def test_home_is_expanded(self, place):
        answer = envhub(
            *("eval", "~/walk", "--policy", "~/policy.py", "--task", "near", "--episodes", 1),
            *("--workers", 0, "--out", "~/new"),
            cwd=Path("/"),
            HOME=str(place),
        )
        assert answer.code == 0, answer.err
        assert answer.out.splitlines()[-1] == str(place / "new")
        answer = envhub("eval", "--resume", "~/new", cwd=Path("/"), HOME=str(place))
        assert answer.code == 0, answer.err
        refused(envhub("eval", "~nobody-there/x", cwd=place), 2, "in the home of somebody unknown")

    def test_python_dash_m(self, place):
        command = [sys.executable, "-m", "envhub", "show", "run"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == envhub("show", "run", cwd=place).out
        done = subprocess.run([*command[:3], "--help"], capture_output=True, text=True)
        assert done.stdout.startswith("Usage: envhub [OPTIONS]")

    def test_the_parents_of_out_do_not_stay_behind(self, tmp_path):
        (tmp_path / "kept").mkdir()
        out = tmp_path / "kept" / "a" / "b" / "run"
        refused(envhub("eval", "./raises", "--policy", "zero", "--workers", 0, "--out", out), 4, "")
        assert list((tmp_path / "kept").iterdir()) == []


class TestDirectories:
    def test_one_that_exists(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        answer = envhub("eval", "./run_walk", "--out", tmp_path)
        refused(answer, 2, f"{tmp_path} exists and is not empty. Choose another --out.")
        assert snapshot(tmp_path) == {"notes.txt": b"mine"}

    def test_one_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        answer = envhub("eval", "./run_walk", "--out", tmp_path / "file" / "run")
        refused(answer, 2, f"{tmp_path}/file/run cannot be written: Not a directory.")
        assert snapshot(tmp_path) == {"file": b"mine"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a complete run, with copies of its benchmark and policy beside it."""
    place = tmp_path_factory.mktemp("finished")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(WALK, place / "walk", ignore=ignore)
    shutil.copy(WALKERS, place / "policy.py")
    answer = envhub(
        *("eval", "./walk", "--policy", "./policy.py", "--task", "near", "--episodes", 2),
        *("--workers", 0, "--out", "run"),
        cwd=place,
    )
    assert answer.code == 0
    return place


@pytest.fixture
def place(finished, tmp_path) -> Path:
    """A copy of all that; what `run.json` says of paths is that of the copy."""
    copy = tmp_path / "place"
    shutil.copytree(finished, copy)
    path = copy / "run" / "run.json"
    info = json.loads(path.read_text().replace(str(finished), str(copy)))
    write_json(path, seal(info))  # the home of this test has a key of its own
    return copy


class TestResume:
    def test_a_finished_run_changes_nothing(self, place):
        before = snapshot(place / "run")
        answer = envhub("eval", "--resume", "run", cwd=place)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.splitlines()[-1] == "run"
        assert "overall" in answer.out
        assert snapshot(place / "run") == before

    @pytest.mark.parametrize(
        ("file", "said"),
        [
            ("policy.py", "The policy's file that run was begun with is "),
            ("walk/env.py", "The benchmark's file env.py that run was begun with is sha256:"),
            ("walk/scene.xml", "The benchmark's file scene.xml that run was begun with is none, "),
        ],
    )
    def test_what_has_changed_is_refused(self, place, file, said):
        with (place / file).open("a") as opened:
            opened.write("\n")
        before = snapshot(place / "run")
        refused(envhub("eval", "--resume", "run", "--workers", 0, cwd=place), 2, said)
        assert snapshot(place / "run") == before

    def test_by_two_at_once(self, out, gate, reference):
        (gate / "near.1").touch()
        question = ("eval", "./run_walk", *QUESTION, "--env-arg", f"gate={gate}")
        with ending(start(*question, "--workers", 1, "--out", out)) as first:
            wait_until((gate / "near.1.waiting").exists)
            before = snapshot(out)
            answer = envhub("eval", "--resume", out)
            said = f"Another process is writing to {out}; wait for it, or stop it."
            refused(answer, 2, said)
            assert snapshot(out) == before
            (gate / "near.1").unlink()
            assert ended(first).code == 0
        assert outcomes(out) == reference


def info_of(out: Path) -> dict:
    return json.loads((out / "run.json").read_text())


class TestContinue:
    ASKED = ("eval", "./walk", "--policy", "./policy.py", "--task", "near", "--episodes", 2)
    QUESTION = (*ASKED, "--workers", 0, "--out", "run", "--continue")

    def test_the_same_command_starts_and_continues(self, out, tmp_path, reference):
        """As a job does that is killed and queued again."""
        question = ("eval", "./run_walk", *QUESTION, "--workers", 1, "--out", out, "--continue")
        for due in (0, 1, 4):
            with ending(start(*question, TMPDIR=str(tmp_path))) as command:
                wait_until(lambda n=due: counted(out) >= n)
                command.kill()
        for _ in range(2):  # a finished one is shown again
            answer = envhub(*question, TMPDIR=str(tmp_path))
            assert (answer.code, answer.err) == (0, "")
            assert outcomes(out) == reference
        before = snapshot(out)
        assert envhub(*question, TMPDIR=str(tmp_path)).code == 0
        assert snapshot(out) == before

    def test_whoever_began_it(self, place):
        """Its records are kept; what its run.json said of the sessions before is not taken over."""
        expected = outcomes(place / "run")
        journal = place / "run" / "episodes.jsonl"
        first = journal.read_text().splitlines(keepends=True)[0]
        journal.write_text(first)
        begun = info_of(place / "run")
        key_path().unlink()  # as on the machine of somebody else
        refused(envhub("eval", "--resume", "run", cwd=place), 2, "does not carry your seal")
        answer = envhub(*self.QUESTION, cwd=place)
        assert (answer.code, answer.err) == (0, "")
        assert journal.read_text().startswith(first)
        assert outcomes(place / "run") == expected
        info = info_of(place / "run")
        assert info.pop("seal") != begun.pop("seal")
        calls = [each["policy"].pop("latency")["calls"] for each in (info, begun)]
        assert calls[0] < calls[1]
        assert info.pop("created") >= begun.pop("created")
        assert info == begun
        assert envhub("eval", "--resume", "run", cwd=place).code == 0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--seed", 5], "The --seed that run was begun with is 0, and now it is 5."),
            (["--episodes", 3], "The --episodes that run was begun with is 2, and now it is 3."),
            (["--max-steps", 3], "The --max-steps that run was begun with is none, and now it"),
            (["--task", "far"], "The suite long that run was begun with is none, and now it is"),
            (["--env-arg", "silent=true"], "The --env-arg silent that run was begun with is none"),
            (["--policy-arg", "noise=0.5"], "The --policy-arg noise that run was begun with is no"),
            (["--policy", "./policy.py:noisy"], "is make_policy of a file, and now it is noisy of"),
            (["--policy", "zero"], "The policy that run was begun with is make_policy of a file"),
        ],
        ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
    )
    def test_another_question_is_refused(self, place, arguments, said):
        before = snapshot(place / "run")
        answer = envhub(*self.QUESTION, *arguments, cwd=place)
        refused(answer, 2, said, "or start a new run in another directory.")
        assert snapshot(place / "run") == before

    def test_a_file_that_the_policy_is_told_of_is_compared(self, place):
        (place / "weights").write_text("1")
        with (place / "policy.py").open("a") as file:
            file.write("\n\ndef weighted(*spaces, weights):\n    return make_policy(*spaces)\n")
        asked = ("--policy", "./policy.py:weighted", "--policy-arg", "weights=./weights")
        question = (*self.QUESTION, *asked, "--out", "other")
        assert envhub(*question, cwd=place).code == 0
        assert envhub(*question, cwd=place).code == 0
        (place / "weights").write_text("2")
        before = snapshot(place / "other")
        said = "The file of --policy-arg weights that other was begun with is sha256:6b86b273ff34"
        refused(envhub(*question, cwd=place), 2, said)
        refused(envhub("eval", "--resume", "other", cwd=place), 2, said)
        assert snapshot(place / "other") == before

    @pytest.mark.parametrize("way", ["import helper", "from . import helper", "import arm.helper"])
    def test_a_file_that_the_policy_imports_is_compared(self, place, way):
        (place / "arm").mkdir()
        for name in ("helper.py", "arm/__init__.py", "arm/helper.py"):
            (place / name).write_text("GAIN = 1\n")
        with (place / "policy.py").open("a") as file:
            file.write(f"\n\n{way}\n")
        question = (*self.QUESTION, "--out", "other")
        assert envhub(*question, cwd=place).code == 0
        (place / "unrelated.py").write_text("GAIN = 3\n")
        assert envhub(*question, cwd=place).code == 0
        name = "arm/helper.py" if "arm" in way else "helper.py"
        (place / name).write_text("GAIN = 2\n")
        before = snapshot(place / "other")
        said = f"The policy's imported file {name} that other was begun with is sha256:"
        refused(envhub(*question, cwd=place), 2, said)
        refused(envhub("eval", "--resume", "other", cwd=place), 2, said)
        assert snapshot(place / "other") == before

    @pytest.mark.parametrize("workers", [0, 1])
    def test_files_of_the_policy_are_found_from_any_directory(self, place, tmp_path, workers):
        (place / "weights").write_text("1")
        with (place / "policy.py").open("a") as file:
            file.write(
                "\n\ndef weighted(*spaces, weights):\n"
                "    return make_policy(*spaces, noise=float(open(weights).read()))\n"
            )
        asked = ("--policy", "./policy.py:weighted", "--policy-arg", "weights=./weights")
        question = (*self.QUESTION, *asked, "--out", "other", "--workers", workers)
        assert envhub(*question, cwd=place).code == 0
        expected, journal = outcomes(place / "other"), place / "other" / "episodes.jsonl"
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])
        question = ("eval", "--resume", place / "other", "--workers", workers)
        answer = envhub(*question, cwd=tmp_path)
        assert (answer.code, answer.err) == (0, "")
        assert outcomes(place / "other") == expected
        (place / "weights").write_text("2")
        said = "The file of --policy-arg weights that "
        refused(envhub(*question, cwd=tmp_path), 2, said)

    @pytest.mark.parametrize("way", ["--out", "--resume"])
    def test_a_policy_that_did_not_load_can_be_fixed(self, place, way):
        """Nothing was recorded, so the directory is not dead."""
        policy = place / "policy.py"
        good = policy.read_text()
        policy.write_text("raise ValueError('no weights')\n")
        question = [*self.QUESTION, "--out", "other"]
        question.remove("--continue")
        refused(envhub(*question, cwd=place), 4, "no weights (policy.py, line 1, in <module>)")
        policy.write_text(good)
        again = question if way == "--out" else ("eval", "--resume", "other", "--workers", 0)
        answer = envhub(*again, cwd=place)
        assert (answer.code, answer.err) == (0, "")
        assert outcomes(place / "other") == outcomes(place / "run")
        refused(envhub(*question, cwd=place), 2, "other exists and is not empty. Resume it with")

    def test_a_record_with_another_seed_is_refused(self, place):
        journal = place / "run" / "episodes.jsonl"
        seed = outcomes(place / "run")["near", 1]["seed"]
        journal.write_text(journal.read_text().replace(f'"seed":{seed},', '"seed":7,'))
        said = f"is not a record of this run: its seed is 7, and the plan's is {seed}."
        refused(envhub(*self.QUESTION, cwd=place), 2, said)
        refused(envhub("eval", "--resume", "run", cwd=place), 2, said)

    def test_what_a_policy_left_that_did_not_load_is_taken_over(self, place):
        question = (*self.QUESTION, "--out", "other")
        refused(envhub(*question, "--policy", "./policy.py:unmade", cwd=place), 4, "no weights")
        assert (place / "other" / "run.json").exists()
        assert envhub(*question, cwd=place).code == 0
        assert outcomes(place / "other") == outcomes(place / "run")

    def test_what_a_host_left_that_was_killed_is_taken_over(self, place):
        """Also below the benchmark, whose files it is not one of."""
        other = place / "walk" / "other"
        (other / "logs").mkdir(parents=True)
        (other / "logs" / "worker-0.log").write_text("hello\n")
        (other / "episodes.jsonl").write_text('{"torn')
        (other / ".run.json-00.part").write_text("{")
        assert envhub(*self.QUESTION, "--out", other, cwd=place).code == 0
        assert outcomes(other) == outcomes(place / "run")
        assert info_of(other)["benchmark"]["files"] == info_of(place / "run")["benchmark"]["files"]
        assert envhub(*self.QUESTION, "--out", other, cwd=place).code == 0

    def test_what_is_no_run_is_refused(self, place):
        (place / "other").mkdir()
        (place / "other" / "notes.txt").write_text("mine")
        answer = envhub(*self.QUESTION, "--out", "other", cwd=place)
        refused(answer, 2, "other exists and is not empty. Choose another --out.")
        (place / "run" / "run.json").unlink()
        before = snapshot(place)
        answer = envhub(*self.QUESTION, cwd=place)
        refused(answer, 2, "run exists and is not empty. Choose another --out.")
        assert snapshot(place) == before

    def test_by_two_at_once(self, tmp_path, out):
        """The second must not tidy up what the first has only just made."""
        (tmp_path / "walk").mkdir()
        text = (WALK / "env.py").read_text()
        waiting = f"while Path({str(tmp_path / 'wait')!r}).exists(): time.sleep(0.005)\n"
        here = f"Path({str(tmp_path / 'here')!r}).touch()\n"
        (tmp_path / "walk" / "env.py").write_text(f"{text}\n{here}{waiting}")
        (tmp_path / "wait").touch()
        question = ("eval", tmp_path / "walk", "--policy", "zero", "--task", "near")
        question = (*question, "--workers", 1, "--out", out, "--continue")
        with ending(start(*question)) as first:
            wait_until((tmp_path / "here").exists)
            refused(envhub(*question), 2, f"Another process is writing to {out}; wait for it")
            (tmp_path / "wait").unlink()
            assert ended(first).code == 0
        assert len(outcomes(out)) == 3

    def test_a_home_that_cannot_be_written(self, place):
        """Runs are evaluated all the same, and continued with --continue."""
        question = (*self.QUESTION, "--out", "other")
        answer = envhub(*question, cwd=place, XDG_STATE_HOME="/proc")
        assert answer.code == 0
        assert answer.err == (
            "/proc/envhub/run.key cannot be kept, so this run cannot be resumed with --resume. If "
            "it is interrupted, repeat the command with --out and --continue.\n"
            "/proc/envhub/questions.json cannot be kept, so the runs of this question are not "
            "counted: No such file or directory.\n"
        )
        assert info_of(place / "other")["seal"] is None
        answer = envhub("eval", "--resume", "other", cwd=place, XDG_STATE_HOME="/proc")
        refused(answer, 2, "envhub eval REF --policy P --out other --continue")
        assert envhub(*question, cwd=place).code == 0
        assert info_of(place / "other")["seal"] is not None


class TestInterruptions:
    QUESTION = ("eval", "./run_walk", *QUESTION, "--workers", 2)

    def begin(self, out: Path, gate: Path) -> "subprocess.Popen[str]":
        """A run with one episode recorded, at least, and two that wait at the gate."""
        for name in ("near.1", "back.1", "far.1"):
            (gate / name).touch()
        command = start(*self.QUESTION, "--env-arg", f"gate={gate}", "--out", out)
        wait_until(lambda: len(list(gate.glob("*.waiting"))) == 2)
        return command

    @pytest.mark.parametrize(
        ("number", "again"),
        [
            (signal.SIGINT, "press Ctrl-C again"),
            (signal.SIGHUP, "send a second SIGHUP"),
        ],
    )
    def test_one_signal_finishes_what_is_under_way(self, out, gate, reference, number, again):
        with ending(self.begin(out, gate)) as command:
            done = counted(out)
            command.send_signal(number)
            assert command.stderr.readline() == (
                f"Finishing the episodes under way; {again} to stop at once.\n"
            )
            for name in gate.glob("*.1"):
                name.unlink()
            answer = ended(command)
        assert answer.code == 130
        assert answer.err == f"Interrupted. Resume with: envhub eval --resume {out}\n"
        assert "overall" in answer.out
        assert 1 <= done < counted(out) == done + 2 < 9
        resume(out, reference)

    def test_a_second_signal_stops_at_once(self, out, gate, reference):
        number = signal.SIGINT
        with ending(self.begin(out, gate)) as command:
            below = descendants(command.pid)
            assert len(below) >= 3
            done = counted(out)
            command.send_signal(number)
            assert "Finishing" in command.stderr.readline()
            command.send_signal(number)
            answer = ended(command)
        assert (answer.code, answer.out) == (130, "")
        assert answer.err == f"Interrupted. Resume with: envhub eval --resume {out}\n"
        assert counted(out) == done
        assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
        for name in gate.glob("*.1"):
            name.unlink()
        resume(out, reference)

    def test_a_signal_before_anything_began_leaves_nothing(self, tmp_path, out):
        (tmp_path / "walk").mkdir()
        (tmp_path / "walk" / "env.py").write_text(
            f"import time\nopen({str(tmp_path / 'here')!r}, 'w')\ntime.sleep(3600)\n"
        )
        with ending(start("eval", tmp_path / "walk", "--policy", "zero", "--out", out)) as command:
            wait_until((tmp_path / "here").exists)
            command.send_signal(signal.SIGTERM)
            assert ended(command) == Answer(130, "", "")
        assert not out.exists()

    def test_a_signal_that_is_ignored_stays_ignored(self, out, gate):
        """As with nohup."""
        (gate / "near.0").touch()
        question = ("./run_walk", "--task", "near", "--policy", "zero", "--episodes", 1)
        arguments = (*question, "--env-arg", f"gate={gate}", "--workers", 1, "--out", out)
        command = subprocess.Popen(
            ["nohup", ENVHUB, "eval", *map(str, arguments)],
            cwd=WALK.parent,
            env=variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with ending(command):
            wait_until((gate / "near.0.waiting").exists)
            command.send_signal(signal.SIGHUP)
            (gate / "near.0").unlink()
            assert ended(command).code == 0
        assert len(outcomes(out)) == 1

    def test_a_terminal_that_is_closed(self, out, gate):
        """It sends SIGHUP, and whatever is written there from then on fails."""
        (gate / "near.1").touch()
        question = ("./run_walk", "--task", "near", "--policy", NOISY, "--episodes", 3)
        arguments = (*question, "--env-arg", f"gate={gate}", "--workers", 1, "--out", out)
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        command = subprocess.Popen(
            ["setsid", "--ctty", ENVHUB, "eval", *map(str, arguments)],
            cwd=WALK.parent,
            env=variables(TERM="xterm-256color"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        with ending(command):
            wait_until(lambda: drained(ours) and (gate / "near.1.waiting").exists())
            os.close(ours)
            wait_until(lambda: os.readlink(f"/proc/{command.pid}/fd/2") == os.devnull)
            (gate / "near.1").unlink()
            assert command.wait() == 130
        assert list(outcomes(out)) == [("near", 0), ("near", 1)]
        assert (out / "summary.json").exists()

    def test_killed_at_random_moments(self, out, tmp_path, reference):
        """The host is killed twice, by `make soak` many times; workers and policy go with it."""
        chance = random.Random(0)
        kills = 0
        while True:
            begun = (out / "run.json").exists()
            if not begun:
                shutil.rmtree(out, ignore_errors=True)
            arguments = ("eval", "--resume", out) if begun else (*self.QUESTION, "--out", out)
            with ending(start(*arguments, TMPDIR=str(tmp_path))) as command:
                if kills == 2:
                    answer = ended(command)
                    break
                due = counted(out) + chance.randint(0, 2)
                wait_until(lambda c=command, n=due: c.poll() is not None or counted(out) >= n)
                time.sleep(chance.uniform(0.0, 0.02))
                command.kill()
                kills += 1
        assert (answer.code, answer.err) == (0, "")
        assert outcomes(out) == reference
        assert not list(out.rglob("*.part"))
        wait_until(lambda: not list(tmp_path.glob("envhub-*")))


# File systems that are full, or cannot be written


def no_space(out: Path) -> Answer:
    said = (
        f"envhub: No space is left for {out}. All records so far are complete: free some space and "
        f"resume with envhub eval --resume {out}\n"
    )
    return Answer(2, "", said)


def test_a_disk_that_refuses_in_the_middle_of_a_run(out, gate, reference):
    """A limit on the size of files refuses as a full disk does, without any rights."""
    (gate / "near.1").touch()
    question = ("eval", "./run_walk", *QUESTION, "--env-arg", f"gate={gate}", "--workers", 1)
    with ending(start(*question, "--out", out)) as command:
        wait_until((gate / "near.1.waiting").exists)
        resource.prlimit(command.pid, resource.RLIMIT_FSIZE, (10, 10))
        (gate / "near.1").unlink()
        answer = ended(command)
    assert answer == Answer(2, "", f"envhub: {out} cannot be written: File too large.\n")
    assert not list(out.rglob("*.part"))
    assert list(outcomes(out)) == [("near", 0)]
    resume(out, reference)


def test_what_workers_print_is_not_worth_a_run(out, gate):
    """Their logs cannot be written any more: the run goes on."""
    (gate / "near.0").touch()
    question = ("eval", "./run_walk", "--task", "near", "--policy", "zero", "--episodes", 2)
    arguments = ("--env-arg", f"gate={gate}", "--retries", 0, "--workers", 1, "--out", out)
    with ending(start(*question, *arguments)) as command:
        wait_until((gate / "near.0.waiting").exists)
        (out / "logs").rmdir()
        (gate / "near.0.exit").touch()
        (gate / "near.0").unlink()
        answer = ended(command)
    assert answer.code == 1
    assert "Traceback" not in answer.err
    assert "  | falling" in answer.err  # it is quoted all the same
    assert [one["status"] for one in outcomes(out).values()] == ["worker_died", "ok"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 pages; every file of a run takes one at least."""
    place = tmp_path / "disk"
    place.mkdir()
    disk = SmallDisk(place, "96k")
    yield disk
    disk.close()


@needs_own_mount
class TestSmallDisk:
    def test_it_is_full(self, small_disk, tmp_path):
        out = small_disk.place / "run"
        question = ("eval", "./run_walk", "--policy", NOISY, "--suite", "all", "--episodes", 9)
        answer = envhub(*question, "--workers", 1, "--out", out, disk=small_disk)
        assert answer == no_space(out)
        seen = small_disk.seen(out)
        whole = counted(seen)
        assert 5 < whole < 27
        again = ("eval", "--resume", out, "--workers", 1)
        assert envhub(*again, disk=small_disk) == no_space(out)
        assert counted(seen) == whole
        small_disk.remount("size=8m")
        once = tmp_path / "once"
        evaluate(str(WALK), NOISY, suites="all", episodes=9, workers=0, out=once)
        answer = envhub(*again, disk=small_disk)
        assert (answer.code, answer.err) == (0, "")
        assert outcomes(seen) == outcomes(once)
        assert not list(seen.rglob("*.part"))

    def test_it_is_full_in_the_middle_of_a_run(self, small_disk, gate, reference):
        (gate / "near.1").touch()
        out = small_disk.place / "run"
        filler = small_disk.seen(small_disk.place) / "filler"
        question = ("eval", "./run_walk", *QUESTION, "--env-arg", f"gate={gate}", "--workers", 1)
        with ending(start(*question, "--out", out, disk=small_disk)) as command:
            wait_until((gate / "near.1.waiting").exists)
            with suppress(OSError):
                filler.write_bytes(b"x" * 96 * 1024)
            (gate / "near.1").unlink()
            assert ended(command) == no_space(out)
        assert list(outcomes(small_disk.seen(out))) == [("near", 0)]
        filler.unlink()
        small_disk.remount("size=8m")
        answer = envhub("eval", "--resume", out, "--workers", 1, disk=small_disk)
        assert (answer.code, answer.err) == (0, "")
        assert outcomes(small_disk.seen(out)) == reference

    def test_it_is_full_from_the_start(self, small_disk):
        (small_disk.seen(small_disk.place) / "filler").write_bytes(b"x" * 96 * 1024)
        out = small_disk.place / "run"
        question = ("eval", "./run_walk", "--policy", "zero", "--workers", 0, "--out", out)
        assert envhub(*question, disk=small_disk) == no_space(out)
        assert not small_disk.seen(out).exists()

    def test_it_cannot_be_written(self, small_disk, place):
        disk, seen = small_disk.place, small_disk.seen(small_disk.place)
        shutil.copytree(place / "run", seen / "run")
        before = snapshot(seen)
        small_disk.remount("ro")
        answer = envhub("eval", "--resume", disk / "run", disk=small_disk)
        assert (answer.code, answer.err) == (0, "")  # it is finished: there is nothing to write
        assert answer == envhub("show", disk / "run", disk=small_disk)
        answer = envhub("eval", "./run_walk", "--out", disk / "other", disk=small_disk)
        refused(answer, 2, f"{disk}/other cannot be written: Read-only file system.")
        assert snapshot(seen) == before
        small_disk.remount("rw")
        (seen / "run" / "episodes.jsonl").write_text("")
        small_disk.remount("ro")
        answer = envhub("eval", "--resume", disk / "run", disk=small_disk)
        refused(answer, 2, f"{disk}/run cannot be written: Read-only file system.")
