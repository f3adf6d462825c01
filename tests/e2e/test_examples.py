"""The examples of the documentation."""

import pytest
from support.needs import needs_torch
from support.paths import DOCS
from support.simulators import SIMULATORS

import envhub


@pytest.mark.parametrize(
    ("name", "batch"), [("steer", "any"), pytest.param("network", 8, marks=needs_torch)]
)
def test_examples_solve_the_example(name, batch, tmp_path):
    file = f"{DOCS}/examples/policies/{name}.py"
    options = {"suites": "all", "episodes": 2}
    traces = []
    for workers in (0, 2):
        out = tmp_path / str(workers)
        run = envhub.evaluate(f"{DOCS}/examples/reach", file, workers=workers, out=out, **options)
        records = run.records()
        assert len(records) == 10
        assert all(record.success for record in records)
        assert max(record.steps for record in records) <= 20
        assert run.info["policy"]["batch"] == batch
        traces.append([record.trace for record in records])
    assert traces[0] == traces[1]


# Simulators; `make soak` evaluates them


@pytest.mark.parametrize("directory", sorted(SIMULATORS.iterdir()), ids=lambda path: path.name)
def test_the_page_shows_the_env_file_of_each_simulator(directory):
    lines = (directory / "env.py").read_text().splitlines()
    assert lines[0] == "# /// script"
    assert len(lines) <= 15
    include = f"```{{literalinclude}} examples/simulators/{directory.name}/env.py\n```"
    assert include in (DOCS / "simulators.md").read_text()
