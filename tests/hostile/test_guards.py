"""No guard is decoration: without it, and with everything else on, the attack succeeds.

Each test copies the package and takes one rule away, in all the places where it is held. The
product itself has no switch for that. The attacks are those of the other files here, and as
harmless: a marker below a temporary directory, a planted secret, a port that the test opened.
"""

import hashlib
import itertools
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.attacks import env_file, python
from support.paths import ASSETS

import envhub
from envhub.files import set_writable
from envhub.sources.store import file_ids

COMMAND = "from envhub.cli import main; main()"
NUMBERS = itertools.count()
PACKAGE = Path(envhub.__file__).parent


@dataclass(frozen=True)
class Edit:
    """A text of the package, and what stands there once the rule is gone."""

    file: str
    before: str
    after: str


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def without(tmp_path: Path) -> Callable[..., Run]:
    """Takes a rule away; the command of what is left."""

    def remove(*edits: Edit) -> Run:
        copy = tmp_path / f"copy{len(list(tmp_path.glob('copy*')))}" / "envhub"
        shutil.copytree(PACKAGE, copy)  # with the compiled modules, which fit where none is edited
        for edit in edits:
            path = copy / edit.file
            text = path.read_text()
            assert text.count(edit.before) == 1, f"{edit.file} has changed: {edit.before!r}"
            path.write_text(text.replace(edit.before, edit.after))
        return lambda *arguments, **more: python(
            COMMAND, *arguments, **{"PYTHONPATH": str(copy.parent), **more}
        )

    return remove


def trusted(ref: str, *more: str) -> tuple[str, ...]:
    common = ("--trust-remote-code", "--workers", "1", "--episodes", "1")
    return ("eval", ref, *common, "--out", f"run-{next(NUMBERS)}", *more)


def description(done: "subprocess.CompletedProcess[str]") -> str:
    """What the benchmark wrote into its task's description."""
    assert done.returncode == 0, done.stderr
    [task] = json.loads(done.stdout)["suites"]["attack"]
    return task["description"]


def told(code: str) -> str:
    """An env file whose task's description is what some code found."""
    return env_file(top=code).replace('"attack", 5', "str(FOUND), 5")


def test_trust(without, publish):
    ref = publish(env_file())
    edit = Edit("sources/trust.py", '    return Refused("untrusted")', '    return Trusted("flag")')
    for run, code in ((without(), 3), (without(edit), 0)):
        done = run("eval", ref, "--workers", "1", "--episodes", "1", "--out", f"run{code}")
        assert done.returncode == code, done.stderr


POLICY = """
import os

class Policy:
    placement = "process"

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)


def make_policy(benchmark, observation_space, action_space):
    if "HF_TOKEN" in os.environ:  # not in the sandbox, where the policy is made first
        open({marker!r}, "w")
    return Policy()
"""


def test_where_names_of_a_confined_source_are_loaded(without, publish, tmp_path, some_sandbox):
    marker = tmp_path / "marker"
    bottom = POLICY.format(marker=str(marker))
    ref = publish(env_file(bottom=bottom, more='policies={"evil": ":make_policy"}'))
    edit = Edit("loader.py", "    if confined and not _in_worker:", "    if False:")
    for run, written in ((without(), False), (without(edit), True)):
        done = run(
            *trusted(ref, "--policy", "evil", "--sandbox", some_sandbox), HF_TOKEN="hf_planted"
        )
        assert marker.exists() == written, done.stderr
        assert (done.returncode == 4) == (not written)


FORGED = """
from envhub.wire import messages
from envhub.wire.values import portable
from envhub.worker import session

def answer(self, request, real=session.Session.answer):
    payload = real(self, request)
    if isinstance(request, messages.Play):
        actions = portable(np.zeros((7, 2), np.float32))
        return messages.encode(
            messages.Played(request.id, [1.0] * 7, [True] * 7, actions, True, False)
        )
    return payload

session.Session.answer = answer
"""


