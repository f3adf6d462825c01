"""`envhub info`: of files that work, of files that do not, and of plugins."""

import json
import shutil

import pytest
from support.commands import CONTROL, envhub, refused
from support.paths import ASSETS
from support.run_tools import Answer

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
    "no_benchmark": ("env.py is not a benchmark: it has neither", "Add one of them."),
    "bad_return": ("make_env must return a gymnasium Env", "at suite / task: an int."),
    "misspelled_hook": (
        "'misspelled_hook' implements envhub_benchmark, which is not a hook; the hooks are",
        "envhub_benchmarks",
    ),
    "two_benchmarks": ("env.py declares 2 benchmarks; declare one.",),
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
            (["./published_plain", "--env-arg", "size=3"], "takes no argument 'size': leave that"),
            (["./published_plain", "--env-arg", "n_envs=3"], "EnvHub sets n_envs itself: leave"),
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
        last = "envhub.errors.UsageError: ./nothing does not exist. Check the path.\n"
        assert answer.err.endswith(last)


GOOD = {
    "hooks": ("counting", {"small": ["three", "five"], "all": ["three", "five", "nine"]}),
    "published_plain": ("published_plain", {"published_plain": ["published_plain"]}),
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

    def test_info_as_text(self, tmp_path):
        for name in ("counting.py", "env.py", "goals.txt"):
            shutil.copy(ASSETS / "hooks" / name, tmp_path)
        (tmp_path / "README.md").write_text("Not part of the protocol.")
        answer = envhub("info", ".", cwd=tmp_path)
        assert answer == Answer(
            0,
            "benchmark  counting\n"
            "tasks      3 in 2 suites\n"
            "default    small; 3 episodes per task\n"
            "protocol   counting.py, env.py, goals.txt; not README.md\n"
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

    def test_conventions(self):
        answer = envhub("info", "./conventions", "--env-arg", "control=absolute")
        assert (answer.code, answer.err) == (0, "")
        assert (
            "control    20 Hz\n"
            "convention control ee_pose, rotation axis_angle, gripper positive_closes, "
            "frame world, images upside_down, state ee_axis_angle_gripper\n"
            "lerobot    images upright\n"
        ) in answer.out
        shown = json.loads(envhub("info", "./conventions", "--json").out)
        assert shown["conventions"]["control"] == "ee_delta_pose"
        assert shown["lerobot_conventions"] == {"images": "upright"}

    def test_a_convention_that_does_not_exist(self):
        answer = envhub("info", "./conventions", "--env-arg", "wrong=shut")
        refused(answer, 4, "Benchmark 'arm': the convention gripper is 'shut'", "the nearest is")

    @pytest.mark.parametrize(
        ("arguments", "horizon"),
        [
            (["./no_horizon", "--max-steps", "5"], 5),
            (["./published_cfg", "--env-arg", "steps=7"], 7),
            (["./published_kwargs", "--env-arg", "max_episode_steps=9"], 9),
            (["./published_plain/env.py"], 500),
        ],
    )
    def test_arguments(self, arguments, horizon):
        answer = envhub("info", *arguments, "--json")
        assert (answer.code, answer.err) == (0, "")
        [[task]] = json.loads(answer.out)["suites"].values()
        assert task["horizon"] == horizon

    def test_a_worker_sees_no_secret_and_a_home_of_its_own(self, tmp_path):
        (tmp_path / "env.py").write_text(
            "import os\nfrom pathlib import Path\n"
            "home = sorted(path.name for path in Path.home().iterdir())\n"
            "raise RuntimeError(f'{sorted(os.environ)} {home}')\n"
        )
        secrets = {"HF_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "MUJOCO_GL": "egl"}
        answer = envhub("info", ".", cwd=tmp_path, **secrets)
        refused(answer, 4, "'MUJOCO_GL'", "] [] (env.py, line 4")
        assert "TOKEN" not in answer.err
        assert "SECRET" not in answer.err

    @pytest.mark.parametrize("command", ["info", "list"])
    def test_texts_that_would_rewrite_a_terminal(self, command):
        answer = envhub(command, "./terminal_escapes")
        assert (answer.code, answer.err) == (0, "")
        assert r"count\x1b[2J\x1b]0;owned\x07 to\x9b31m three\u202e" in answer.out
        assert not CONTROL.search(answer.out)


class TestPlugins:
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
