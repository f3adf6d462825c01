"""Who may run what."""

import json

import pytest

from envhub.errors import RemoteCodeRefused, UnpinnedReference, UsageError
from envhub.refs import HubRef
from envhub.sources.trust import Entry, Ledger, Refused, Trusted, decide, refusal

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = COMMIT[::-1]
HUB = "http://hub"
KNOWN = (Entry(HUB, "me/env", COMMIT, "2026-01-01T00:00:00+00:00"),)


@pytest.mark.parametrize(
    ("revision", "ledger", "flag", "unpinned", "expected"),
    [
        (COMMIT, (), False, False, Refused("untrusted")),
        (COMMIT, (), True, False, Trusted("flag")),
        (COMMIT, KNOWN, False, False, Trusted("ledger")),
        (COMMIT, KNOWN, True, False, Trusted("flag")),
        (OTHER, KNOWN, False, False, Refused("untrusted")),
        (COMMIT, (), False, True, Refused("untrusted")),
        ("main", KNOWN, False, False, Refused("unpinned")),
        ("main", KNOWN, True, False, Refused("unpinned")),
        ("main", KNOWN, False, True, Refused("unpinned")),
        ("main", KNOWN, True, True, Trusted("flag")),
        (None, (), True, False, Refused("unpinned")),
        (COMMIT, (), 1, False, Refused("untrusted")),
        (COMMIT, (), "yes", False, Refused("untrusted")),
        ("main", (), True, "yes", Refused("unpinned")),
    ],
)
def test_the_decision(revision, ledger, flag, unpinned, expected):
    ref = HubRef("me", "env", revision)
    found = decide(ref, HUB, ledger, trust_remote_code=flag, allow_unpinned=unpinned)
    assert found == expected


@pytest.mark.parametrize("entry", [("http://other", "me/env"), (HUB, "you/env")])
def test_consent_is_for_one_repository_at_one_hub(entry):
    ledger = (Entry(*entry, COMMIT, "now"),)
    ref = HubRef("me", "env", COMMIT)
    found = decide(ref, HUB, ledger, trust_remote_code=False, allow_unpinned=False)
    assert found == Refused("untrusted")


def test_refusals_say_what_to_type():
    untrusted = refusal(HubRef("me", "env", COMMIT), Refused("untrusted"))
    assert isinstance(untrusted, RemoteCodeRefused)
    assert isinstance(untrusted, RuntimeError)
    assert str(untrusted).startswith("Refusing to execute remote code")
    assert f"envhub trust me/env@{COMMIT}" in str(untrusted)
    assert "--trust-remote-code" in str(untrusted)
    unpinned = refusal(HubRef("me", "env", "main"), Refused("unpinned"))
    assert isinstance(unpinned, UnpinnedReference)
    assert "envhub trust me/env@main" in str(unpinned)


def test_the_ledger_keeps_and_forgets(tmp_path):
    ledger = Ledger(tmp_path / "config" / "trust.json")
    assert ledger.entries() == ()
    ledger.add(HUB, "me/env", COMMIT)
    ledger.add(HUB, "me/env", OTHER)
    ledger.add(HUB, "me/env", COMMIT)
    assert [e.commit for e in ledger.entries()] == [OTHER, COMMIT]
    assert (tmp_path / "config" / "trust.json").stat().st_mode & 0o077 == 0
    assert [e.commit for e in ledger.remove("me/env", OTHER)] == [OTHER]
    assert ledger.remove("me/env", OTHER) == ()
    assert [e.commit for e in ledger.remove("me/env", None)] == [COMMIT]
    assert ledger.entries() == ()


ENTRY = {"endpoint": HUB, "repo": "me/env", "commit": COMMIT, "agreed": "2026-01-01"}


def ledger_with(**changed: object) -> bytes:
    return json.dumps({"trusted": [{**ENTRY, **changed}]}).encode()


ODD_LEDGERS = {
    "empty": b"",
    "cut": b'{"trusted": [',
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "nothing of ours": b"{}",
    "something else": b'{"trusted": [], "all": true}',
    "entries that are a number": b'{"trusted": 3}',
    "entries that are one": json.dumps({"trusted": ENTRY}).encode(),
    "entries that are text": b'{"trusted": "everything"}',
    "an entry that is text": b'{"trusted": ["me/env"]}',
    "an entry that is null": b'{"trusted": [null]}',
    "an entry that is a list": json.dumps({"trusted": [list(ENTRY.values())]}).encode(),
    "an entry without a commit": b'{"trusted": [{"repo": "a"}]}',
    "an entry with more": ledger_with(more=1),
    "a commit that is a list": ledger_with(commit=[COMMIT]),
    "a commit that is an object": ledger_with(commit={}),
    "a commit that is a number": ledger_with(commit=int(COMMIT, 16)),
    "a commit that is null": ledger_with(commit=None),
    "a commit that is true": ledger_with(commit=True),
    "a commit that is a branch": ledger_with(commit="main"),
    "a commit in capitals": ledger_with(commit=COMMIT.upper()),
    "a commit and a line": ledger_with(commit=f"{COMMIT}\n"),
    "a repository that is a list": ledger_with(repo=["me/env"]),
    "a repository of two lines": ledger_with(repo="me/env\nyou/env"),
    "a repository that cannot be printed": ledger_with(repo="me/\x1b[2Jenv"),
    "an endpoint that is a number": ledger_with(endpoint=1),
    "a time that is a number": ledger_with(agreed=20260101),
    "not UTF-8": b'{"trusted": [], "\xff": 1}',
    "UTF-16": json.dumps({"trusted": [ENTRY]}).encode("utf-16"),
    "half a surrogate": ledger_with(repo="me/\ud800"),
    "not a number": b'{"trusted": NaN}',
    "very deep": b'{"trusted": ' + b"[" * 100_000,
    "very deep elsewhere": b'{"else": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("name", ODD_LEDGERS)
def test_a_ledger_that_cannot_be_read_stops_everything(tmp_path, name):
    path = tmp_path / "trust.json"
    path.write_bytes(ODD_LEDGERS[name])
    ledger = Ledger(path)
    for act in (
        ledger.entries,
        lambda: ledger.add(HUB, "me/env", COMMIT),
        lambda: ledger.remove("me/env", None),
    ):
        with pytest.raises(UsageError) as caught:
            act()
        text = str(caught.value)
        assert text.startswith(f"{path}, which has the commits that you agreed to, cannot be read:")
        assert text.endswith(". Fix or delete it.")
        assert "\n" not in text
    assert path.read_bytes() == ODD_LEDGERS[name]


def test_a_ledger_that_cannot_be_written(tmp_path):
    (tmp_path / "trust.json").mkdir()
    with pytest.raises(UsageError, match="cannot be"):
        Ledger(tmp_path / "trust.json").add(HUB, "me/env", COMMIT)
    assert list((tmp_path / "trust.json").iterdir()) == []


def test_the_ledger_is_where_the_configuration_is(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Ledger().add(HUB, "me/env", COMMIT)
    content = json.loads((tmp_path / "config" / "envhub" / "trust.json").read_text())
    assert content["trusted"][0]["commit"] == COMMIT
