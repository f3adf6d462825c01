"""What is known of fetched commits, and where it is kept."""

from pathlib import Path

import pytest

from envhub.files import state_home
from envhub.sources import fetched
from envhub.sources.fetched import Known


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "{home}/.local/state/envhub"),
        ({"XDG_STATE_HOME": "/state"}, "/state/envhub"),
        ({"XDG_STATE_HOME": "/state", "ENVHUB_HOME": "/all"}, "/all"),
    ],
)
def test_where_it_is_kept(monkeypatch, variables, expected):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_home() == Path(expected.format(home=Path.home()))


def test_what_is_remembered_is_recalled(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
    assert fetched.recall("me/env", "0" * 40) is None
    known = Known(fetched.digest(b"manifest"), "http://127.0.0.1:1")
    fetched.remember("me/env", "0" * 40, known)
    assert fetched.recall("me/env", "0" * 40) == known
    assert fetched.recall("me/env", "1" * 40) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"manifest": 3}', b"\xff", b"[" * 9999])
def test_what_cannot_be_read_is_not_known(monkeypatch, tmp_path, content):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
    fetched.remember("me/env", "0" * 40, Known("digest"))
    [path] = tmp_path.rglob("*.json")
    path.write_bytes(content)
    assert fetched.recall("me/env", "0" * 40) is None


def test_a_place_that_cannot_be_written_leaves_it_unknown(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "file"))
    fetched.remember("me/env", "0" * 40, Known("digest"))
    assert fetched.recall("me/env", "0" * 40) is None