def test_the_check_of_answers(without, publish, tmp_path, some_sandbox):
    """A worker that tells of more steps than it was asked for."""
    forged = FORGED
    ref = publish(env_file(top=forged))
    edit = Edit(
        "wire/messages.py",
        "    if taken > request.count or",
        "    if False and taken > request.count or",
    )
    for run, expected in ((without(), ("worker_died", 0)), (without(edit), ("ok", 7))):
        more = ("--policy", "zero", "--max-steps", "3", "--retries", "0", "--sandbox", some_sandbox)
        arguments = trusted(ref, *more)
        done = run(*arguments)
        directory = tmp_path / arguments[arguments.index("--out") + 1]
        [record] = map(json.loads, (directory / "episodes.jsonl").read_text().splitlines())
        assert (record["status"], record["steps"]) == expected, done.stderr


def test_the_variables_of_workers(without, publish, some_sandbox):
    ref = publish(told("import os; FOUND = os.environ.get('HF_TOKEN', 'nothing')"))
    edit = Edit(
        "sandbox/variables.py",
        "if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)) and not _SECRET.search(name)",
        "",
    )
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", some_sandbox)
    assert description(without()(*arguments, HF_TOKEN="hf_planted")) == "nothing"
    assert description(without(edit)(*arguments, HF_TOKEN="hf_planted")) == "hf_planted"


@pytest.fixture
def port():
    """A port on loopback that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def answer(server):
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"reached")


CONNECT = """
import socket
try:
    FOUND = socket.create_connection(("127.0.0.1", {port}), 5).recv(7).decode()
except OSError:
    FOUND = "nothing"
"""

NETWORK = {
    "bubblewrap": (Edit("sandbox/bubblewrap.py", '*(() if network else ("--unshare-net",)),', ""),),
    "landlock": (
        Edit(
            "sandbox/inside.py",
            "            network=protection.network,\n            abi=abi,",
            "            network=True,\n            abi=abi,",
        ),
        Edit(
            "sandbox/seccomp.py",
            "    if not network:\n        rules = (*rules, *refuse",
            "    if False:\n        rules = (*rules, *refuse",
        ),
    ),
}


def test_the_network(without, publish, sandbox, port):
    ref = publish(told(CONNECT.format(port=port)))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    assert description(without()(*arguments)) == "nothing"
    assert description(without(*NETWORK[sandbox])(*arguments)) == "reached"


SECRET = """
try:
    FOUND = open({secret!r}).read()
except OSError:
    FOUND = "nothing"
"""

FILES = {
    "bubblewrap": Edit(
        "sandbox/bubblewrap.py",
        '*("--bind", str(scratch), str(scratch), "--chdir", str(scratch)),',
        '*("--ro-bind", {top!r}, {top!r}, "--bind", str(scratch), str(scratch)),'
        '*("--chdir", str(scratch)),',
    ),
    "landlock": Edit("sandbox/inside.py", "        landlock.restrict(", "        dict("),
}


def test_the_files_that_a_sandbox_shows(without, publish, tmp_path, sandbox):
    secret = tmp_path / "secret"
    secret.write_text("planted")
    ref = publish(told(SECRET.format(secret=str(secret))))
    rule = FILES[sandbox]
    edit = Edit(rule.file, rule.before, rule.after.replace("{top!r}", repr(str(tmp_path))))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    assert description(without()(*arguments)) == "nothing"
    assert description(without(edit)(*arguments)) == "planted"


def test_output_is_escaped(without, publish, some_sandbox):
    ref = publish(env_file(top='raise RuntimeError("\\x07\\x08\\x08all is well")'))
    edit = Edit("errors.py", "if (c.isprintable() and c not in _INVISIBLE)", "if (True)")
    arguments = trusted(ref, "--sandbox", some_sandbox)
    assert "\x08" not in without()(*arguments).stderr
    assert "\x07\x08\x08all" in without(edit)(*trusted(ref, "--sandbox", some_sandbox)).stderr


BACKEND = """
def prepare_metadata_for_build_wheel(directory, settings=None):
    open({marker!r}, "w")
    raise SystemExit("that was all")
