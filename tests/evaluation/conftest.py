"""A recorded run, for those who play it again."""

from pathlib import Path

import pytest
from support.replays import copy_recorded, make_recorded

from envhub import Run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two tasks with two episodes each; not to be changed."""
    return make_recorded(tmp_path_factory.mktemp("made") / "run", tasks="at-end,once", episodes=2)


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    """A copy, which a test may change."""
    return copy_recorded(made, tmp_path / "run")
