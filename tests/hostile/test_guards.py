"""No guard is decoration: without it, and with everything else on, the attack succeeds.

The table in `docs/security.md` is the list: each row names a removal below, which takes the row's
rule away, in all the places where it is held, from a copy of the package. The product itself has
no switch for that. The attacks are those of the other files here, and as harmless: a marker below a
temporary directory, a planted secret, a port that the test opened.
"""

import hashlib
import itertools
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.attacks import env_file, python
from support.needs import needs_bubblewrap
from support.paths import ASSETS, DOCS

import envhub
from envhub.files import set_writable
from envhub.sources.store import file_ids

COMMAND = "from envhub.cli import main; main()"
NUMBERS = itertools.count()
PACKAGE = Path(envhub.__file__).parent


Run = Callable[..., "subprocess.CompletedProcess[str]"]
Test = Callable[..., None]


@dataclass(frozen=True)
class Edit:
    """A text of the package, and what stands there once the rule is gone."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Removal:
    """What takes a row's rule away."""

    edits: tuple[Edit, ...] = ()
    by_sandbox: tuple[tuple[str, tuple[Edit, ...]], ...] = ()
    """Where the sandboxes hold the rule in different ways."""
    to_both: tuple[Edit, ...] = ()
    """Made with the rule, too: a shorter time to wait, say."""

    def of(self, sandbox: str | None) -> tuple[Edit, ...]:
        return (*self.edits, *dict(self.by_sandbox).get(sandbox or "", ()))


def edit(file: str, before: str, after: str = "") -> Removal:
    return Removal((Edit(file, before, after),))


STORE = "sources/store.py"
HASHED = 'f"sha256:{hashlib.sha256(content).hexdigest()}"'

REMOVALS = {
    "consent": edit(
        "sources/trust.py", '    return Refused("untrusted")', '    return Trusted("flag")'
    ),
    "where-code-runs": edit("loader.py", "    if confined and not _in_worker:", "    if False:"),
    "answers": edit(
        "wire/messages.py",
        "    if taken > request.count or",
        "    if False and taken > request.count or",
    ),
    "making": Removal(
        (
            Edit(
                "host/worker.py", "min(now + self._limit, self._loading_ends)", "now + self._limit"
            ),
        ),
        to_both=(Edit("host/worker.py", "_MOST_LOADING = 12", "_MOST_LOADING = 1"),),
    ),
    "variables": edit(
        "sandbox/variables.py",
        "if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)) and not _SECRET.search(name)",
    ),
    "network": Removal(
        by_sandbox=(
            (
                "bubblewrap",
                (Edit("sandbox/bubblewrap.py", '*(() if network else ("--unshare-net",)),', ""),),
            ),
            (
                "landlock",
                (
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
            ),
        )
    ),
    "files": Removal(
        by_sandbox=(
            (
                "bubblewrap",
                (
                    Edit(
                        "sandbox/bubblewrap.py",
                        '*("--bind", str(scratch), str(scratch), "--chdir", str(scratch)),',
                        '*("--ro-bind", {top!r}, {top!r}, "--bind", str(scratch), str(scratch)),'
                        '*("--chdir", str(scratch)),',
                    ),
                ),
            ),
            (
                "landlock",
                (Edit("sandbox/inside.py", "        landlock.restrict(", "        dict("),),
            ),
        )
    ),
    "terminal": Removal(
        (
            Edit("sandbox/bubblewrap.py", '"--new-session", ', ""),
            Edit(
                "process.py",
                "pass_fds=tuple(pass_fds),\n                start_new_session=True,",
                "pass_fds=tuple(pass_fds),",
            ),
        )
    ),
    "guard": Removal(
        (
            Edit(
                "host/start.py",
                '*("/usr/bin/env", "-i", *(f"{k}={v}" for k, v in guard_variables().items())),',
                "",
            ),
            Edit(
                "host/start.py", '"envhub.worker.guard", "-I", "-S"', '"envhub.worker.guard", "-S"'
            ),
        )
    ),
    "output": edit("errors.py", "if (c.isprintable() and c not in _INVISIBLE)", "if (True)"),
    "requirements": Removal(
        (
            Edit("sources/requirements.py", "if requirement.url is not None or ", "if "),
            Edit("runtime/resolve.py", '"--only-binary", ":all:", ', ""),
        )
    ),
    "run-directories": edit(
        "evaluation/recorded.py", "    if not is_sealed(content):", "    if False:"
    ),
    "stored-bytes": Removal(
        (
            Edit(
                STORE,
                "    if (sha256, tree_id) != (entry.sha256, entry.blob_id):",
                "    if False:",
            ),
            Edit("loader.py", f"        if expected == {HASHED}:", "        if True:"),
        )
    ),
    "commit": Removal(
        (
            Edit(STORE, '    if manifest.proof == "git":', "    if False:"),
            Edit(STORE, "digest(content) != known.manifest", "False"),
        )
    ),
}
"""The rules of the table, by the names that its rows have."""

PROVEN: set[str] = set()


def takes_away(name: str) -> Callable[[Test], Test]:
    """Say which row a test is for: `without` takes its rule away, and `intact` does not."""

    def note(test: Test) -> Test:
        PROVEN.add(name)
        test.__dict__["takes_away"] = name
        return test

    return note


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., Run]:
    """Makes a copy of the package with some edits; returns its command."""

    def make(*edits: Edit) -> Run:
        copy = tmp_path / f"copy{len(list(tmp_path.glob('copy*')))}" / "envhub"
        shutil.copytree(PACKAGE, copy)  # with the compiled modules, which fit where none is edited
        for edit in edits:
            path = copy / edit.file
            text = path.read_text()
            assert text.count(edit.before) == 1, f"{edit.file} has changed: {edit.before!r}"
            path.write_text(text.replace(edit.before, edit.after))
        return lambda *arguments, code=COMMAND, search="", **more: python(
            code, *arguments, **{"PYTHONPATH": f"{copy.parent}{search}", **more}
        )

    return make


