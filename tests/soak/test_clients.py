"""What talks to a Hub, with the oldest client that EnvHub allows and with the newest."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ("tests/plugins/localhub", "tests/sources", "tests/e2e/test_hub.py")


@pytest.mark.soak
@pytest.mark.parametrize("version", ["==1.6.*", ">=2,<3"])
def test_a_client(tmp_path, version):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    wanted = (f"{ROOT}[dev]", ROOT / "plugins/localhub", f"huggingface_hub{version}")
    run(python, "-m", "pip", "install", "--quiet", *wanted)
    run(python, "-c", "import huggingface_hub; print(huggingface_hub.__version__)")
    run(python, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses=2", *TESTS)


def run(*argv: str | Path) -> None:
    """Run a tool in the repository; what it prints is in the report of a failure."""
    # EnvHub as it stands here, whatever was installed.
    variables = {
        "PYTHONPATH": f"{ROOT}:{ROOT}/plugins/localhub",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ENVHUB_REQUIRE_ALL": "1",
    }
    done = subprocess.run(
        argv, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
