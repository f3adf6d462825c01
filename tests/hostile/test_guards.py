"""No guard is decoration: without it, and with everything else on, the attack succeeds.

The table in `docs/security.md` is the list: each row names a removal of `support/guards.py`, which
takes the row's rule away in all the places where it is held. A few rows are proven in the file that
has the attack. The attacks are harmless: a marker below a temporary directory, a planted secret, a
port or a process that the test opened.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from envhub_localhub import faults
from support.attacks import env_file, python
from support.guards import REMOVALS, Edit, Removal, takes_away
from support.needs import needs_bubblewrap, needs_root
from support.paths import ASSETS, DOCS, TESTS

import envhub
from envhub.files import set_writable
from envhub.sources.store import file_ids
from envhub.testing import LocalHub

COMMAND = "from envhub.cli import main; main()"
NUMBERS = itertools.count()
PACKAGE = Path(envhub.__file__).parent


Run = Callable[..., "subprocess.CompletedProcess[str]"]


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
    edits = removal.of(request.getfixturevalue("sandbox") if known else None, tmp_path)
    assert edits
    return copy(*edits, *removal.to_both)


RULES = re.findall(
    r"^\| \*\*(.+?)\*\*.*\|([^|]*)\|$",
    (DOCS / "security.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""Of each row the rule's name, and its last cell."""


def test_every_row_of_the_table_is_taken_away():
    marks = [
        mark
        for path in TESTS.rglob("test_*.py")
        for mark in re.findall(r"^ *@takes_away\(([^)]*)\)", path.read_text(), re.MULTILINE)
    ]
    proven = re.findall(r'"([a-z-]+)"', " ".join(marks))
    assert [rule for rule, cell in RULES if not re.fullmatch(" `[a-z-]+` ", cell)] == []
    rows = [cell.strip(" `") for _, cell in RULES]
    assert len(rows) > 20
    assert sorted(rows) == sorted(REMOVALS) == sorted(proven)


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
for number in range(40):
    session._channel.send(encoded(Making(1, f"task-{number}")))
    time.sleep(0.1)
"""


@takes_away("making")
def test_the_time_for_making_envs(intact, without, publish, some_sandbox):
    """A worker that says again and again that it makes another env."""
    ref = publish(env_file(top=ANNOUNCED))
    arguments = ("info", ref, "--trust-remote-code", "--sandbox", some_sandbox)
    refused = intact(*arguments, "--timeout", "start=3")
    assert refused.returncode != 0
    assert "3 s" in refused.stderr
    done = without(*arguments, "--timeout", "start=3")
    assert done.returncode == 0, done.stderr


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


ATTEMPTS = """
import ctypes, json, mmap, os, socket, threading

HOME = os.environ["HOME"]
LIBRARY = ctypes.CDLL(None, use_errno=True)

def variables():
    return os.environ["HF_TOKEN"] == "hf_planted"

def network():
    return socket.create_connection(("127.0.0.1", {port}), 5).recv(7) == b"reached"

def files():
    return open({secret!r}).read() == "planted"

def seccomp():  # a watch tells of what others do with a file
    return LIBRARY.inotify_add_watch(LIBRARY.inotify_init(), os.__file__.encode(), 2) >= 0

def capabilities():  # a file that nobody may open, whoever owns it
    os.close(os.open(HOME + "/closed", os.O_CREAT | os.O_RDWR, 0))
    return open(HOME + "/closed").read() == ""

def memory():  # as much as the machine has, of which nothing is used
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mmap.mmap(-1, pages, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000).close()
    return True

def sizes():  # a file of 3 GB without content
    with open(HOME + "/large", "wb") as file:
        file.truncate(3 * 2**30)
    return True

def processes():
    end = threading.Event()
    threading.stack_size(2**16)
    try:
        for _ in range(2 * (256 + 4 * os.cpu_count()) + 50):  # a burst may reach twice the limit
            threading.Thread(target=end.wait).start()
    finally:
        end.set()
    return True

