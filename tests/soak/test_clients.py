"""`tests/test_hub.py` with the oldest client that EnvHub allows, and with the newest."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("click", "pytest", "pytest-timeout")


@pytest.mark.soak
@pytest.mark.parametrize("version", ["==1.6.*", ">=2,<3"])
def test_a_client(tmp_path, version):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", f"huggingface_hub{version}", *TOOLS)
    run(python, "-c", "import huggingface_hub; print(huggingface_hub.__version__)")
    run(python, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_hub.py")


def run(*argv: str | Path) -> None:
    """Run a tool in the repository; what it prints is in the report of a failure."""
    # Of this interpreter's packages only EnvHub is to be seen, as it stands here.
    variables = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "ENVHUB_REQUIRE_ALL": "1"}
    done = subprocess.run(
        argv, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
