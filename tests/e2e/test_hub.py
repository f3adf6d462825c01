"""Evaluating by a pinned reference: the same records as the directory itself, or a refusal."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from envhub_localhub import faults
from support.attacks import envhub as run_envhub
from support.needs import SANDBOXES, needs_prlimit
from support.notes import bring_notes
from support.paths import ASSETS, DOCS
from support.published import publish, same
from support.terminal import at_terminal

import envhub
from envhub import open_run

REACH = DOCS / "examples" / "reach"
ENVHUB = [sys.executable, "-c", "from envhub.cli import main; main()"]
WATCHED = [
    sys.executable,
    "-c",
    """if True:
    import os, sys

    def hook(event, _):
        if event.startswith(("subprocess.", "os.fork", "os.posix_spawn", "socket.connect")):
            os.write(2, b"happened: " + event.encode())

    sys.addaudithook(hook)
    from envhub.cli import main
    main()
    """,
]
"""Tells of every process that is started and every connection that is opened."""

KINDS = {
    "siblings and observing": REACH,
    "bare env": ASSETS / "bare_env",
    "vector env": ASSETS / "vector",
    "plain sibling imports": ASSETS / "absolute_sibling",
}
"""test_published_shapes.py has the others: cfg, mappings, relative paths."""


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return local_hub


def run(*arguments: str, command: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    if command is None:
        return run_envhub(*arguments)
    return subprocess.run(
        [*command, *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_records_equal_those_of_the_directory(hub, kind):
    directory = KINDS[kind]
    ref = publish(hub, directory, f"me/{directory.name}")
    common = {"episodes": 2, "max_steps": 20, "workers": 1}
    there = envhub.evaluate(ref, trust_remote_code=True, out="there", **common)
    here = envhub.evaluate(str(directory), out="here", **{**common, "workers": 0})
    assert [same(r) for r in there.records()] == [same(r) for r in here.records()]
    assert all(r.status == "ok" for r in there.records())


def test_the_record_says_what_was_run_and_what_it_was_kept_from(hub):
    ref = publish(hub, REACH)
    run_ = envhub.evaluate(ref, trust_remote_code=True, episodes=1, workers=1, out="out")
    benchmark, protection = run_.info["benchmark"], run_.info["protection"]
    assert benchmark["ref"] == ref
    assert benchmark["commit"] in ref
    assert (benchmark["kind"], benchmark["proof"]) == ("hub", "git")
    assert benchmark["endpoint"] == hub.endpoint
    assert benchmark["consent"] == "flag"
    assert benchmark["files"] == {
        name: f"sha256:{hashlib.sha256((REACH / name).read_bytes()).hexdigest()}"
        for name in ("env.py", "table.py")
    }
    assert protection["sandbox"] in ("bubblewrap", "landlock")
    assert protection["network"] is False


@pytest.mark.parametrize(
    ("reference", "options", "code", "message"),
    [
        ("me/env", (), 2, "envhub trust me/env@main"),
        ("me/env@main", ("--trust-remote-code",), 2, "envhub trust me/env@main"),
        ("me/env@{commit}", ("--allow-unpinned",), 3, "Refusing to execute remote code"),
    ],
)
def test_unpinned_or_untrusted_nothing_is_asked_and_nothing_runs(
    hub, tmp_path, reference, options, code, message
):
    commit = publish(hub, REACH).partition("@")[2].partition(":")[0]
    done = run("eval", reference.format(commit=commit), *options, command=WATCHED)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "happened" not in done.stderr
    assert hub.requests == []
    assert not (tmp_path / "runs").exists()
    with pytest.raises(envhub.EnvHubError, match=message):
        envhub.make_env(reference.format(commit=commit))


def test_a_branch_is_resolved_said_and_recorded(hub):
    ref = publish(hub, REACH)
    done = run(
        "eval",
        "me/env@main",
        "--trust-remote-code",
        "--allow-unpinned",
        "--episodes",
        "1",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert f"me/env@main is {ref} now" in done.stderr
    directory = Path(json.loads(done.stdout)["run"])
    assert json.loads((directory / "run.json").read_text())["benchmark"]["ref"] == ref


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda _: faults.WrongBytes("env.py"), "env.py .* differs from the commit"),
        (lambda old: faults.OtherCommit(old), "another commit"),
    ],
    ids=["bytes", "commit"],
)
def test_what_is_not_what_was_asked_for_is_not_run(hub, tmp_path, fault, message):
    hub.create("me/env")
    old = hub.commit("me/env", {"env.py": leaving(tmp_path / "executed")})
    files = {path.name: path.read_bytes() for path in REACH.glob("*.py")}
    ref = f"me/env@{hub.commit('me/env', files)}"
    with hub.fault(fault(old)):
        done = run("eval", ref, "--trust-remote-code", "--sandbox", "none")
    assert done.returncode == 6, done.stderr
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "executed").exists()
    assert run("info", ref).returncode == 0  # nothing wrong was kept


@pytest.mark.parametrize("hub_is_there", [True, False])
def test_a_poisoned_store_is_never_run(hub, tmp_path, hub_is_there):
    ref = publish(hub, REACH)
    short = ("--trust-remote-code", "--episodes", "1", "--task", "reach-red")
    assert run("eval", ref, *short, "--out", "first").returncode == 0
    [file] = (tmp_path / "home").glob("**/files/env.py")
    file.chmod(0o644)
    file.write_text(leaving(tmp_path / "executed"))
    if not hub_is_there:
        hub.close()
    done = run("eval", ref, *short, "--sandbox", "none", "--out", "second")
    assert not (tmp_path / "executed").exists()
    if hub_is_there:
        assert done.returncode == 0, done.stderr
        runs = [open_run(name) for name in ("first", "second")]
        assert same(runs[0].records()[0]) == same(runs[1].records()[0])
    else:
        assert done.returncode == 6
        assert "env.py has different content" in done.stderr


def test_a_poisoned_cache_of_the_client_is_not_looked_at(hub, tmp_path, monkeypatch):
    """What `huggingface_hub` has kept counts for nothing: every byte comes from the Hub itself."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    ref = publish(hub, REACH)
    commit = ref.partition("@")[2].partition(":")[0]
    kept = tmp_path / "hf" / "hub" / "models--me--env"
    for name in ("env.py", "table.py"):
        file = kept / "snapshots" / commit / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(leaving(tmp_path / "executed"))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    short = ("--trust-remote-code", "--episodes", "1", "--task", "reach-red", "--sandbox", "none")
    done = run("eval", ref, *short)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists()


