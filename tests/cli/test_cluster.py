"""`--cluster` where there is no Ray: a sentence, the exit code, and no run."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import envhub, refused
from support.needs import cluster_python, needs_cluster
from support.run_tools import WALK, variables

no_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is not None, reason="Ray is installed beside EnvHub"
)


@no_ray
@pytest.mark.parametrize("command", [("eval", str(WALK)), ("doctor",)])
def test_without_ray_it_says_what_to_install(tmp_path: Path, command):
    answer = envhub(*command, "--cluster", "auto", cwd=tmp_path)
    refused(answer, 2, "--cluster needs the package ray", "pip install './plugins/cluster[ray]'")
    assert not list(tmp_path.iterdir())


def test_cells_of_experiments_play_here(tmp_path: Path):
    (tmp_path / "some.toml").write_text("")
    answer = envhub("eval", "some.toml", "--cluster", "auto", cwd=tmp_path)
    refused(answer, 2, "--cluster is for one evaluation")


@pytest.mark.parametrize(
    "argv",
    [
        ("-c", "import envhub.cli.evaluate"),
        ("-c", "from envhub import *"),
        ("-m", "envhub", "--help"),
        ("-m", "envhub", "list"),
        ("-m", "envhub", "eval", "--help"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    "python",
    [
        pytest.param(Path(sys.executable), id="without Ray"),
        pytest.param(cluster_python(), id="with Ray", marks=needs_cluster),
    ],
)
def test_without_it_nothing_of_it_is_imported(python: Path, argv: tuple[str, ...]):
    command = [python, "-X", "importtime", *argv]
    done = subprocess.run(command, check=True, env=variables(), capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "envhub" in modules
    assert not {"ray", "envhub_cluster"} & modules