"""


def test_the_filter_of_requirements(without, tmp_path):
    """A requirement that is a directory makes the tool run the build of what lies there."""
    marker, project, bench = (tmp_path / name for name in ("marker", "project", "bench"))
    project.mkdir()
    (project / "backend.py").write_text(BACKEND.format(marker=str(marker)))
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    shutil.copytree(ASSETS / "published_plain", bench)
    block = f'# /// script\n# dependencies = ["gadget @ {project.as_uri()}"]\n# ///\n'
    (bench / "env.py").write_text(block + (bench / "env.py").read_text())
    edits = (
        Edit("sources/requirements.py", "if requirement.url is not None or ", "if "),
        Edit("runtime/resolve.py", '"--only-binary", ":all:", ', ""),
    )
    for run, written in ((without(), False), (without(*edits), True)):
        done = run("info", str(bench), "--runtime", "isolated", UV_OFFLINE="1")
        assert marker.exists() == written, done.stderr
        assert "Traceback" not in done.stderr


def test_a_copy_without_any_edit_is_the_package(without):
    done = without()("--version")
    assert (done.returncode, done.stdout.split(",")[0]) == (0, "envhub")


FORGED_RUN = """
import json, sys
from pathlib import Path

run = json.loads(Path("run.json").read_text())
run["policy"].update(ref="./evil.py", path=sys.argv[1] + ":make_policy", sha256=sys.argv[2])
Path("run.json").write_text(json.dumps(run))
"""

EVIL = """
open({marker!r}, "w")

def make_policy(benchmark, observation_space, action_space):
    raise RuntimeError("that was all")
"""


def test_whose_run_directories_are_obeyed(without, tmp_path, monkeypatch):
    """A directory that names a policy of its maker, with its right hash."""
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    marker, run = tmp_path / "marker", tmp_path / "run"
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL.format(marker=str(marker)))
    begun = ("eval", str(ASSETS / "run_walk"), "--policy", "zero", "--episodes", "1")
    assert without()(*begun, "--workers", "1", "--out", str(run)).returncode == 0
    (run / "episodes.jsonl").write_text("")
    digest = hashlib.sha256(evil.read_bytes()).hexdigest()
    monkeypatch.chdir(run)
    assert python(FORGED_RUN, evil, digest).returncode == 0
    monkeypatch.chdir(tmp_path)
    condition = "    if not is_sealed(content):"
    edit = Edit("evaluation/recorded.py", condition, "    if False:")
    for command, written in ((without(), False), (without(edit), True)):
        done = command("eval", "--resume", str(run))
        assert marker.exists() == written, done.stderr
        assert done.returncode in (2, 4)


@pytest.fixture
def poisoned(publish, tmp_path):
    """A stored source whose file was changed; with `consistent`, the manifest with it."""

    def poison(*, consistent: bool) -> str:
        ref = publish(told("FOUND = 'good'"))
        assert description(python(COMMAND, "info", ref, "--trust-remote-code", "--json")) == "good"
        [place] = (tmp_path / "home" / "sources").glob("me--attack/*")
        set_writable(place, writable=True)
        file, manifest = place / "files" / "env.py", place / "manifest.json"
        file.write_text(file.read_text().replace("'good'", "'evil'"))
        if consistent:
            content = json.loads(manifest.read_text())
            sha256, blob_id = file_ids(file, large=False)
            content["files"]["env.py"].update(sha256=sha256, blob_id=blob_id)
            manifest.write_text(json.dumps(content))
        return ref

    return poison


def test_the_bytes_of_the_store(without, poisoned):
    """The host compares them with the manifest, and the worker once more when it compiles them."""
    ref = poisoned(consistent=False)
    host = Edit(
        "sources/store.py",
        "    if (sha256, tree_id) != (entry.sha256, entry.blob_id):",
        "    if False:",
    )
    content = 'f"sha256:{hashlib.sha256(content).hexdigest()}"'
    worker = Edit("loader.py", f"        if expected == {content}:", "        if True:")
    arguments = ("info", ref, "--trust-remote-code", "--json")
    refused = without(host)(*arguments)
    assert refused.returncode == 6
    assert "env.py has changed since it was checked" in refused.stderr
    assert description(without(host, worker)(*arguments)) == "evil"
    assert description(without()(*arguments)) == "good"  # it was fetched again


def test_the_proof_of_the_commit(without, poisoned):
    """Bytes and manifest agree; only the commit, and the digest kept apart, say otherwise."""
    ref = poisoned(consistent=True)
    edits = (
        Edit("sources/store.py", '    if manifest.proof == "git":', "    if False:"),
        Edit("sources/store.py", "digest(content) != known.manifest", "False"),
    )
    arguments = ("info", ref, "--trust-remote-code", "--json")
    assert description(without(*edits)(*arguments)) == "evil"
    assert description(without()(*arguments)) == "good"
