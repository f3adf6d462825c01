"""`--cluster` where there is no Ray: a sentence, the exit code, and no run."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import envhub, refused
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


def test_without_it_nothing_of_it_is_imported():
    code = (
        "import sys, envhub.cli.evaluate\n"
        "assert not {'ray', 'envhub_cluster'} & {name.split('.')[0] for name in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=variables())
