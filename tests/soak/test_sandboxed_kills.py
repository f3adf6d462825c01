"""Kills of host, guards, workers and policy of runs of Hub code, in each sandbox: nothing is left.

The env starts processes that are to outlive it: detached ones, one in a session of its own, one
without its variables. Whoever is killed, and however often: after each command no process of it is
left, and the run that is resumed until it is complete has the records of one that nobody disturbed.
`ENVHUB_SOAK=0.1` does a tenth of it.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from support.needs import SANDBOXES
from support.processes import children, descendants, ending, kill, wait_for_end
from support.run_tools import WALK, WALKERS, Answer, Outcomes, counted, ended, outcomes, start

from envhub import evaluate, open_run

KILLS = round(50 * float(os.environ.get("ENVHUB_SOAK", "1")))
SEED = int(os.environ.get("ENVHUB_SOAK_SEED", "0"))
EPISODES = 5
POLICY = f"{WALKERS}:noisy"
VICTIMS = {
    "host": ("host", 0),
    "outer guard": ("inside", 0),
    "inner guard": ("inside", 1),  # in bubblewrap: `bwrap`
    "worker": ("inside", 2),  # in bubblewrap: the first process of the namespace
    "below": ("inside", 3),  # a process that the worker started; in bubblewrap: the worker
    "policy": ("policy", 2),
    "policy's outer guard": ("policy", 0),
    "policy's inner guard": ("policy", 1),
    "host and outer guards": ("everything", 0),
}
"""Who is killed: which processes of the host, and how many levels below them."""
LITTER = """
import os as _os, subprocess as _subprocess, sys as _sys, time as _time
_held = _os.open(__file__, _os.O_RDONLY)  # all that descends from here holds it
if _os.fork() == 0:
    _os.setsid()
    if _os.fork() == 0:
        _os.chdir("/")
        _time.sleep(600)
    _os._exit(0)
_argv = [_sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
_subprocess.Popen(_argv, pass_fds=(_held,), start_new_session=True, env={}, cwd="/")
"""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture
def place(local_hub, tmp_path, monkeypatch) -> Path:
    """Where all files of a run are, temporary ones too."""
    for name in ("temporary", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_killed_at_random(place, local_hub, sandbox, capsys):
    local_hub.create("me/walk")
    code = (WALK / "env.py").read_text() + LITTER
    ref = f"me/walk@{local_hub.commit('me/walk', {'env.py': code})}"
    variables = {
        "HF_ENDPOINT": local_hub.endpoint,
        "ENVHUB_HOME": str(place / "home"),
        "TMPDIR": str(place / "temporary"),
    }
    options = {"suites": "all", "episodes": EPISODES, "env_args": {"pause": 0.02}}
    evaluate(str(WALK), POLICY, workers=0, out=place / "reference", **options)
    reference = outcomes(place / "reference")
    chance, figures = random.Random(f"{SEED} {sandbox}"), Counter()
    question = (
        *("eval", ref, "--suite", "all", "--episodes", EPISODES, "--env-arg", "pause=0.02"),
        *("--policy", POLICY, "--workers", 2, "--retries", 50),
        *("--trust-remote-code", "--sandbox", sandbox),
    )
    began = time.monotonic()
    while killed(figures) < KILLS:
        out = place / f"run-{figures['runs']}"
        disturbed(question, out, reference, variables, chance, figures)
        assert list((place / "temporary").iterdir()) == []
        figures["runs"] += 1
    with capsys.disabled():
        kills = ", ".join(f"{figures[kind]} {kind}" for kind in VICTIMS)
        print(
            f"\n{sandbox}: killed {kills}; {figures['runs']} runs of {len(reference)} episodes, "
            f"resumed {figures['resumed']} times, begun anew {figures['anew']} times, gave up "
            f"{figures['gave up']} times; {time.monotonic() - began:.0f} s"
        )


def disturbed(
    question: tuple[object, ...],
    out: Path,
    reference: Outcomes,
    variables: dict[str, str],
    chance: random.Random,
    figures: "Counter[str]",
) -> None:
    """One run, to its end; after each command, no process of it is left."""
    code: int | None = None
    while code != 0:
        begun = (out / "run.json").exists()
        figures["resumed" if begun else "anew"] += out.exists()
        if not begun:
            shutil.rmtree(out, ignore_errors=True)
        before = counted(out)
        new = (*question, "--out", out)
        again = ("eval", "--resume", out, "--trust-remote-code", "--workers", 2)
        with ending(start(*(again if begun else new), **variables)) as command:
            while command.poll() is None and killed(figures) < KILLS:
                time.sleep(chance.uniform(0.0, 1.0))
                kinds = list(VICTIMS)
                kill_one(command, kinds[killed(figures) % len(kinds)], chance, figures)
            answer = ended(command)
        code = answer.code
        check(answer, out, before, figures)
        assert wait_for_end(out.parent) == []
    assert open_run(out).complete
    assert outcomes(out) == reference
    assert not list(out.rglob("*.part"))


def check(answer: Answer, out: Path, before: int, figures: "Counter[str]") -> None:
    """A command that was disturbed says so, and loses no record."""
    assert answer.code in (0, 4, -signal.SIGKILL), answer
    assert "Traceback" not in answer.err, answer
    if answer.code == 4:  # the first worker was killed while it started, or several in a row
        assert "was killed by SIGKILL" in answer.err, answer
        figures["gave up"] += 1
    assert counted(out) >= before


def kill_one(
    host: "subprocess.Popen[str]", kind: str, chance: random.Random, figures: "Counter[str]"
) -> None:
    """Kill the host, or processes below it, as soon as there are some."""
    while host.poll() is None:
        if victims := find_victims(host.pid, *VICTIMS[kind], chance):
            for pid in victims:
                kill(pid)
            figures[kind] += 1
            return
        time.sleep(chance.uniform(0.0, 0.2))


def find_victims(host: int, part: str, depth: int, chance: random.Random) -> list[int]:
    lines = {pid: line for pid, (parent, line) in descendants(host).items() if parent == host}
    # The command line of a guard in a sandbox; before that, the shell's, which names both.
    workers = [pid for pid, line in lines.items() if "envhub.worker.guard" in line]
    policies = [pid for pid, line in lines.items() if f" {host} " in line and " policy " in line]
    match part:
        case "host":
            return [host]
        case "everything":
            return [host, *workers, *policies]
    level = workers if part == "inside" else policies
    for _ in range(depth):
        level = [child for pid in level for child in children(pid)[:1]]  # the oldest
    return [chance.choice(level)] if level else []


def killed(figures: "Counter[str]") -> int:
    return sum(figures[kind] for kind in VICTIMS)
