"""The user's configuration file: what it may set, what wins, and where it is not looked for."""

from pathlib import Path

import pytest
from support.run_tools import WALK, envhub

from envhub.config import config_path, read_setting
from envhub.errors import UsageError
from envhub.files import cache_home


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the configuration of this test's user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "con fig"))

    def write(text):
        path = config_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_without_a_file_all_are_defaults(write):
    names = ("workers", "out", "cache", "log")
    assert {read_setting(name).origin for name in names} == {"default"}
    assert (read_setting("workers").value, read_setting("out").value) == ("auto", "runs")


def test_a_variable_comes_before_the_file(write, monkeypatch):
    path = write('workers = 3\nout = "~/mine"\nlog = "tensorboard"\n')
    assert read_setting("workers").value == 3
    assert read_setting("workers").origin == str(path)
    assert read_setting("out").value == str(Path.home() / "mine")
    assert read_setting("log").value == ("tensorboard",)
    monkeypatch.setenv("ENVHUB_WORKERS", "5")
    monkeypatch.setenv("ENVHUB_LOG", "wandb,mlflow")
    assert (read_setting("workers").value, read_setting("workers").origin) == (5, "ENVHUB_WORKERS")
    assert read_setting("log").value == ("wandb", "mlflow")


def test_the_cache_is_where_the_file_says_unless_a_variable_does(write, tmp_path, monkeypatch):
    write(f'cache = "{tmp_path}/large disk"\n')
    assert cache_home() == tmp_path / "large disk"
    monkeypatch.setenv("ENVHUB_CACHE_DIR", str(tmp_path / "other"))
    assert cache_home() == tmp_path / "other"


def test_a_file_that_changes_is_read_again(write):
    write("workers = 3\n")
    assert read_setting("workers").value == 3
    write("workers = 12\n")
    assert read_setting("workers").value == 12


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers = 2\nout = [\n", "is not TOML: "),
        ("# mine\nworker = 2\n", "line 2: no setting is called 'worker': did you mean 'workers'"),
        (
            "trust_remote_code = true\n",
            "line 1: trust_remote_code cannot be set in a file: what is",
        ),
        ('\n[policies]\na = "zero"\n', "line 2: policies cannot be set in a file"),
        ("workers = 0\n", 'line 1: workers must be "auto" or 1 to 4096, found 0'),
        ("workers = true\n", "found True"),
        ('cache = "here"\n', "cache must be an absolute path, found 'here'"),
        ("out = 3\n", "out must be a path, found 3"),
        ("log = [1]\n", "log must be the name of a logger or a list, found [1]"),
    ],
)
def test_what_a_file_cannot_say(write, text, said):
    path = write(text)
    with pytest.raises(UsageError) as caught:
        read_setting("workers")
    assert str(caught.value).startswith(f"{path}")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_named_and_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVHUB_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match=r"ENVHUB_CONFIG names .*, which does not exist\."):
        read_setting("out")


def test_a_variable_with_nonsense_is_named(monkeypatch):
    monkeypatch.setenv("ENVHUB_WORKERS", "many")
    with pytest.raises(UsageError, match="ENVHUB_WORKERS: workers must be"):
        read_setting("workers")


class TestCommand:
    def test_runs_go_where_the_file_says_and_the_command_line_wins(self, tmp_path):
        file = tmp_path / "mine.toml"
        file.write_text(f'out = "{tmp_path}/my runs"\nworkers = 1\n')
        question = ("eval", WALK, "--policy", "zero", "--task", "near", "--episodes", 1, "--quiet")
        answer = envhub(*question, ENVHUB_CONFIG=str(file))
        assert answer.code == 0, answer.err
        [made] = (tmp_path / "my runs").iterdir()
        assert answer.out.splitlines()[-1] == str(made)
        listed = envhub("runs", ENVHUB_CONFIG=str(file))
        assert made.name in listed.out
        again = envhub(*question, "--out", tmp_path / "here", ENVHUB_CONFIG=str(file))
        assert (again.code, (tmp_path / "here" / "run.json").is_file()) == (0, True)

    def test_a_broken_file_is_a_sentence(self, tmp_path):
        (tmp_path / "mine.toml").write_text("workers = 2\nsandbox = 'none'\n")
        for command in (("eval", WALK), ("doctor",)):
            answer = envhub(*command, ENVHUB_CONFIG=str(tmp_path / "mine.toml"))
            assert (answer.code, answer.out) == (2, "")
            assert f"{tmp_path}/mine.toml, line 2: sandbox cannot be set in a file" in answer.err
            assert "Traceback" not in answer.err

    def test_no_directory_supplies_it(self, tmp_path):
        """Neither the working directory nor the benchmark's."""
        place = tmp_path / "strangers"
        place.mkdir()
        for name in ("config.toml", "envhub.toml", ".envhub/config.toml", "envhub/config.toml"):
            for above in (place, place / ".config"):
                path = above / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f'out = "{tmp_path}/theirs"\n')
        (place / "env.py").write_text((WALK / "env.py").read_text())
        answer = envhub(
            *("eval", ".", "--policy", "zero", "--task", "near", "--episodes", 1, "--quiet"),
            *("--workers", 1),
            cwd=place,
        )
        assert answer.code == 0, answer.err
        assert (place / "runs").is_dir()
        assert not (tmp_path / "theirs").exists()

    def test_doctor_says_where_values_come_from(self, tmp_path):
        (tmp_path / "mine.toml").write_text(f'workers = 2\ncache = "{tmp_path}/cache"\n')
        answer = envhub("doctor", ENVHUB_CONFIG=str(tmp_path / "mine.toml"), ENVHUB_OUT="here")
        for line in (
            f"workers = 2 (from {tmp_path}/mine.toml)",
            "out = here (from ENVHUB_OUT)",
            "log = none (default)",
            f"cache = {tmp_path}/cache (from {tmp_path}/mine.toml)",
        ):
            assert line in answer.out
