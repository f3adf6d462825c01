"""The real command, run as a process with a clean environment."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from perf.dummies import UNWANTED, install
from support.paths import ASSETS

from envhub.cli import COMMANDS

ENVHUB = Path(sys.executable).with_name("envhub")

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


def variables(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **more}


def envhub(
    *arguments: str, cwd: Path = ASSETS, python: tuple[str, ...] = (), **more: str
) -> Answer:
    """Run the command."""
    argv = [sys.executable, *python, ENVHUB, *arguments]
    done = subprocess.run(
        argv, cwd=cwd, env=variables(**more), capture_output=True, stdin=subprocess.DEVNULL
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def refused(answer: Answer, code: int, *said: str) -> None:
    """Check an error: its code, its words, nothing else, and nothing that rewrites a terminal."""
    assert (answer.code, answer.out) == (code, ""), answer
    for part in said:
        assert part in answer.err, answer.err
    assert "Traceback" not in answer.err
    assert not CONTROL.search(answer.err), answer.err


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: 50 installed plugins, and simulators, that raise when they are imported."""
    directory = tmp_path_factory.mktemp("site")
    install(directory, 50)
    return directory


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: a plugin that works, one that raises, and two that claim one name."""
    directory = tmp_path_factory.mktemp("counting")
    shutil.copytree(ASSETS / "hooks", directory / "envhub_counting")
    (directory / "envhub_counting" / "env.py").rename(directory / "envhub_counting" / "__init__.py")
    module = directory / "envhub_counting" / "__init__.py"
    module.write_text(module.read_text().replace('":make"', '"envhub_counting:make"'))
    (directory / "broken.py").write_text("raise OSError('no \\x1b[31mlibGL')")
    for name, points in {
        "envhub-counting": "counting = envhub_counting",
        "envhub-broken": "broken = broken",
        "envhub-one": "twice = one",
        "envhub-two": "twice = two",
    }.items():
        info = directory / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[envhub]\n{points}\n")
    return directory


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
        assert [n for n in names if n != "metaworld"] == [f"dummy-{n:02}" for n in range(50)]

    def test_importing_one_would_be_seen(self, site):
        argv = ["-c", "try:\n import envhub_dummy_07\nexcept RuntimeError:\n pass"]
        assert "envhub_dummy_07" in self.imported(argv, site)


class TestUsage:
    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_help(self, flag):
        answer = envhub(flag)
        assert (answer.code, answer.err) == (0, "")
        commands = answer.out.partition("Commands:\n")[2]
        assert re.findall(r"^  (\w+)", commands, re.M) == sorted(COMMANDS)

    @pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"lock", "publish"}))
    def test_help_of_a_command_has_an_example(self, command):
        answer = envhub(command, "--help")
        assert (answer.code, answer.err) == (0, "")
        assert f"envhub {command}" in answer.out.partition("Example")[2]
        assert "--json" in answer.out

    def test_version(self):
        from envhub import __version__

        assert envhub("--version") == Answer(0, f"envhub, version {__version__}\n", "")

    def test_nothing_said(self):
        refused(envhub(), 2, "Usage: envhub", "Commands:")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["lst"], "envhub: No command is called 'lst'. Did you mean 'list' or 'trust'?"),
            (
                ["frobnicate"],
                "envhub: No command is called 'frobnicate'. Available: doctor, eval, ",
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
            (["list", "./hooks", "--env-arg", "a=[1]"], "--env-arg a: [1] is a list or mapping"),
            (["list", "./hooks", "--env-arg", "a=1", "--env-arg", "a=2"], "'a' is given twice"),
        ],
    )
    def test_what_cannot_be_meant(self, arguments, said):
        refused(envhub(*arguments), 2, said)


class TestReferences:
    @pytest.mark.parametrize(
        ("ref", "said"),
        [
            ("./nothing", "envhub: ./nothing does not exist."),
            ("./hooks/goals.txt", "envhub: ./hooks/goals.txt is not a Python file: name a .py"),
            ("..", "envhub: .. has no env.py: name the file"),
            ("", "envhub: Invalid reference ''"),
            ("a b", "envhub: Invalid reference 'a b', at character 2"),
            ("~/my_env", "envhub: Invalid reference"),
            ("a/b/c", "envhub: Invalid reference"),
            ("owner/repo@abcdef1", "a commit has 40 lower-case hex digits, this has 7"),
            ("owner/repo:../env.py", "envhub: Invalid reference"),
            ("\x1b[2Jx", r"envhub: Invalid reference '\x1b[2Jx', at character 1"),
            ("b\u202enigol", r"'b\u202enigol', at character 2: RIGHT-TO-LEFT OVERRIDE"),
            ("owner/repo", "envhub: owner/repo:env.py can change at any time"),
            ("hooks", "No installed benchmark is called 'hooks'."),
        ],
    )
    def test_that_name_nothing(self, ref, said):
        refused(envhub("list", ref, "--json"), 2, said)

    def test_a_path_that_reads_like_a_repository(self):
        answer = envhub("list", "assets/hooks", cwd=ASSETS.parent)
        refused(answer, 2, "for the local path write ./assets/hooks")

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("dummy-7", "No installed benchmark is called 'dummy-7'. Did you mean 'dummy-"),
            ("zzz", "called 'zzz'. Available: dummy-00, dummy-01, dummy-02, "),
            ("yyy", "more. A local one is written ./NAME, one on the Hub owner/repo@"),
        ],
    )
    def test_a_name_that_is_not_installed(self, site, name, said):
        refused(envhub("list", name, PYTHONPATH=str(site)), 2, said)

    def test_a_name_left_out_by_the_limit(self, site):
        limited = {"PYTHONPATH": str(site), "ENVHUB_PLUGINS": "dummy-03"}
        refused(envhub("list", "dummy-04", **limited), 2, "Did you mean 'dummy-03'?")
        assert envhub("list", **limited) == Answer(0, "dummy-03  envhub-dummy-03 1.0\n", "")

    def test_a_path_that_is_not_utf8(self, tmp_path):
        directory = os.fsencode(tmp_path) + b"/\xff"
        os.mkdir(directory)
        shutil.copy(ASSETS / "published" / "env.py", os.fsdecode(directory))
        refused(envhub("list", ".", cwd=Path(os.fsdecode(directory))), 2, "not UTF-8", "Rename")


BAD = {
    "raises": ("RuntimeError: the scene file is damaged", "--debug shows the traceback"),
    "exits": ("SystemExit: no licence found", "--debug shows the traceback"),
    "os_exits": ("its process ended with exit code 3.", "Run its code with python"),
    "hangs": (
        "no answer within 4 s; its process was ended.",
        "Its last lines:\n  | waiting for the simulator\n",
        "Raise the limit with --timeout",
    ),
    "prints": (
        r"ValueError: bad \x1b[31mcolor",
        "  | noise 19999\n",
        r"  | \x1b[2J\x1b]0;owned\x07\x1b[31mred",
        "--debug shows the traceback",
    ),
    "reads_stdin": ("EOFError: EOF when reading a line", "  | Do you accept the licence?"),
    "syntax_error": ("SyntaxError: invalid syntax (env.py, line 3)",),
    "missing_module": (
        "ModuleNotFoundError: No module named 'a_simulator_that_nobody_has'",
        "declare it at the top of the file",
    ),
    "no_benchmark": ("env.py is no benchmark: it has neither", "Add one of them."),
    "bad_return": ("make_env must return a gymnasium Env", "at suite / task: an int."),
    "misspelled_hook": (
        "'misspelled_hook' implements envhub_benchmark, which is no hook; the hooks are",
        "envhub_benchmarks",
    ),
    "two_benchmarks": ("env.py declares 2 benchmarks; declare one.",),
    "no_horizon": ("Task 'no_horizon' has no horizon: give --max-steps, or set",),
}


class TestBadFiles:
    @pytest.mark.parametrize(("name", "said"), BAD.items(), ids=BAD)
    def test_info(self, name, said):
        limit = "start=4" if name == "hangs" else "start=100"
        answer = envhub("info", f"./{name}", "--timeout", limit)
        refused(answer, 4, f" {ASSETS}/{name}/env.py: ", *said)
        assert answer.err.startswith("envhub: ")
        assert len(answer.err.splitlines()) <= 13
        assert answer.err.count("\n  | ") <= 10

    @pytest.mark.parametrize("arguments", [["info", "--json"], ["list"]])
    def test_other_ways_to_ask(self, arguments):
        refused(envhub(*arguments, "./raises"), 4, "RuntimeError: the scene file is damaged")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["./published", "--env-arg", "size=3"], "takes no argument 'size': leave that"),
            (["./published", "--env-arg", "n_envs=3"], "n_envs is EnvHub's to give: leave that"),
            (["./hooks", "--env-arg", "size=3"], "unexpected keyword argument 'size'"),
        ],
    )
    def test_arguments_that_it_does_not_take(self, arguments, said):
        refused(envhub("info", *arguments), 4, said)

    def test_debug(self):
        answer = envhub("info", "./prints", "--debug")
        assert (answer.code, answer.out) == (4, "")
        assert answer.err.count("Traceback (most recent call last):") == 2
        assert f'File "{ASSETS}/prints/env.py", line 8' in answer.err
        assert "\nenvhub.errors.WorkerRaised: " in answer.err
        assert not CONTROL.search(answer.err)

    def test_debug_of_a_wrong_reference(self):
        answer = envhub("info", "./nothing", "--debug")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("Traceback")
        assert answer.err.endswith("envhub.errors.UsageError: ./nothing does not exist.\n")


GOOD = {
    "hooks": ("counting", {"small": ["three", "five"], "all": ["three", "five", "nine"]}),
    "published": ("published", {"published": ["published"]}),
    "bare_env": ("bare_env", {"bare_env": ["bare_env"]}),
    "vector": ("vector", {"vector": ["vector"]}),
    "async_vector": ("async_vector", {"async_vector": ["async_vector"]}),
    "mapping": ("mapping", {"near": ["near.0", "near.1"], "far": ["far.0", "far.1"]}),
    "maker": ("maker", {"maker": ["short", "long"]}),
    "absolute_sibling": ("absolute_sibling", {"absolute_sibling": ["absolute_sibling"]}),
    "package_init": ("package_init", {"package_init": ["package_init"]}),
    "prints_and_works": ("prints_and_works", {"prints_and_works": ["prints_and_works"]}),
}


class TestGoodFiles:
    @pytest.mark.parametrize(("path", "expected"), GOOD.items(), ids=GOOD)
    def test_info_as_json(self, path, expected):
        answer = envhub("info", f"./{path}", "--json")
        assert (answer.code, answer.err) == (0, "")
        shown = json.loads(answer.out)
        suites = {
            suite: [task["name"] for task in tasks] for suite, tasks in shown["suites"].items()
        }
        assert (shown["name"], suites) == expected
        assert shown["action"] == "Discrete(2)"
        assert [feature["name"] for feature in shown["features"]] == ["observation.state"]

    def test_info_as_text(self):
        answer = envhub("info", "./hooks")
        assert answer == Answer(
            0,
            "benchmark  counting\n"
            "tasks      3 in 2 suites\n"
            "default    small; 3 episodes per task\n"
            "action     Discrete(2)\n"
            "\n"
            "suite  tasks  horizon  first task\n"
            "small  2      6-10     three: count to 3\n"
            "all    3      6-18     three: count to 3\n"
            "\n"
            "observation  kind   shape  as a LeRobot policy sees it\n"
            "(itself)     state  1      observation.state\n",
            "",
        )

    @pytest.mark.parametrize(
        ("arguments", "horizon"),
        [
            (["./no_horizon", "--max-steps", "5"], 5),
            (["./published_cfg", "--env-arg", "steps=7"], 7),
            (["./published_kwargs", "--env-arg", "max_episode_steps=9"], 9),
            (["./published/env.py"], 500),
        ],
    )
    def test_arguments(self, arguments, horizon):
        answer = envhub("info", *arguments, "--json")
        assert (answer.code, answer.err) == (0, "")
        [[task]] = json.loads(answer.out)["suites"].values()
        assert task["horizon"] == horizon

    def test_list(self):
        assert envhub("list", ".", cwd=ASSETS / "mapping") == Answer(
            0,
            "near\n  near.0  count to 3\n  near.1  count to 5\n"
            "far\n  far.0  count to 30\n  far.1  count to 50\n",
            "",
        )

    def test_list_as_json(self):
        answer = envhub("list", "./hooks", "--json")
        suites = {"small": ["three", "five"], "all": ["three", "five", "nine"]}
        assert json.loads(answer.out) == {"benchmark": "counting", "suites": suites}

    @pytest.mark.parametrize("command", ["info", "list"])
    def test_texts_that_would_rewrite_a_terminal(self, command):
        answer = envhub(command, "./terminal_escapes")
        assert (answer.code, answer.err) == (0, "")
        assert r"count\x1b[2J\x1b]0;owned\x07 to\x9b31m three\u202e" in answer.out
        assert not CONTROL.search(answer.out)

    def test_a_terminal_that_cannot_show_a_text(self, tmp_path):
        (tmp_path / "env.py").write_text(
            "import gymnasium as gym\n"
            "def make_env():\n"
            "    env = gym.make('CartPole-v1')\n"
            "    env.unwrapped.task = 'turn \u2192'\n"
            "    return env\n",
            encoding="utf-8",
        )
        answer = envhub("list", ".", cwd=tmp_path, PYTHONIOENCODING="latin-1")
        assert (answer.code, answer.err) == (0, "")
        assert r"turn \u2192" in answer.out

    def test_a_worker_sees_no_secret_and_a_home_of_its_own(self, tmp_path):
        (tmp_path / "env.py").write_text(
            "import os\nfrom pathlib import Path\n"
            "home = sorted(path.name for path in Path.home().iterdir())\n"
            "raise RuntimeError(f'{sorted(os.environ)} {home}')\n"
        )
        secrets = {"HF_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "MUJOCO_GL": "egl"}
        answer = envhub("info", ".", cwd=tmp_path, **secrets)
        refused(answer, 4, "'MUJOCO_GL'", "] []\n")
        assert "TOKEN" not in answer.err
        assert "SECRET" not in answer.err


class TestPlugins:
    def test_none(self):
        answer = envhub("plugins", ENVHUB_PLUGINS="")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("No plugins are installed. ")
        found = envhub("plugins", "--json", ENVHUB_PLUGINS="")
        assert found == Answer(0, '{\n  "plugins": []\n}\n', "")

    def test_none_to_list(self):
        assert envhub("list", ENVHUB_PLUGINS="").out.startswith("No benchmarks are installed. ")
        found = envhub("list", "--json", ENVHUB_PLUGINS="")
        assert found == Answer(0, '{\n  "benchmarks": []\n}\n', "")

    def test_good_and_bad_ones(self, counting):
        answer = envhub("plugins", "--json", PYTHONPATH=str(counting))
        assert (answer.code, answer.err) == (1, "")
        rows = {row["distribution"]: row for row in json.loads(answer.out)["plugins"]}
        assert rows["envhub-counting"] == {
            "name": "counting",
            "module": "envhub_counting",
            "distribution": "envhub-counting",
            "version": "1.5",
            "problem": None,
        }
        assert r"OSError: no \x1b[31mlibGL" in rows["envhub-broken"]["problem"]
        for twin in ("envhub-one", "envhub-two"):
            assert "claimed by envhub-one and envhub-two" in rows[twin]["problem"]

    def test_as_text(self, counting):
        limited = {"PYTHONPATH": str(counting), "ENVHUB_PLUGINS": "counting,broken,twice"}
        answer = envhub("plugins", **limited)
        assert (answer.code, answer.err) == (1, "")
        assert "ok       counting  envhub-counting 1.5  envhub_counting\n" in answer.out
        assert "problem  broken    envhub-broken 1.5  broken\n" in answer.out
        assert not CONTROL.search(answer.out)

    def test_a_bad_one_that_is_named_does_not_hide_others(self, counting):
        limited = {"PYTHONPATH": str(counting), "ENVHUB_PLUGINS": "counting,broken"}
        rows = json.loads(envhub("plugins", "--json", **limited).out)["plugins"]
        assert {row["name"]: row["problem"] is None for row in rows} == {
            "broken": False,
            "counting": True,
        }

    def test_a_good_one_beside_bad_ones(self, counting):
        answer = envhub("info", "counting", "--json", PYTHONPATH=str(counting))
        assert (answer.code, answer.err) == (0, "")
        assert json.loads(answer.out)["name"] == "counting"

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("broken", r"of envhub-broken cannot be imported: OSError: no \x1b[31mlibGL"),
            ("twice", "Plugin 'twice' is claimed by envhub-one and envhub-two: uninstall one"),
        ],
    )
    def test_a_bad_one(self, counting, name, said):
        refused(envhub("info", name, PYTHONPATH=str(counting)), 4, said)


class TestDoctor:
    def test_as_json(self):
        answer = envhub("doctor", "--json")
        shown = json.loads(answer.out)
        assert answer.err == ""
        assert answer.code == (0 if shown["ok"] else 1)
        assert "platform" in [check["name"] for check in shown["checks"]]


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


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again; pytest's own limit is the only one."""
    while not condition():
        time.sleep(0.01)
