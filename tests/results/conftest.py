"""What tests of results share."""

from pathlib import Path

import pytest
from support.manifests import write_run


@pytest.fixture
def make_run(tmp_path):
    """Writes runs by hand, see `support.manifests.write_run`."""

    def make(name: str, *arguments, **tasks: str) -> Path:
        return write_run(tmp_path / name, *arguments, **tasks)

    return make