def leaving(mark: Path) -> str:
    """An env file that leaves a mark when it is executed."""
    return f"open({str(mark)!r}, 'w').close()\n"


def test_consent_in_the_ledger(hub, tmp_path):
    from envhub.sources.trust import Ledger

    ref = publish(hub, REACH)
    done = run("trust", ref)
    assert done.returncode == 3
    assert "no terminal" in done.stderr
    assert "table.py" in done.stdout
    Ledger().add(hub.endpoint, "me/env", ref.partition("@")[2].partition(":")[0])
    done = run("eval", ref, "--episodes", "1", "--task", "reach-red", "--out", "run")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["benchmark"]["consent"] == "ledger"
    assert "me/env@" in run("trust", "list").stdout
    assert run("trust", "remove", "me/env").returncode == 0
    assert run("eval", ref).returncode == 3


def test_agreeing_at_a_terminal(hub):
    first = publish(hub, REACH)
    hub.commit("me/env", {"data.dat": b"\0one", "weights.bin": b"x"})
    code, shown = at_terminal([*ENVHUB, "trust", "me/env"], "n")
    assert code == 3, shown
    assert "Changes since" not in shown
    listed = f"{(REACH / 'env.py').stat().st_size:,}  env.py"
    for part in (hub.endpoint, "every byte checked against the commit itself", listed):
        assert part in shown
    assert "left out    .gitattributes, weights.bin\n" in shown
    assert run("eval", first).returncode == 3
    code, shown = at_terminal([*ENVHUB, "trust", "me/env"], "y")
    assert code == 0, shown
    trusted = shown.rpartition("envhub eval ")[2].strip()
    short = ("--episodes", "1", "--task", "reach-red")
    assert run("eval", trusted, *short).returncode == 0
    assert run("eval", first, *short).returncode == 3  # another commit of the same repository


