"""Signed notes that a run was verified: made, shown, and what is wrong with bad ones."""

import json
import subprocess

import pytest
from support.needs import needs_ssh_keygen
from support.replays import make_recorded
from support.run_tools import envhub, variables

from envhub.results.attestations import read_attestations
from envhub.results.report.page import report

pytestmark = needs_ssh_keygen


def make_key(place, name="key", *words):
    path = place / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *words]
    subprocess.run(command, check=True, capture_output=True)
    listed = subprocess.run(
        ["ssh-keygen", "-lf", str(path)], check=True, capture_output=True, text=True
    )
    return path, listed.stdout.split()[1]


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A run that was verified and signed, its key's fingerprint, and what verify said."""
    place = tmp_path_factory.mktemp("signed")
    run = make_recorded(place / "run", tasks="at-end", episodes=2)
    key, known = make_key(place)
    words = ("verify", run.directory, "--fresh", "2", "--sign", key, "--policy")
    return run, key, known, envhub(*words)


@pytest.fixture
def folder(signed, tmp_path):
    """The attestations, as they were; a test may change them."""
    found = signed[0].directory / "attestations"
    before = {path: path.read_bytes() for path in found.iterdir()}
    yield found
    for path in found.iterdir():
        path.unlink()
    for path, content in before.items():
        path.write_bytes(content)


def test_it_is_shown(signed):
    run, _, known, answer = signed
    assert f"Signed by {known}, in " in answer.err
    (found,) = read_attestations(run.directory)
    assert (found.key, found.said.ok, found.said.checked, found.said.policy) == (
        *(known, True, 2), (2, 2),
    )  # fmt: skip
    assert found.said.packages == run.run_info.runtime.packages
    shown = envhub("show", run.directory)
    line = f"The key {known} says: verified, 2 of 2 ended episodes played again; at most 0 may be"
    assert line in shown.out
    assert "the policy did the same in 2 of 2; 2 new episodes per task: " in shown.out
    content = json.loads(envhub("show", run.directory, "--json").out)
    assert content["attestations"][0]["said"]["checked"] == 2
    assert f"The key {known} says: verified" in report(run).read_text()


def test_any_tool_of_ssh_checks_it(signed, tmp_path):
    run, key, _, _ = signed
    (content,) = (run.directory / "attestations").glob("*.json")
    signers = tmp_path / "signers"
    signers.write_text(f"me@here {(key.with_suffix('.pub')).read_text()}")
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "me@here", "-n", "envhub", "-s",
         content.with_suffix(".sig")],
        input=content.read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c.replace(b'"ok": true', b'"ok": false'), "not one of its content"),
        (lambda c: b"{}", "not one of its content"),
    ],
)
def test_changed_content(signed, folder, change, problem):
    (path,) = folder.glob("*.json")
    path.write_bytes(change(path.read_bytes()))
    (found,) = read_attestations(signed[0].directory)
    assert problem in str(found)
    assert "does not check out" in envhub("show", signed[0].directory).out


def test_other_files_of_the_run(signed, folder):
    path = signed[0].directory / "episodes.jsonl"
    before = path.read_bytes()
    path.write_bytes(before + before.splitlines(keepends=True)[0])
    try:
        (found,) = read_attestations(signed[0].directory)
    finally:
        path.write_bytes(before)
    assert found.problem == "it is of other files than the run has now"


def sign_text(key, folder, known, text):
    """Sign anything as an attestation of that key."""
    stem = known.removeprefix("SHA256:").replace("+", "-").replace("/", "_")
    (folder / f"{stem}.json").write_text(text)
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "envhub", "-f", str(key)]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    (folder / f"{stem}.sig").write_bytes(done.stdout)
    return stem


def test_text_of_a_stranger_stays_on_its_line_and_is_bounded(signed, folder):
    run, key, known, _ = signed
    (path,) = folder.glob("*.json")
    content = json.loads(path.read_text())
    content["created"] = "now\nrun: 4 identical\x1b[2J\u202e"
    sign_text(key, folder, known, json.dumps(content))
    out = envhub("show", run.directory).out
    assert r"now\nrun: 4 identical\x1b[2J\u202e" in out
    assert not any(line.startswith("run: ") for line in out.splitlines())
    content["created"] = "x" * 101
    sign_text(key, folder, known, json.dumps(content))
    (found,) = read_attestations(run.directory)
    assert found.problem == "its content is not one of an attestation"


def test_anothers_signature_under_a_name(signed, folder, tmp_path):
    run, _, known, _ = signed
    other, other_known = make_key(tmp_path, "other")
    (path,) = folder.glob("*.json")
    sign_text(other, folder, known, path.read_text())
    (found,) = read_attestations(run.directory)
    assert found.problem == f"another key signed it, {other_known}"
    (folder / f"{path.stem}.sig").unlink()
    (found,) = read_attestations(run.directory)
    assert "cannot be read" in found.problem


def test_keys_that_cannot_sign(signed, tmp_path):
    run = signed[0].directory
    text = tmp_path / "text"
    text.write_text("no key\n")
    for key, said in ((tmp_path / "none", "is not a file"), (text, "is not an SSH key")):
        answer = envhub("verify", run, "--sign", key)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
    only = tmp_path / "bin"
    only.mkdir()
    key, _ = make_key(tmp_path)
    answer = envhub("verify", run, "--sign", key, **{**variables(), "PATH": str(only)})
    assert answer.code == 2
    assert "--sign needs ssh-keygen, and ssh-keygen is not installed" in answer.err
    answer = envhub("show", run, **{**variables(), "PATH": str(only)})
    assert "does not check out: ssh-keygen is not installed" in answer.out
