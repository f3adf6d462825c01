"""The seal of a run: this user's, and only over what this user wrote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envhub.errors import ExitCode, UsageError
from envhub.files import state_home
from envhub.results.seal import FIELD, check_key, is_sealed, key_path, seal

CONTENT = {"format": 1, "plan": {"seed": 0, "tasks": {"a": {}, "b": {}}}, "limits": {"step": 0.1}}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def written(content: dict) -> dict:
    """As it is read again from a file."""
    return json.loads(json.dumps(content, indent=2))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_what_was_written_and_read_is_sealed(content):
    assert is_sealed(written(seal(content)))


def test_the_order_of_fields_does_not_matter():
    assert is_sealed(dict(reversed(seal(CONTENT).items())))
    assert seal(seal(CONTENT)) == seal(CONTENT)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": True},
        {"format": 1.0},
        {"plan": {"seed": 1, "tasks": {"a": {}, "b": {}}}},
        {"limits": {"step": 0.1, "reset": 1}},
        {"more": None},
        {FIELD: None},
        {FIELD: 5},
        {FIELD: ""},
        {FIELD: "hmac-sha256:" + "0" * 64},
        {FIELD: "é\ud800"},
        {"nan": float("nan")},
    ],
)
def test_what_was_changed_is_not_sealed(change):
    sealed = seal(CONTENT)
    assert is_sealed(sealed)
    assert not is_sealed({**sealed, **change})


def test_what_lacks_something_is_not_sealed():
    for name in (*CONTENT, FIELD):
        assert not is_sealed({key: value for key, value in seal(CONTENT).items() if key != name})


def test_another_key_is_another_user(monkeypatch, tmp_path):
    sealed = seal(CONTENT)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
    assert not is_sealed(sealed)  # and without any key
    assert not key_path().exists()
    assert seal(CONTENT) != sealed
    assert not is_sealed(sealed)


def test_first_runs_at_once_agree_on_one_key(tmp_path):
    code = "from envhub.results.seal import seal; print(seal({})['seal'])"
    commands = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {command.communicate()[0].strip() for command in commands}
    assert said == {seal({})[FIELD]}
    assert [path.name for path in key_path().parent.iterdir()] == ["run.key"]


def test_without_a_place_for_a_key_there_is_no_seal(monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", "/proc/nowhere")
    check_key()
    sealed = seal(CONTENT)
    assert sealed == {**CONTENT, FIELD: None}
    assert not is_sealed(sealed)


def test_a_key_that_is_not_secret_is_refused_with_a_sentence():
    check_key()
    key_path().chmod(0o644)
    for use in (check_key, lambda: seal(CONTENT), lambda: is_sealed({FIELD: "x"})):
        with pytest.raises(UsageError) as caught:
            use()
        assert caught.value.exit_code == ExitCode.USAGE
        assert str(caught.value) == (
            f"{key_path()} is open to other users (mode 0644). Delete it, and continue the runs "
            "that were begun with it by eval ... --continue."
        )


def test_a_key_that_is_a_folder_is_refused():
    key_path().mkdir(parents=True)
    with pytest.raises(UsageError, match="is not a regular file"):
        seal(CONTENT)


def test_where_the_key_is_kept(monkeypatch, tmp_path):
    assert state_home() == Path.home() / ".local" / "state" / "envhub"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_home() == Path("/state/envhub")
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
    assert key_path() == tmp_path / "run.key"
