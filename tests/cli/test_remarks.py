"""What `info`, `list` and `try` remark: tasks that cannot be made, or are not described."""

import json

import pytest
from support.run_tools import envhub


def test_info_warns_of_a_description_that_is_only_a_name():
    answer = envhub("info", "./bare_env")
    assert answer.code == 0
    assert answer.err == (
        "Only the task's name describes bare_env: a policy that reads instructions is not told "
        "what to do. Set task_description on the env. An env may say it after a reset, which "
        "envhub try shows.\n"
    )
    shown = json.loads(envhub("info", "./bare_env", "--json").out)
    assert shown["warnings"] == [answer.err.strip()]


def test_names_in_suites_are_names_too(tmp_path):
    (tmp_path / "env.py").write_text(
        "import gymnasium as gym\n"
        "class Env(gym.Env):\n"
        "    observation_space = action_space = gym.spaces.Discrete(2)\n"
        "    task = '0'\n"
        "def make_env():\n"
        "    return {suite: {0: Env} for suite in 'abcdefg'}\n"
    )
    answer = envhub("info", ".", cwd=tmp_path)
    assert "describes a.0, b.0, c.0, d.0, e.0 and 2 more: a policy" in answer.err
    assert "none" in answer.out  # the horizon


def test_try_shows_what_an_env_says_after_a_reset():
    answer = envhub("try", "./told_after_reset", "--json")
    shown = json.loads(answer.out)
    assert (answer.code, answer.err, shown["warnings"]) == (0, "", [])
    assert shown["description"] in {f"Pick up the {c} cube." for c in ("red", "green", "blue")}
    assert "An env may say it after a reset" in envhub("info", "./told_after_reset").err
    warned = envhub("try", "./bare_env")
    assert warned.code == 0
    assert warned.err.startswith("Only the task's name describes bare_env: ")
    assert "after a reset" not in warned.err


@pytest.mark.parametrize("command", ["info", "list"])
def test_a_task_that_cannot_be_made_is_named(command):
    answer = envhub(command, "./many_tasks", "--env-arg", "broken=0")
    assert answer.code == 0
    assert answer.err.startswith("Task '0' cannot be made, the others can: ValueError: no scene 0")
    assert answer.err.count("\n") == 1
    assert "count to 5" in answer.out if command == "list" else "4 " in answer.out


def test_try_takes_the_first_task_that_can_be_made():
    shown = json.loads(envhub("try", "./many_tasks", "--env-arg", "broken=0", "--json").out)
    assert (shown["task"], shown["steps"], shown["description"]) == ("1", 4, "count to 1")
    asked = envhub("try", "./many_tasks", "--env-arg", "broken=0", "--task", "0")
    assert asked.code == 4
    assert "ValueError: no scene 0" in asked.err


def test_nothing_but_an_evaluation_needs_a_horizon():
    [[task]] = json.loads(envhub("info", "./no_horizon", "--json").out)["suites"].values()
    assert task["horizon"] is None
    assert "no_horizon" in envhub("list", "./no_horizon").out
    shown = json.loads(envhub("try", "./no_horizon", "--json").out)
    assert (shown["steps"], shown["end"]) == (1000, "truncated at the horizon")
