"""Six simulators from the package index, each by an env file of fifteen lines."""

import pytest
from support.needs import needs_egl, needs_index
from support.simulators import SIMULATORS, check, evaluate

pytestmark = [pytest.mark.soak, needs_egl, needs_index]


@pytest.mark.parametrize("name", sorted(path.name for path in SIMULATORS.iterdir()))
def test_it_evaluates_without_a_display_and_without_a_variable(name, tmp_path, monkeypatch):
    check(evaluate(name, tmp_path / "run", monkeypatch))
