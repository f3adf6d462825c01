"""The sandboxes that tests run programs in."""

import tempfile
from pathlib import Path

import pytest
from support.needs import ME, SANDBOXES, USERS
from support.sandboxes import Sandbox, make_sandbox


@pytest.fixture
def directory():
    """One that other users can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="envhub-test-") as name:
        yield Path(name)


@pytest.fixture(params=SANDBOXES)
def kind(request) -> str:
    return request.param


@pytest.fixture(params=USERS)
def user(request) -> str:
    return request.param


@pytest.fixture
def sandbox(kind, user, directory) -> Sandbox:
    return make_sandbox(kind, user, directory)


@pytest.fixture
def mine(kind, directory) -> Sandbox:
    """Only as whoever runs the tests: with this interpreter's packages."""
    return make_sandbox(kind, ME, directory)
