"""The benchmark keeps EnvHub's contract, and its numbers mean something."""

from pathlib import Path

import envhub
from envhub.testing import BenchmarkConformance

ROOT = Path(__file__).parent.parent
NAME = "{{cookiecutter.__name}}"


class TestContract(BenchmarkConformance):
    """Everything that `envhub check` checks."""

    ref = ROOT


def rate(policy: str, out: Path) -> float:
    run = envhub.evaluate(ROOT, policy, episodes=5, workers=2, out=out)
    found = run.summary().overall.rate
    assert found is not None
    return found


def test_the_expert_solves_it_and_random_actions_do_not(tmp_path: Path) -> None:
    assert rate("expert", tmp_path / "expert") > 0.9
    assert rate("random", tmp_path / "random") < 0.2


def test_the_installed_package_is_the_same_benchmark(tmp_path: Path) -> None:
    traces = []
    for ref in (ROOT, NAME):
        out = tmp_path / Path(ref).name
        run = envhub.evaluate(ref, "expert", episodes=1, workers=1, out=out)
        traces.append([record.trace for record in run.records()])
    assert traces[0] == traces[1]