def test_what_has_changed_since_is_shown_before_it_is_asked(hub):
    publish(hub, REACH)
    hub.commit("me/env", {"data.dat": b"\0one", "gone.py": "x = 1\n"})
    assert at_terminal([*ENVHUB, "trust", "me/env"], "y")[0] == 0
    block = b"# /// script\n# dependencies = ['numpy']\n# ///\n"
    hub.commit(
        "me/env",
        {
            "env.py": block + (REACH / "env.py").read_bytes(),
            "table.py": (REACH / "table.py").read_bytes().replace(b"0.05", b"0.02\x1b[2K"),
            "data.dat": b"\0two",
        },
        delete=["gone.py"],
    )
    code, shown = at_terminal([*ENVHUB, "trust", "me/env@main"], "n")
    assert code == 3
    question = shown.index("Run this code on this machine")
    for line in (
        "requires    numpy\n",
        "-_SPEED = 0.05",
        "+_SPEED = 0.02",
        "-(binary, 4 bytes, sha256 ",
        "+(binary, 4 bytes, sha256 ",
        "-x = 1\n",
    ):
        assert line in shown[:question], line
    assert "\x1b" not in shown
    assert len(json.loads(run("trust", "list", "--json").stdout)["trusted"]) == 1


def stored(home):
    """What is left of repositories, but for the notes of when they were used."""
    return [path for path in home.glob("sources/*/*") if path.suffix != ".used"]


@pytest.mark.parametrize("path", ["mesh.obj", "/tree/"])
def test_an_interrupt_while_fetching_waits_for_nothing(hub, tmp_path, path):
    """The Hub is silent for longer than anybody waits; the files are small and large."""
    hub.create("me/env")
    commit = hub.commit("me/env", {"env.py": "", "mesh.obj": bytes(2**21)})
    waiting = threading.Event()
    with hub.fault(faults.Slow(60.0, path)):
        process = subprocess.Popen([*ENVHUB, "eval", f"me/env@{commit}", "--trust-remote-code"])
        while not any(path in request.path for request in hub.requests):
            assert process.poll() is None
            waiting.wait(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30.0) == 130
    assert not stored(tmp_path / "home")


@pytest.mark.parametrize(
    "problem", ["File exists", pytest.param("File too large", marks=needs_prlimit)]
)
def test_what_cannot_be_stored(hub, tmp_path, problem):
    """A limit on the size of files stands for a full disk."""
    hub.create("me/env")
    ref = f"me/env@{hub.commit('me/env', {'env.py': '', 'mesh.obj': bytes(2**21)})}"
    limit, home = (), tmp_path / "home"
    if problem == "File exists":
        (home / "sources").touch()
    else:
        limit = ("prlimit", f"--fsize={2**20}")
    done = run("eval", ref, "--trust-remote-code", command=[*limit, *ENVHUB])
    assert done.returncode == 6, done.stderr
    advice = "Set ENVHUB_CACHE_DIR to" if problem == "File exists" else "Free some space there"
    assert f"me/env cannot be stored in {home}: {problem}. {advice}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not stored(home)


def test_two_commits_run_side_by_side(hub):
    first = publish(hub, REACH)
    changed = (REACH / "table.py").read_bytes().replace(b"_SPEED = 0.05", b"_SPEED = 0.02")
    second = f"me/env@{hub.commit('me/env', {'table.py': changed})}:env.py"
    runs = [
        envhub.evaluate(ref, trust_remote_code=True, episodes=1, workers=1, tasks=("reach-red",))
        for ref in (first, second)
    ]
    returns = [run_.records()[0].return_ for run_ in runs]
    assert returns[0] != returns[1]
    assert runs[0].info["protocol"] != runs[1].info["protocol"]


def test_resuming_needs_consent_of_its_own(hub):
    """A run's directory is handed around: what it says of consent is none."""
    ref = publish(hub, REACH)
    envhub.evaluate(ref, trust_remote_code=True, episodes=1, workers=1, out="run")
    lines = Path("run/episodes.jsonl").read_text().splitlines(keepends=True)
    Path("run/episodes.jsonl").write_text("".join(lines[:-1]))
    refused = run("eval", "--resume", "run")
    assert refused.returncode == 3
    done = run("eval", "--resume", "run", "--trust-remote-code")
    assert done.returncode == 0, done.stderr
    assert sorted(Path("run/episodes.jsonl").read_text().splitlines(keepends=True)) != []


def test_code_of_the_hub_does_not_run_in_this_process(hub):
    ref = publish(hub, REACH)
    done = run("eval", ref, "--trust-remote-code", "--workers", "0")
    assert done.returncode == 2
    assert "needs workers" in done.stderr