@pytest.fixture
def removal(request: pytest.FixtureRequest) -> Removal:
    """What the test's row takes away."""
    return REMOVALS[request.function.takes_away]


@pytest.fixture
def intact(copy, removal) -> Run:
    """The command with the rule."""
    return copy(*removal.to_both)


@pytest.fixture
def without(copy, removal, request, tmp_path) -> Run:
    """The command without the rule."""
    known = "sandbox" in request.fixturenames
    edits = removal.of(request.getfixturevalue("sandbox") if known else None)
    top = repr(str(tmp_path))
    assert edits
    return copy(
        *(replace(edit, after=edit.after.replace("{top!r}", top)) for edit in edits),
        *removal.to_both,
    )


ROWS = re.findall(
    r"^\|.*\| `([a-z-]+)` \|$", (DOCS / "security.md").read_text(encoding="utf-8"), re.MULTILINE
)


def test_every_row_of_the_table_is_taken_away():
    assert ROWS
    assert len(ROWS) == len(set(ROWS))
    assert set(ROWS) == set(REMOVALS) == PROVEN


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


@takes_away("consent")
def test_trust(intact, without, publish):
    ref = publish(env_file())
    for run, code in ((intact, 3), (without, 0)):
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


@takes_away("where-code-runs")
def test_where_names_of_a_confined_source_are_loaded(
    intact, without, publish, tmp_path, some_sandbox
):
    marker = tmp_path / "marker"
    bottom = POLICY.format(marker=str(marker))
    ref = publish(env_file(bottom=bottom, more='policies={"evil": ":make_policy"}'))
    for run, written in ((intact, False), (without, True)):
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


@takes_away("answers")
def test_the_check_of_answers(intact, without, publish, tmp_path, some_sandbox):
    """A worker that tells of more steps than it was asked for."""
    ref = publish(env_file(top=FORGED))
    for run, expected in ((intact, ("worker_died", 0)), (without, ("ok", 7))):
        more = ("--policy", "zero", "--max-steps", "3", "--retries", "0", "--sandbox", some_sandbox)
        arguments = trusted(ref, *more)
        done = run(*arguments)
        directory = tmp_path / arguments[arguments.index("--out") + 1]
        [record] = map(json.loads, (directory / "episodes.jsonl").read_text().splitlines())
        assert (record["status"], record["steps"]) == expected, done.stderr


ANNOUNCED = """
import gc, time
from envhub.wire.messages import Making
from envhub.worker.replies import encoded
from envhub.worker.session import Session

[session] = [each for each in gc.get_objects() if isinstance(each, Session)]
for number in range(60):
    session._channel.send(encoded(Making(1, f"task-{number}")))
    time.sleep(0.1)
"""


@takes_away("making")
def test_the_time_for_making_envs(intact, without, publish, some_sandbox):
    """A worker that says again and again that it makes another env."""
    ref = publish(env_file(top=ANNOUNCED))
    arguments = ("info", ref, "--trust-remote-code", "--sandbox", some_sandbox)
    refused = intact(*arguments, "--timeout", "start=4")
    assert refused.returncode != 0
    assert "4 s" in refused.stderr
    done = without(*arguments, "--timeout", "start=4")
    assert done.returncode == 0, done.stderr


@takes_away("variables")
def test_the_variables_of_workers(intact, without, publish, some_sandbox):
    ref = publish(told("import os; FOUND = os.environ.get('HF_TOKEN', 'nothing')"))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", some_sandbox)
    assert description(intact(*arguments, HF_TOKEN="hf_planted")) == "nothing"
    assert description(without(*arguments, HF_TOKEN="hf_planted")) == "hf_planted"


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


@takes_away("network")
def test_the_network(intact, without, publish, sandbox, port):
    ref = publish(told(CONNECT.format(port=port)))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    assert description(intact(*arguments)) == "nothing"
    assert description(without(*arguments)) == "reached"


