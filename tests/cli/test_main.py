"""The real command, run as a process with a clean environment."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from perf.dummies import UNWANTED
from support.commands import envhub, refused
from support.disks import SmallDisk
from support.needs import needs_own_mount
from support.paths import ASSETS
from support.processes import wait_until
from support.run_tools import ENVHUB, Answer, outcomes, variables
from support.run_tools import envhub as run_envhub

from envhub import open_run
from envhub.cli import COMMANDS


class TestNothingIsImported:
    """`import envhub`, `--help` and `list` load no plugin, no simulator, no Hub client."""

    HEAVY = frozenset({*UNWANTED, "gymnasium", "numpy", "msgspec", "rich", "asyncio"})

    @staticmethod
    def imported(argv: list[object], site: Path) -> set[str]:
        """The modules that a Python process imports or tries to."""
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *argv],
            env=variables(PYTHONPATH=str(site)),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip() for line in lines}

    @pytest.mark.parametrize(
        "argv",
        [
            ["-c", "import envhub"],
            ["-c", "from envhub import *"],
            [ENVHUB, "--help"],
            [ENVHUB, "--version"],
            [ENVHUB, "list"],
            [ENVHUB, "list", "--json"],
            [ENVHUB, "list", "--help"],
        ],
        ids=lambda argv: " ".join(map(str, argv[-2:])).replace(f"{ENVHUB} ", ""),
    )
    def test_by_what_reads_only(self, site, argv):
        modules = {name.partition(".")[0] for name in self.imported(argv, site)}
        assert "envhub" in modules
        if argv == ["-c", "from envhub import *"]:
            return  # every name is looked up, so that only the plugins must not be there
        assert not modules & self.HEAVY
        assert not {name for name in modules if name.startswith("envhub_")}

    def test_the_list_is_whole(self, site):
        answer = envhub("list", "--json", PYTHONPATH=str(site))
        names = [row["name"] for row in json.loads(answer.out)["benchmarks"]]
        others = [name for name in names if not name.startswith(("libero", "metaworld"))]
        assert others == [f"dummy-{n:02}" for n in range(50)]

    def test_importing_one_would_be_seen(self, site):
        argv = ["-c", "try:\n import envhub_dummy_07\nexcept RuntimeError:\n pass"]
        assert "envhub_dummy_07" in self.imported(argv, site)


class TestUsage:
    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_help(self, flag):
        answer = envhub(flag)
        assert (answer.code, answer.err) == (0, "")
        commands = answer.out.partition("Evaluate:\n")[2]
        assert re.findall(r"^  (\w+)", commands, re.M) == list(COMMANDS)

    @pytest.mark.parametrize(
        "command", sorted(COMMANDS.keys() - {"completion", "new", "publish", "serve"})
    )
    def test_help_of_a_command_has_an_example(self, command):
        answer = envhub(command, "--help")
        assert (answer.code, answer.err) == (0, "")
        assert f"envhub {command}" in answer.out.partition("Example")[2]
        assert "--json" in answer.out

    def test_version(self):
        from envhub import __version__

        assert envhub("--version") == Answer(0, f"envhub, version {__version__}\n", "")

    def test_nothing_said(self):
        refused(envhub(), 2, "Usage: envhub", "Evaluate:")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["lst"], "envhub: No command is called 'lst'. Did you mean 'list' or 'trust'?"),
            (
                ["frobnicate"],
                "envhub: No command is called 'frobnicate'. Available: assets, cache, check, ",
            ),
            (["--nonsense"], "No such option"),
            (["info"], "Missing argument 'REF'"),
            (["info", "./hooks", "extra"], "unexpected extra argument"),
            (["info", "./hooks", "--jsn"], "--json"),
            (["info", "./hooks", "--max-steps", "0"], "'--max-steps'"),
            (
                ["list", "./hooks", "--timeout", "act=3"],
                "--timeout has no phase 'act'. Available: start",
            ),
            (["list", "./hooks", "--timeout", "start=x"], "'x' is not a number of seconds"),
            (["list", "./hooks", "--timeout", "0"], "a limit must be a positive number of seconds"),
            (
                ["list", "./hooks", "--timeout", "nan"],
                "a limit must be a positive number of seconds",
            ),
            (["list", "./hooks", "--env-arg", "a"], "--env-arg 'a' is not KEY=VALUE"),
            (["list", "./hooks", "--env-arg", "1=a"], "--env-arg '1=a' is not KEY=VALUE"),
            (
                ["list", "./hooks", "--env-arg", "a=[[1e999]]"],
                "a: [[1e999]] is not a 64-bit number.",
            ),
            (["list", "./hooks", "--env-arg", f'a={{"b": {2**64}}}'], "is not a 64-bit number."),
            (
                ["list", "./hooks", "--env-arg", 'a={"\\ud800": 1}'],
                "is text that UTF-8 cannot encode.",
            ),
            (["list", "./hooks", "--env-arg", f"a={'[' * 18}{']' * 18}"], "deeper than 16 levels."),
            (["list", "./hooks", "--env-arg", f"a={'[' * 99999}"], "deeper than 16 levels."),
            (["list", "./hooks", "--env-arg", "a=1", "--env-arg", "a=2"], "'a' is given twice"),
        ],
    )
    def test_what_cannot_be_meant(self, arguments, said):
        refused(envhub(*arguments), 2, said)


class TestInterruptions:
    @staticmethod
    def start(tmp_path: Path, *arguments: str, **options: object) -> tuple[subprocess.Popen, int]:
        """A command that hangs in its env file, and the process id of the worker there."""
        file = tmp_path / "pid"
        (tmp_path / "env.py").write_text(
            "import os, time\nfrom pathlib import Path\n"
            f"Path({str(file)!r}).with_suffix('.new').write_text(str(os.getpid()))\n"
            f"Path({str(file)!r}).with_suffix('.new').rename({str(file)!r})\n"
            "time.sleep(3600)\n"
        )
        (tmp_path / "scratch").mkdir()
        command = subprocess.Popen(
            [ENVHUB, *arguments],
            cwd=tmp_path,
            env=variables(TMPDIR=str(tmp_path / "scratch")),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(file.exists)
        return command, int(file.read_text())

    def test_by_the_user(self, tmp_path):
        command, worker = self.start(tmp_path, "info", ".")
        command.send_signal(signal.SIGINT)
        out, err = command.communicate()
        assert (command.returncode, out, err.strip()) == (130, "", "")
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
        assert list((tmp_path / "scratch").iterdir()) == []

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_by_others(self, tmp_path, number):
        command, worker = self.start(tmp_path, "info", ".")
        command.send_signal(number)
        command.communicate()
        assert command.returncode == -number
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
        wait_until(lambda: list((tmp_path / "scratch").iterdir()) == [])

    def test_nobody_reads_on(self):
        command = subprocess.Popen(
            [ENVHUB, "list", "./hooks"],
            cwd=ASSETS,
            env=variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        command.stdout.close()
        assert command.stderr.read() == ""
        command.stderr.close()
        assert command.wait() == 1


# Limits of the machine


class TestTemporaryDirectory:
    @staticmethod
    def said(directory: Path | str, problem: str) -> str:
        return (
            f"envhub: No scratch directory can be made in {directory}: {problem}. Set TMPDIR to an "
            "existing directory that you can write to and that has free space.\n"
        )

    def test_it_does_not_exist(self, tmp_path):
        answer = envhub("info", "./run_walk", TMPDIR=str(tmp_path / "nowhere"))
        assert answer == Answer(2, "", self.said(tmp_path / "nowhere", "No such file or directory"))

    def test_it_is_a_file(self, tmp_path):
        (tmp_path / "file").touch()
        answer = envhub("info", "./run_walk", TMPDIR=str(tmp_path / "file"))
        assert answer == Answer(2, "", self.said(tmp_path / "file", "Not a directory"))

    def test_nobody_can_write_to_it(self):
        """Not even root can make a directory there."""
        answer = envhub("info", "./run_walk", TMPDIR="/proc/self/fd")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("envhub: No scratch directory can be made in /proc/self/fd: ")
        assert answer.err.count("\n") == 1

    @needs_own_mount
    def test_it_is_full(self, tmp_path):
        place = tmp_path / "disk"
        place.mkdir()
        disk = SmallDisk(place, "64k,nr_inodes=1")
        out = tmp_path / "run"
        question = ("eval", "./run_walk", "--policy", "zero", "--workers", 1, "--out", out)
        try:
            answer = run_envhub(*question, disk=disk, TMPDIR=str(place))
        finally:
            disk.close()
        assert answer == Answer(2, "", self.said(place, "No space left on device"))
        assert not out.exists()


FEW = 'ulimit -n "$0" && exec "$@"'


def test_few_descriptors(tmp_path):
    """One sentence, and the run can be resumed with more of them."""
    limit = 20
    out = tmp_path / "run"
    policy = "./run_policies/walkers.py:make_policy"
    question = ("eval", "./run_walk", "--suite", "all", "--policy", policy, "--episodes", "2")
    argv = [ENVHUB, *question, "--workers", "4", "--out", str(out)]
    done = subprocess.run(
        ["sh", "-c", FEW, str(limit), *argv],
        cwd=ASSETS,
        env=variables(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"envhub: A process may open {limit} files here, which is too few. Raise the limit, e.g. "
        "with ulimit -n 4096, or use fewer workers.\n"
    )
    assert list(tmp_path.glob("envhub-*")) == []
    if not (out / "run.json").exists():
        assert not out.exists()
        return
    assert not open_run(out).complete
    assert run_envhub("eval", "--resume", out, "--workers", 4).code == 0
    assert len(outcomes(out)) == 6


def test_few_descriptors_with_debug():
    python = (sys.executable, "-m", "envhub")  # in a path with a space, a shell starts ENVHUB
    argv = ["sh", "-c", FEW, "8", *python, "info", "./run_walk", "--debug"]
    done = subprocess.run(argv, cwd=ASSETS, env=variables(), capture_output=True, text=True)
    assert "Traceback" in done.stderr
