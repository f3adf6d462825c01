"""The benchmark keeps EnvHub's contract."""

from pathlib import Path
{%- if cookiecutter.__one_array == "yes" %}
from types import MappingProxyType
{%- endif %}

import envhub
from envhub.testing import BenchmarkConformance

ROOT = Path(__file__).parent.parent


class TestContract(BenchmarkConformance):
    """Everything that `envhub check` checks."""

    ref = ROOT
{%- if cookiecutter.__one_array == "yes" %}
    waived = MappingProxyType({"lerobot-complete": "The observation is one array."})
{%- endif %}


def test_episodes_end_without_an_error(tmp_path: Path) -> None:
    run = envhub.evaluate(ROOT, "random", episodes=2, workers=1, out=tmp_path / "run")
    assert {record.status for record in run.records()} == {"ok"}
