"""How long `make demo` takes on a fresh machine, and what it ends with.

    python tests/perf/demo.py

A clone of the last commit, a home without caches, and packages from the index that pip is set to.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_MOST = 240.0
"""Seconds after which something is wrong; about three minutes are promised."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="envhub demo ") as place:
        project = Path(place, "project")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True)
        began = time.monotonic()
        done = subprocess.run(
            ["make", "demo", f"PYTHON={sys.executable}"],
            cwd=project,
            env={**os.environ, "HOME": place, "ENVHUB_HOME": str(Path(place, "state"))},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
        lines = done.stdout.splitlines()
        page = Path(lines[-1]) if lines else Path()
        films = len(list(page.parent.glob("*/videos/*.mp4"))) if page.is_file() else 0
        print(f"make demo: exit code {done.returncode}, {took:.0f} s, {films} videos, {page.name}")
        return 0 if done.returncode == 0 and films and took <= _MOST else 1


if __name__ == "__main__":
    sys.exit(main())
