"""`envhub list`: of what is installed, and of a reference."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.commands import envhub, refused
from support.paths import ASSETS
from support.run_tools import Answer


class TestReferences:
    @pytest.mark.parametrize(
        ("ref", "said"),
        [
            ("./nothing", "envhub: ./nothing does not exist."),
            ("./hooks/goals.txt", "envhub: ./hooks/goals.txt is not a Python file: name a .py"),
            ("..", "envhub: .. has no env.py: name the file"),
            ("", "envhub: Invalid reference ''"),
            ("a b", "envhub: Invalid reference 'a b', at character 2"),
            ("~/my_env", "my_env does not exist. Check the path."),
            ("a/b/c", "envhub: Invalid reference"),
            ("owner/repo@abcdef1", "a commit has 40 lower-case hex digits, this has 7"),
            ("owner/repo:../env.py", "envhub: Invalid reference"),
            ("\x1b[2Jx", r"envhub: Invalid reference '\x1b[2Jx', at character 1"),
            ("b\u202enigol", r"'b\u202enigol', at character 2: RIGHT-TO-LEFT OVERRIDE"),
            ("owner/repo", "envhub: owner/repo:env.py can change at any time"),
            ("hooks", "No benchmark called 'hooks' is installed. For the local path write ./hooks"),
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
            ("yyy", "more. Write ./NAME for a local benchmark, owner/repo@"),
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
        shutil.copy(ASSETS / "published_plain" / "env.py", os.fsdecode(directory))
        refused(envhub("list", ".", cwd=Path(os.fsdecode(directory))), 2, "not UTF-8", "Rename")


class TestOutput:
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

    def test_none_to_list(self):
        assert envhub("list", ENVHUB_PLUGINS="").out.startswith("No benchmarks are installed. ")
        found = envhub("list", "--json", ENVHUB_PLUGINS="")
        assert found == Answer(0, '{\n  "benchmarks": []\n}\n', "")