def test_info_says_that_a_repository_has_moved_on(hub):
    ref = publish(hub, REACH)
    later = hub.commit("me/env", {"more.py": ""})
    said = f"is at another commit now. To see what changed, and agree: envhub trust me/env@{later}"
    assert said in run("info", ref).stderr
    assert said not in run("info", f"me/env@{later}").stderr


def test_info_without_consent_shows_what_is_known(hub):
    ref = publish(hub, REACH)
    done = run("info", ref, "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["files"]) == {"env.py", "table.py"}
    assert "Refusing to execute" in done.stderr
    agreed = run("info", ref, "--trust-remote-code")
    assert "reach-red" in agreed.stdout


def test_publish_search_lock(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    done = run("publish", str(REACH), "me/reach", "--yes")
    assert done.returncode == 0, done.stderr
    ref = done.stdout.strip()
    found = json.loads(run("search", "reach", "--json").stdout)["found"]
    assert [one["repo"] for one in found] == ["me/reach"]
    assert found[0]["commit"] in ref
    assert run("search", "reach").stdout.startswith(ref.partition(":")[0])
    assert "No repositories were found" in run("search", "unheard-of").stdout
    assert run("lock", ref).returncode == 0
    locked = (
        "eval",
        ref,
        "--locked",
        "--trust-remote-code",
        "--episodes",
        "1",
        "--task",
        "reach-red",
    )
    assert run(*locked).returncode == 0
    content = json.loads(Path("envhub.lock").read_text())
    content["sources"]["me/reach"]["files"]["env.py"] = "0" * 64
    Path("envhub.lock").write_text(json.dumps(content))
    done = run(*locked)
    assert done.returncode == 6
    assert "differs" in done.stderr


def test_publishing_says_what_is_left_out(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    directory = tmp_path / "mine"
    shutil.copytree(REACH, directory, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "data").mkdir()
    (directory / "data" / "states.pkl").touch()
    done = run("publish", str(directory), "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    assert "never fetched with a benchmark: data/states.pkl." in done.stderr
    files = json.loads(run("info", done.stdout.strip(), "--json").stdout)["files"]
    assert set(files) == {"README.md", "env.py", "table.py"}


def test_publishing_what_is_no_benchmark(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    done = run("publish", str(ASSETS / "no_benchmark"), "me/none")
    assert done.returncode == 4
    assert hub.requests == []


PRYING = """
import json, os, socket
from pathlib import Path
import envhub
from envhub import Benchmark, Task

def attempt(what):
    try:
        return str(what())
    except OSError as exc:
        return type(exc).__name__

FOUND = {
    "network": attempt(lambda: socket.create_connection(("127.0.0.1", PORT), 5).close()),
    "datagram": attempt(
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT))
    ),
    "secret": attempt(lambda: Path("SECRET").read_text()),
    "own files": attempt(lambda: Path(__file__).with_name("more.py").write_text("x")),
    "scratch": attempt(lambda: Path.home().joinpath("x").write_text("x")),
    "token": os.environ.get("HF_TOKEN", "none"),
}

@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark("prying", ":make", {"prying": (Task("pry", json.dumps(FOUND), 5),)})

def make(task):
    import gymnasium
    return gymnasium.make("CartPole-v1")
"""


@pytest.mark.parametrize("sandbox", [*SANDBOXES, "none"])
def test_what_code_of_the_hub_can_reach(hub, tmp_path, monkeypatch, sandbox):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    port = hub.endpoint.rpartition(":")[2]
    text = PRYING.replace("PORT", port).replace("SECRET", str(secret))
    hub.create("me/pry")
    ref = f"me/pry@{hub.commit('me/pry', {'env.py': text})}"
    done = run("info", ref, "--trust-remote-code", "--sandbox", sandbox, "--json")
    assert done.returncode == 0, done.stderr
    [task] = json.loads(done.stdout)["suites"]["prying"]
    found = json.loads(task["description"])
    assert found["token"] == "none"
    assert found["scratch"] == "1"
    reached = {what for what in ("network", "datagram", "secret") if "Error" not in found[what]}
    if sandbox == "bubblewrap":  # it has a loopback of its own, on which nobody listens
        reached.discard("datagram")
    assert reached == ({"network", "datagram", "secret"} if sandbox == "none" else set())
    if sandbox != "none":
        assert "Error" in found["own files"]