SECRET = """
try:
    FOUND = open({secret!r}).read()
except OSError:
    FOUND = "nothing"
"""


@takes_away("files")
def test_the_files_that_a_sandbox_shows(intact, without, publish, tmp_path, sandbox):
    secret = tmp_path / "secret"
    secret.write_text("planted")
    ref = publish(told(SECRET.format(secret=str(secret))))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    assert description(intact(*arguments)) == "nothing"
    assert description(without(*arguments)) == "planted"


TERMINAL = (
    """
import fcntl, os, pty, termios
os.setsid()
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
"""
    + COMMAND
)

TYPED = """
try:
    open("/dev/tty", "w").close()
    FOUND = "reached"
except OSError:
    FOUND = "nothing"
"""


@takes_away("terminal")
@needs_bubblewrap
def test_the_terminal(intact, without, publish):
    """What can open the terminal can write there, and, by some kernels, type there too."""
    ref = publish(told(TYPED))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", "bubblewrap")
    assert description(intact(*arguments, code=TERMINAL)) == "nothing"
    assert description(without(*arguments, code=TERMINAL)) == "reached"


GUARD_OBEYS = """
import sys

if any("envhub.worker.guard" in word for word in sys.orig_argv):
    open({marker!r}, "w")
sys.path.remove({place!r})
del sys.modules["signal"]
import signal  # the real one
"""


@takes_away("guard")
def test_what_the_guard_obeys(intact, without, publish, tmp_path, sandbox):
    """A module on the path of the user's shell, which the guard is not to load outside."""
    marker, place = tmp_path / "marker", tmp_path / "planted"
    place.mkdir()
    (place / "signal.py").write_text(GUARD_OBEYS.format(marker=str(marker), place=str(place)))
    ref = publish(env_file())
    for run, written in ((intact, False), (without, True)):
        arguments = ("info", ref, "--trust-remote-code", "--sandbox", sandbox)
        done = run(*arguments, search=f":{place}")
        assert done.returncode == 0, done.stderr
        assert marker.exists() == written


@takes_away("output")
def test_output_is_escaped(intact, without, publish, some_sandbox):
    ref = publish(env_file(top='raise RuntimeError("\\x07\\x08\\x08all is well")'))
    arguments = trusted(ref, "--sandbox", some_sandbox)
    assert "\x08" not in intact(*arguments).stderr
    assert "\x07\x08\x08all" in without(*trusted(ref, "--sandbox", some_sandbox)).stderr


BACKEND = """
def prepare_metadata_for_build_wheel(directory, settings=None):
    open({marker!r}, "w")
    raise SystemExit("that was all")
"""


@takes_away("requirements")
def test_the_filter_of_requirements(intact, without, tmp_path):
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
    for run, written in ((intact, False), (without, True)):
        done = run("info", str(bench), "--runtime", "isolated", UV_OFFLINE="1")
        assert marker.exists() == written, done.stderr
        assert "Traceback" not in done.stderr


def test_a_copy_without_any_edit_is_the_package(copy):
    done = copy()("--version")
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


@takes_away("run-directories")
def test_whose_run_directories_are_obeyed(intact, without, tmp_path, monkeypatch):
    """A directory that names a policy of its maker, with its right hash."""
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    marker, run = tmp_path / "marker", tmp_path / "run"
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL.format(marker=str(marker)))
    begun = ("eval", str(ASSETS / "run_walk"), "--policy", "zero", "--episodes", "1")
    assert intact(*begun, "--workers", "1", "--out", str(run)).returncode == 0
    (run / "episodes.jsonl").write_text("")
    digest = hashlib.sha256(evil.read_bytes()).hexdigest()
    monkeypatch.chdir(run)
    assert python(FORGED_RUN, evil, digest).returncode == 0
    monkeypatch.chdir(tmp_path)
    for command, written in ((intact, False), (without, True)):
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


@takes_away("stored-bytes")
def test_the_bytes_of_the_store(copy, intact, without, removal, poisoned):
    """The host compares them with the manifest, and the worker once more when it compiles them."""
    ref = poisoned(consistent=False)
    arguments = ("info", ref, "--trust-remote-code", "--json")
    refused = copy(removal.edits[0])(*arguments)
    assert refused.returncode == 6
    assert "env.py has changed since it was checked" in refused.stderr
    assert description(without(*arguments)) == "evil"
    assert description(intact(*arguments)) == "good"  # it was fetched again


@takes_away("commit")
def test_the_proof_of_the_commit(intact, without, poisoned):
    """Bytes and manifest agree; only the commit, and the digest kept apart, say otherwise."""
    ref = poisoned(consistent=True)
    arguments = ("info", ref, "--trust-remote-code", "--json")
    assert description(without(*arguments)) == "evil"
    assert description(intact(*arguments)) == "good"
