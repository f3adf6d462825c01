"""Attacks on consent: what only looks like it is none, and nothing is asked of any Hub."""

import json
from pathlib import Path

import pytest
from support.attacks import env_file, envhub

from envhub.errors import EnvHubError
from envhub.sources.find import find_source
from envhub.sources.trust import Ledger

MARK = "from pathlib import Path\nPath('executed').touch()"


@pytest.fixture
def trusted(hub, publish) -> tuple[str, str]:
    """A repository that the user agreed to: its name and its commit."""
    ref = publish(env_file(top=MARK))
    name, _, rest = ref.partition("@")
    commit = rest.partition(":")[0]
    Ledger().add(hub.endpoint, name, commit)
    return name, commit


COMMANDS = (("eval", "--episodes", "1"), ("list",), ("try",))


def refused(hub, ref: str, code: int, *options: str, commands=COMMANDS) -> str:
    """Nothing is asked, fetched or run, by any command."""
    hub.requests.clear()
    said = ""
    for command in commands:
        done = envhub(command[0], ref, *command[1:], *options)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        said = done.stderr
    assert hub.requests == []
    assert not Path("executed").exists()
    return said


def test_what_was_agreed_to_is_found(hub, trusted):
    """So that the refusals below are for their own reasons."""
    name, commit = trusted
    assert find_source(f"{name}@{commit}").origin.consent == "ledger"


LOOK_ALIKES = {
    "cyrillic": lambda name, commit: f"{name.replace('a', chr(0x0430))}@{commit}",
    "another slash": lambda name, commit: f"{name.replace('/', chr(0x2044))}@{commit}",
    "zero width": lambda name, commit: f"{name}{chr(0x200B)}@{commit}",
    "reversed": lambda name, commit: f"{chr(0x202E)}{name}@{commit}",
    "upper case": lambda name, commit: f"{name}@{commit.upper()}",
    "39 digits": lambda name, commit: f"{name}@{commit[:39]}",
    "41 digits": lambda name, commit: f"{name}@{commit}0",
    "another script": lambda name, commit: f"{name}@{commit[:-1]}{chr(0xFF10)}",
    "line end": lambda name, commit: f"{name}@{commit}\n",
    "twice": lambda name, commit: f"{name}@{commit}@{commit}",
    "git": lambda name, commit: f"{name}.git@{commit}",
    "another scheme": lambda name, commit: f"HF://{name}@{commit}",
}


@pytest.mark.parametrize("option", [(), ("--trust-remote-code", "--allow-unpinned")])
def test_a_reference_that_looks_like_one_that_was_agreed_to(hub, trusted, option):
    name, commit = trusted
    for kind, look_alike in LOOK_ALIKES.items():
        ref = look_alike(name, commit)
        assert ref != f"{name}@{commit}"  # a commit has letters: one in 100 million has none
        commands = COMMANDS if kind == "cyrillic" else COMMANDS[:1]
        said = refused(hub, ref, 2, *option, commands=commands)
        assert "Invalid reference" in said, kind


def test_another_repository_with_the_same_commit(hub, trusted):
    _, commit = trusted
    for name in ("me/Attack", "Me/attack", "me/attack_", "you/attack"):
        assert "nobody here has agreed" in refused(hub, f"{name}@{commit}", 3)


def test_another_commit_of_the_repository(hub, trusted):
    name, _ = trusted
    other = hub.commit(name, {"more.py": ""})
    assert "nobody here has agreed" in refused(hub, f"{name}@{other}", 3)


def test_the_same_commit_at_another_hub(hub, trusted, monkeypatch):
    name, commit = trusted
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.endpoint}/x")
    assert "nobody here has agreed" in refused(hub, f"{name}@{commit}", 3)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint.upper())
    assert "which is not the address of a Hub" in refused(hub, f"{name}@{commit}", 2)


@pytest.mark.parametrize(
    "forge",
    [
        lambda entry: {**entry, "endpoint": entry["endpoint"] + "/"},
        lambda entry: {**entry, "endpoint": ""},
        lambda entry: {**entry, "repo": "you/attack"},
        lambda entry: {**entry, "repo": "me/*"},
        lambda entry: {**entry, "repo": f"me/att{chr(0x0430)}ck"},
        lambda entry: {**entry, "commit": entry["commit"].upper() + " "},
        lambda entry: {**entry, "commit": entry["commit"][:39]},
        lambda entry: {**entry, "commit": "*"},
        lambda entry: {**entry, "commit": None},
        lambda entry: {**entry, "commit": [entry["commit"]]},
    ],
    ids=[
        *("endpoint with a slash", "no endpoint", "another repository", "any repository"),
        *("homoglyph", "upper case", "39 digits", "any commit", "no commit", "a list"),
    ],
)
def test_a_ledger_that_only_looks_so(hub, trusted, forge):
    name, commit = trusted
    [path] = Path("home").glob("trust.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"trusted": [forge(entry) for entry in content["trusted"]]}))
    hub.requests.clear()
    with pytest.raises((EnvHubError, TypeError)):
        find_source(f"{name}@{commit}")
    assert hub.requests == []


def test_a_branch_named_like_a_commit(hub, trusted):
    """It is a reference to a commit, which nobody agreed to; and the Hub's answer is not it."""
    name, _ = trusted
    branch = "0123456789abcdef0123456789abcdef01234567"
    hub.commit(name, {"more.py": ""}, branch=branch)
    assert "nobody here has agreed" in refused(hub, f"{name}@{branch}", 3)
    done = envhub("list", f"{name}@{branch}", "--trust-remote-code")
    assert done.returncode == 6, done.stderr
    assert not Path("executed").exists()
    assert list(Path("home").glob("sources/*/*")) == []


def test_a_branch_named_like_a_short_commit(hub, trusted):
    name, commit = trusted
    hub.commit(name, {"more.py": ""}, branch=commit[:12])
    option = ("--trust-remote-code", "--allow-unpinned")
    assert "40 lower-case hex digits" in refused(hub, f"{name}@{commit[:12]}", 2, *option)


def test_consent_without_a_terminal_is_none(hub, publish):
    ref = publish(env_file(top=MARK))
    done = envhub("trust", ref)
    assert done.returncode == 3
    assert Ledger().entries() == ()
    refused(hub, ref, 3)
