"""What `import envhub` offers: a promise, so a change must be made here too."""

import subprocess
import sys

import pytest

import envhub

EXPORTS = [
    "Asset",
    "Benchmark",
    "Comparison",
    "Context",
    "EnvHubError",
    "EpisodeRecord",
    "Limits",
    "Perturbation",
    "Policy",
    "Run",
    "RunDirectoryError",
    "Summary",
    "Task",
    "UsageError",
    "__version__",
    "close_envs",
    "compare",
    "evaluate",
    "experiment",
    "explain",
    "hookimpl",
    "load_lerobot_policy",
    "make_env",
    "normalize",
    "open_run",
    "replay",
    "report",
    "verify",
]


def test_all():
    assert sorted(envhub.__all__) == EXPORTS


@pytest.mark.parametrize("name", EXPORTS)
def test_a_name_is_there(name):
    assert getattr(envhub, name) is not None


def test_star_import():
    names: dict[str, object] = {}
    exec("from envhub import *", names)
    assert set(EXPORTS) <= set(names)


def test_dir_shows_them_before_they_are_used():
    code = "import envhub; print(*dir(envhub))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == EXPORTS


@pytest.mark.parametrize("name", ["nothing", "make_envs", "annotations"])
def test_an_unknown_name(name):
    with pytest.raises(AttributeError, match=f"^module 'envhub' has no attribute '{name}'$"):
        getattr(envhub, name)
    with pytest.raises(ImportError, match="cannot import name"):
        exec(f"from envhub import {name}")
