"""Experiments that are killed at random, and their matrices as LaTeX.

However often an experiment is killed, resumed it has the records and the matrix of single runs.
"""

import json
import os
import random
import shutil
import signal
import string
import subprocess
import time
from pathlib import Path

import pytest
from support.forked import ENVHUB
from support.manifests import write_run
from support.run_tools import WALK, WALKERS, ended, envhub, outcomes, snapshot, start

from envhub.results.matrix import Entry, make_matrix
from envhub.results.matrix_text import render_matrix
from envhub.results.run import open_run

KILLS = max(1, round(5 * float(os.environ.get("ENVHUB_SOAK", "1"))))
SEED = int(os.environ.get("ENVHUB_SOAK_SEED", "0"))
FILE = f"""
baseline = "timid"
seeds = [0, 1, 2]
[options]
retries = 20
[policies]
timid = "{WALKERS}"
"noisy 50 % & more" = "{WALKERS}:noisy_chunked"
[benchmarks.short_ones]
ref = "{WALK}"
tasks = ["near", "back"]
episodes = 6
env_args = {{pause = 0.02}}
[benchmarks.far]
ref = "{WALK}"
tasks = ["far"]
episodes = 5
env_args = {{pause = 0.03}}
"""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that was killed at random moments, and resumed until it was complete."""
    place = tmp_path_factory.mktemp("experiment")
    path, out, chance = place / "sweep.toml", place / "out", random.Random(SEED)
    path.write_text(FILE)
    kills = 0
    while True:
        begun = (out / "experiment.json").exists()
        words = ("--resume", out) if begun else (path, "--out", out, "--continue")
        command = start("eval", *words, "--workers", "2", "--json", "--quiet")
        if kills == KILLS:
            answer = ended(command)
            assert answer.code == 0, answer
            print(f"killed {kills} times, seed {SEED}")
            return out
        time.sleep(chance.uniform(1, 9))
        command.send_signal(signal.SIGKILL)
        kills += 1
        ended(command)


def test_records_and_matrix_are_those_of_single_runs(played: Path, tmp_path: Path):
    cells = json.loads((played / "experiment.json").read_text())["cells"]
    assert len(cells) == 12
    for cell in cells:
        words = cell["command"].partition("&& ")[2] or cell["command"]
        single = tmp_path / cell["directory"]
        here = words.replace("envhub", '"$ENVHUB"', 1)
        found = subprocess.run(
            ["bash", "-c", f'cd / && {here} --out "$OUT" --quiet'],
            env={**os.environ, "OUT": str(single), "ENVHUB": str(ENVHUB)},
            check=True,
            capture_output=True,
        )
        assert found.returncode == 0
        assert outcomes(played / cell["directory"]) == outcomes(single)
        actions = [snapshot(place / "actions") for place in (played / cell["directory"], single)]
        assert actions[0] == actions[1]
    shutil.copy(played / "experiment.json", tmp_path)
    matrices = [json.loads(envhub("compare", place, "--json").out) for place in (played, tmp_path)]
    for matrix in matrices:
        for cell in matrix["cells"]:
            del cell["runs"]
    assert matrices[0] == matrices[1]


def test_latex_compiles(played: Path, tmp_path: Path):
    compile_latex(envhub("compare", played, "--format", "latex").out, tmp_path)


@pytest.mark.parametrize("name", [string.printable, "".join(map(chr, range(160, 384)))])
def test_latex_of_any_name_compiles(tmp_path: Path, name: str):
    """No run is played: the names are foreign, the rest is as above."""
    place = write_run(tmp_path / "run", lambda info: None, near="1101", far="01")
    run = open_run(place)
    entries = [Entry(name, name, 0, run), Entry("base", name, 0, run)]
    compile_latex(render_matrix(make_matrix(entries, baseline="base"), "latex"), tmp_path)


def compile_latex(table: str, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is missing: apt install texlive-latex-base texlive-latex-recommended")
    lines = (r"\documentclass{article}\usepackage{booktabs}\begin{document}", table)
    (tmp_path / "table.tex").write_text("\n".join((*lines, r"\end{document}")))
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"],
        cwd=tmp_path,
        capture_output=True,
        encoding="latin-1",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "table.log").read_text("latin-1")
    assert (tmp_path / "table.pdf").stat().st_size > 0
