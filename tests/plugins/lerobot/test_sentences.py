"""LeRobot's sentences for the tasks of a benchmark, from a package of its layout."""

import importlib
import json

import pytest
from envhub_lerobot.sentences import read_sentences

from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError


def benchmark(name):
    tasks = tuple(Task(task, "the benchmark's", 5) for task in ("push-v3", "new-v3"))
    return Benchmark(name, ":make", {"all": tasks})


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Writes the file that LeRobot has."""
    (tmp_path / "lerobot/envs").mkdir(parents=True)
    (tmp_path / "lerobot/__init__.py").write_text("raise SystemExit('it is not imported')")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    def write(content):
        (tmp_path / "lerobot/envs/metaworld_config.json").write_text(json.dumps(content))

    return write


def test_sentences_of_the_tasks_that_lerobot_knows(installed):
    installed({"TASK_DESCRIPTIONS": {"push-v3": "Push it", "other-v3": "No"}})
    assert read_sentences(benchmark("metaworld")) == {"push-v3": "Push it"}
    assert read_sentences(benchmark("reach")) == {}


@pytest.mark.parametrize("content", [{}, [], {"TASK_DESCRIPTIONS": ["push-v3"]}, None])
def test_a_file_that_is_not_as_expected(installed, content):
    if content is not None:
        installed(content)
    with pytest.raises(ContractError, match=r"metaworld.*(cannot be read|no sentences)"):
        read_sentences(benchmark("metaworld"))