def signals():  # one that does nothing
    os.kill({pid}, 0)
    return True

def attempt(attack):
    try:
        return attack()
    except (OSError, KeyError, RuntimeError):
        return False

ATTACKS = (variables, network, files, seccomp, capabilities, memory, sizes, processes, signals)
FOUND = json.dumps({{attack.__name__: attempt(attack) for attack in ATTACKS}})
"""

ATTACKS = {"limits": ("memory", "sizes"), "scopes": ("signals",)}
"""The attempts that a row's rule keeps from success, if not the one of its own name."""


@pytest.fixture
def attempts(publish, port, tmp_path, sandbox) -> Callable[[Run], dict[str, bool]]:
    """Which attempts succeed in a sandbox, with a command."""
    secret = tmp_path / "secret"
    secret.write_text("planted")
    ref = publish(told(ATTEMPTS.format(port=port, secret=str(secret), pid=os.getpid())))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    return lambda run: json.loads(description(run(*arguments, HF_TOKEN="hf_planted")))


@takes_away("variables", "network", "files", "seccomp", "limits", "processes", "scopes")
def test_what_a_sandbox_keeps_from_its_code(copy, attempts, sandbox, tmp_path):
    """All attempts at once, with every rule and without one of them."""
    rows = ["network", "files", "seccomp", "limits"]
    if sandbox == "landlock":  # the other rules are the same in both, or only of this one
        rows += ["variables", "processes", "scopes"]
    assert {name for name, succeeded in attempts(copy()).items() if succeeded} == set()
    for row in rows:
        found = attempts(copy(*REMOVALS[row].of(sandbox, tmp_path)))
        missing = [name for name in ATTACKS.get(row, (row,)) if not found[name]]
        assert missing == [], f"without {row}: {found}"


@takes_away("capabilities")
@needs_root
def test_what_root_gives_up(intact, without, attempts):
    """Others have nothing to give up."""
    assert not attempts(intact)["capabilities"]
    assert attempts(without)["capabilities"]


MEMORY = """
import os, time

children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        held = bytearray(2**27)
        time.sleep(1.5)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
FOUND = "nobody ended it"
"""


@takes_away("memory")
def test_the_memory_of_all_processes(intact, without, publish, some_sandbox):
    """Each takes less than one process may, and all take more than all may."""
    ref = publish(told(MEMORY))
    arguments = ("info", ref, "--trust-remote-code", "--json", "--sandbox", some_sandbox)
    ended = intact(*arguments)
    assert ended.returncode != 0
    assert "killed by SIGKILL" in ended.stderr
    assert description(without(*arguments)) == "nobody ended it"


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
        [place] = (tmp_path / "home" / "sources").glob("me--attack/[!.]*")
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


@takes_away("token")
def test_who_receives_the_token(intact, without, hub, tmp_path, monkeypatch):
    """The Hub sends whoever asks for a file to another server."""
    monkeypatch.setenv("HF_TOKEN", hub.token)
    hub.create("me/secret", private=True)
    ref = f"me/secret@{hub.commit('me/secret', {'env.py': env_file()})}:env.py"
    with LocalHub(tmp_path / "other") as other:
        hub.misbehave(faults.Redirect(other.endpoint, "/resolve/"))
        for run, tokens in ((intact, {None}), (without, {hub.token})):
            other.requests.clear()
            done = run("info", ref, "--private")  # which the other server does not know
            assert done.returncode == 6, done.stderr
            assert {request.token for request in other.requests} == tokens


@takes_away("names")
def test_where_files_are_written(intact, without, hub, publish, tmp_path):
    """Without git, a listing can hold names that no commit has."""
    (tmp_path / "nothing").mkdir()
    ref, escaped = publish(env_file()), tmp_path / "home/escaped"
    hub.misbehave(faults.Symlink("../../../escaped", "x = 1"))
    for run, written in ((intact, False), (without, True)):
        done = run("info", ref, PATH=str(tmp_path / "nothing"))
        assert done.returncode == 6, done.stderr
        assert escaped.exists() == written
