"""From a question to a run: `envhub.evaluate`, resuming, and those who look on."""

import gc
import importlib
import json
import os
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from support.opened import opened_by
from support.paths import ASSETS
from support.processes import descendants, wait_until
from support.run_tools import WALK, WALKERS, outcomes, snapshot

import envhub
from envhub import evaluate, open_run
from envhub.api import _Callbacks
from envhub.errors import ContractError, RunDirectoryError, UnknownName, UsageError, WorkerRaised
from envhub.evaluation.request import EvalRequest
from envhub.evaluation.run import name_run, resume_run
from envhub.results.summary import to_json


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_run(out):
    how = {"seeding": "shared", "episodes": 2, "workers": 1, "out": out}
    run = evaluate(str(WALK), f"{WALKERS}:chunked", tasks="near,far", **how)
    assert (run.directory, run.complete) == (out, True)
    assert [(one.task, one.episode, one.seed) for one in run.records()] == [
        *(("near", 0, 0), ("near", 1, 1), ("far", 0, 0), ("far", 1, 1))
    ]
    assert {one.status for one in run.records()} == {"ok"}
    assert json.loads((out / "summary.json").read_text()) == to_json(run.summary())
    assert open_run(out) == run
    assert sorted(os.listdir(out / "actions")) == ["0.npy", "1.npy", "2.npy", "3.npy"]
    assert len(outcomes(out)) == 4
    assert not descendants(os.getpid())


def test_an_episode_can_be_played_again_from_what_is_kept(out):
    run = evaluate(
        str(WALK), f"{WALKERS}:noisy_chunked", tasks="far", episodes=2, workers=0, out=out
    )
    record = run.records()[1]
    with (out / "actions" / f"{record.number}.npy").open("rb") as file:
        actions, steps = np.load(file), np.load(file)
    assert (actions.dtype, actions.shape) == (np.float32, (record.steps, 1))
    assert steps.dtype.names == ("reward", "success", "terminated", "truncated")
    assert steps.nbytes == 11 * record.steps
    total, rewards = 0.0, []
    with envhub.make_env(str(WALK), tasks="far")["long"]["far"] as env:
        env.reset(seed=[record.seed])
        for action in actions:
            _, reward, *_, info = env.step(action[None])
            total += float(reward[0])
            rewards.append(float(reward[0]))
    assert total == record.return_
    assert steps["reward"].tolist() == rewards
    assert steps["success"].tolist() == [0] * (record.steps - 1) + [int(record.success)]
    assert bool(info["is_success"][0]) is record.success


@pytest.mark.parametrize("workers", [0, 2])
def test_an_env_file_starts_in_its_own_directory(out, workers):
    before = Path.cwd()
    run = evaluate(str(ASSETS / "relative_file"), episodes=3, workers=workers, out=out)
    assert [(one.status, one.steps, one.success) for one in run.records()] == [("ok", 4, True)] * 3
    assert Path.cwd() == before


# Policies


def test_a_policy_object_runs_here(out):
    run = evaluate(str(WALK), Still(), tasks=["near"], episodes=2, workers=1, out=out)
    assert [one.success for one in run.records()] == [False, False]
    assert run.info["policy"] == {
        "kind": "object",
        "ref": "Still",
        "path": None,
        "sha256": None,
        "imports": {},
        "args": {},
        "files": {},
        "directory": os.getcwd(),
        "provided": None,
        "batch": 1,
        "placement": "process",
        "about": {},
        "instructions": {},
        "latency": run.info["policy"]["latency"],
        "outliers": [],
        "runtime": None,
        "processes": [],
    }
    with pytest.raises(RunDirectoryError, match="was a Python object; only the program"):
        resume_run(out, None, _Callbacks())


def test_an_object_takes_no_arguments(out):
    with pytest.raises(UsageError, match="policy_args need a policy given by name"):
        evaluate(str(WALK), Still(), policy_args={"a": 1}, workers=0, out=out)
    assert not out.exists()


def test_the_benchmarks_own_policy_runs_beside_the_env_and_is_resumed(out):
    """In a resumed run it is named by its file; it must play alike."""
    run = evaluate(str(WALK), "expert", tasks="near", episodes=3, workers=1, out=out)
    assert run.info["policy"]["placement"] == "worker"
    before, text = outcomes(out), (out / "episodes.jsonl").read_text()
    (out / "episodes.jsonl").write_text(text[: text.index("\n") + 1])
    run = resume_run(out, 1, _Callbacks())
    assert run.complete
    assert run.info["policy"]["placement"] == "worker"
    assert outcomes(out) == before


def test_a_resumed_run_without_records_calls_its_policy_as_before(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(WALKERS, "walkers.py")
    policy = "./walkers.py:chunked"
    run = evaluate(str(WALK), policy, tasks="near", episodes=1, workers=0, out=out)
    (out / "episodes.jsonl").write_text("")
    again = resume_run(out, 0, _Callbacks())
    assert again.complete
    assert again.info["policy"]["ref"] == policy
    assert again.info["policy"]["path"] == run.info["policy"]["path"]


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (f"me/reach@{'a1' * 20}", "reach-a1a1a1a"),
        (f"hf://me/reach@{'a1' * 20}:env.py", "reach-a1a1a1a"),
        (f"me/reach@{'a1' * 20}:hard/env.py", "reach-a1a1a1a-hard"),
        ("me/reach@v1", "reach-v1"),
        ("./my_env/env.py", "my_env"),
    ],
)
def test_the_name_of_a_run(ref, name):
    assert re.fullmatch(rf"{name}-\d{{8}}-\d{{6}}", name_run(EvalRequest(ref)))


# Nothing is left behind


def test_a_policy_that_cannot_be_made_leaves_no_run(tmp_path, monkeypatch):
    """Unless the directory is the user's, who may look into the logs there."""
    monkeypatch.chdir(tmp_path)
    for out in (None, Path("mine")):
        with pytest.raises(ContractError, match="no weights"):
            evaluate(str(WALK), f"{WALKERS}:unmade", tasks="near", workers=1, out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert "no weights" in Path("mine", "logs", "policy.log").read_text()


def test_a_finished_run_that_is_resumed_leaves_no_worker(out):
    evaluate(str(WALK), "expert", tasks="near", episodes=1, workers=1, out=out)
    before = outcomes(out)
    assert resume_run(out, 2, _Callbacks()).complete
    assert outcomes(out) == before
    assert not descendants(os.getpid())


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ({"tasks": "nears"}, UnknownName),
        ({"suites": "shorts"}, UnknownName),
        ({"policy": "ranom"}, UnknownName),
        ({"policy": "./nowhere.py"}, UsageError),
        ({"episodes": 0}, UsageError),
        ({"seed": -1}, UsageError),
    ],
)
def test_a_run_that_never_began_leaves_nothing(out, question, kind):
    with pytest.raises(kind):
        evaluate(str(WALK), workers=0, out=out, **question)
    assert not out.exists()


def test_no_directory_is_made_for_a_benchmark_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        evaluate("./nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_is_not_left_behind(out, assets):
    with pytest.raises(WorkerRaised):
        evaluate(str(assets / "raises"), workers=1, out=out)
    assert not out.exists()
    assert not descendants(os.getpid())


def test_a_bad_line_leaves_no_worker_behind(out):
    evaluate(str(WALK), "zero", tasks="near", episodes=1, workers=0, out=out)
    with (out / "episodes.jsonl").open("a") as file:
        file.write("oops\n")
    before = snapshot(out)
    for _ in range(2):  # nor does it keep hold of the directory
        with pytest.raises(RunDirectoryError, match="line 2, is not a record of this run"):
            resume_run(out, 1, _Callbacks())
    assert not descendants(os.getpid())
    assert snapshot(out) == before


# Directories


def test_a_directory_under_runs_unless_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    question = {"tasks": "near", "episodes": 1, "max_steps": 1, "workers": 0}
    first = evaluate(f"{WALK}/env.py", **question)
    second = evaluate(str(WALK), **question)
    assert first.directory != second.directory
    for run in (first, second):
        assert run.directory.parent == Path("runs")
        assert run.directory.name.startswith("run_walk-2")
        assert open_run(run.directory).complete


def test_a_run_in_the_directory_of_its_benchmark_can_be_resumed(tmp_path):
    shutil.copytree(WALK, tmp_path / "walk")
    out = tmp_path / "walk" / "result"
    evaluate(str(tmp_path / "walk"), "zero", tasks="near", episodes=2, workers=0, out=out)
    before = outcomes(out)
    (out / "episodes.jsonl").write_text("")
    assert resume_run(out, 0, _Callbacks()).complete
    assert outcomes(out) == before


def test_a_run_goes_on_from_any_directory(out, tmp_path, monkeypatch):
    monkeypatch.chdir(WALK.parent)
    policy = f"./{WALKERS.relative_to(WALK.parent)}:noisy"
    evaluate("./run_walk", policy, tasks="near", episodes=2, workers=0, out=out)
    before = outcomes(out)
    (out / "episodes.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    run = resume_run(out, 0, _Callbacks())
    assert outcomes(out) == before
    assert run.info["benchmark"]["ref"] == "./run_walk"


def test_paths_are_taken_as_paths(out):
    run = evaluate(WALK, WALKERS, tasks="near", episodes=1, workers=0, out=out)
    assert run.info["policy"]["ref"] == str(WALKERS)
    assert evaluate(WALK / "env.py", "zero", tasks="near", episodes=1, workers=0, out=f"{out}2")


# From programs


@pytest.fixture
def _no_collector():
    """Nothing that only the garbage collector would free is freed."""
    gc.collect()  # what earlier tests left
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_twenty_runs_in_a_row_leave_nothing(tmp_path, monkeypatch):
    """Each has a directory of its own, although many begin in the same second."""
    monkeypatch.chdir(tmp_path)
    question = {"tasks": "near", "episodes": 1, "max_steps": 1}
    evaluate(str(WALK), workers=1, **question)  # starts what stays: a thread
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    runs = [evaluate(str(WALK), Still(), workers=n % 2, **question) for n in range(20)]
    assert len({run.directory for run in runs}) == 20
    assert all(run.complete for run in runs)
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert threading.active_count() <= threads
    assert not descendants(os.getpid())


def test_four_threads_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    question = {"tasks": "near,far", "episodes": 2, "workers": 1}
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(evaluate, str(WALK), f"{WALKERS}:noisy", **question) for _ in range(4)]
        runs = [job.result() for job in jobs]
    assert len({run.directory for run in runs}) == 4
    first, *others = (outcomes(run.directory) for run in runs)
    assert len(first) == 4
    assert others == [first] * 3
    wait_until(lambda: not descendants(os.getpid()))


def test_progress_and_records_are_told(out):
    told, records = [], []
    run = evaluate(
        str(WALK),
        "zero",
        tasks="near",
        episodes=3,
        workers=0,
        out=out,
        progress=lambda *numbers: told.append(numbers),
        on_episode=records.append,
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert tuple(records) == run.records()


class Slow(Still):
    calls = 0

    def act(self, obs, episodes):
        self.calls += 1
        time.sleep(0.02)
        return super().act(obs, episodes)


def test_how_long_the_policy_took_is_recorded(out):
    policy = Slow()
    question = {"tasks": "near", "workers": 1, "out": out}

    def stop(record):
        raise LookupError

    with pytest.raises(LookupError):
        evaluate(str(WALK), policy, episodes=2, on_episode=stop, **question)
    before = json.loads((out / "run.json").read_text())["policy"]["latency"]["calls"]
    assert 0 < before == policy.calls
    run = evaluate(str(WALK), policy, episodes=2, resume=True, **question)
    latency = run.info["policy"]["latency"]
    assert before < latency["calls"] == policy.calls
    assert 0.0195 < latency["p50"] <= latency["p95"]


def test_the_same_of_a_policy_in_its_own_process(tmp_path):
    (tmp_path / "policy.py").write_text(
        "import time, numpy as np\n"
        "class Slow:\n"
        "    def act(self, obs, episodes):\n"
        "        time.sleep(0.02)\n"
        "        return np.zeros((len(episodes), 1), np.float32)\n"
        "def make_policy(benchmark, observation_space, action_space):\n"
        "    return Slow()\n"
    )
    run = evaluate(
        str(WALK), tmp_path / "policy.py", tasks="near", episodes=1, workers=1, out=tmp_path / "out"
    )
    latency = run.info["policy"]["latency"]
    assert latency["calls"] == run.records()[0].steps
    assert latency["p50"] > 0.0195
    run = evaluate(str(WALK), "zero", tasks="near", episodes=1, workers=1, out=tmp_path / "other")
    assert run.info["policy"]["latency"] is None  # no call crosses to the host


def test_an_own_function_that_raises_ends_the_run(out):
    """What is recorded stays, and the run can be continued."""
    question = {"tasks": "near", "episodes": 3, "workers": 1, "out": out}

    def refuse(record):
        raise LookupError(record.episode)

    with pytest.raises(LookupError):
        evaluate(str(WALK), Still(), on_episode=refuse, **question)
    assert not descendants(os.getpid())
    told = []
    run = evaluate(str(WALK), Still(), resume=True, progress=lambda *n: told.append(n), **question)
    assert run.complete
    assert told[0] == (1, 3)
    with pytest.raises(RunDirectoryError, match=r"The --seed that .* was begun with is 0"):
        evaluate(str(WALK), Still(), resume=True, seed=1, **question)


def test_a_run_is_resumed_or_started(out):
    question = {"tasks": "near", "episodes": 2, "workers": 0, "out": out}
    first = evaluate(str(WALK), "zero", resume=True, **question)
    before = snapshot(out)
    assert evaluate(str(WALK), "zero", resume=True, **question) == first
    assert snapshot(out) == before


def test_errors_are_warned_of(out):
    question = {"tasks": "near", "episodes": 2, "workers": 0, "retries": 0, "out": out}
    with pytest.warns(RuntimeWarning, match=r"^1 of 2 episodes ended with an error, the first: "):
        evaluate(str(WALK), f"{WALKERS}:fails", **question)


# Those who look on


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a real distribution with an observer on the path."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules = []

    def install(name: str, text: str) -> None:
        modules.append(name)
        (site / f"{name}.py").write_text("from envhub import hookimpl\n" + dedent(text))
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[envhub.observers]\n{name} = {name}\n")
        importlib.invalidate_caches()

    yield install
    for name in modules:
        sys.modules.pop(name, None)


NOTES = """
    seen = []

    @hookimpl
    def envhub_run_started(run):
        seen.append(("started", run, len(run.records())))

    @hookimpl
    def envhub_episode_finished(record, run):
        assert record in run.records()
        seen.append(("episode", run, record))

    @hookimpl
    def envhub_run_finished(run, summary):
        seen.append(("finished", run, summary))
"""


def test_observers_are_told(install, out):
    install("notes", NOTES)
    run = evaluate(str(WALK), "zero", tasks="near", episodes=2, workers=0, out=out)
    import notes

    assert [what for what, *_ in notes.seen] == ["started", "episode", "episode", "finished"]
    assert {told.directory for _, told, _ in notes.seen} == {out}
    started, *episodes, finished = notes.seen
    assert started[2] == 0
    assert [one for *_, one in episodes] == list(run.records())
    assert (finished[1], finished[2]) == (run, run.summary())


def test_observers_of_a_resumed_run_hear_of_what_is_new(install, out):
    evaluate(str(WALK), "zero", tasks="near", episodes=3, workers=0, out=out)
    text = (out / "episodes.jsonl").read_text()
    (out / "episodes.jsonl").write_text(text[: text.index("\n") + 1])
    install("notes", NOTES)
    resume_run(out, 0, _Callbacks())
    import notes

    assert notes.seen[0][2] == 1
    assert [one.episode for what, _, one in notes.seen if what == "episode"] == [1, 2]


@pytest.mark.parametrize("hook", ["run_started(run)", "episode_finished(run)", "run_finished()"])
def test_an_observer_that_raises_is_told_no_more(install, out, hook):
    install("notes", NOTES)
    install(
        "faulty",
        f"""
        calls = []

        @hookimpl
        def envhub_{hook}:
            calls.append(1)
            raise SystemExit("no disk")
        """,
    )
    name = hook.partition("(")[0]
    said = f"^Plugin 'faulty' of faulty failed in envhub_{name}: SystemExit: no disk$"
    with pytest.warns(UserWarning, match=said) as caught:
        run = evaluate(str(WALK), "zero", tasks="near", episodes=3, workers=0, out=out)
    import faulty
    import notes

    assert (len(caught), faulty.calls) == (1, [1])
    assert run.complete
    assert [what for what, *_ in notes.seen] == ["started", *["episode"] * 3, "finished"]


# Reading


@pytest.mark.parametrize("how", ["new", "resumed"])
def test_after_the_last_episode_the_records_are_read_once(out, tmp_path, how):
    words = ("--policy", "zero", "--episodes", "2", "--workers", "1", "--baselines", "random")
    if how == "resumed":
        evaluate(str(WALK), "zero", episodes=2, workers=1, out=out)
        lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
        (out / "episodes.jsonl").write_text("".join(lines[:1]))
        words = (*words, "--continue")
    code, opened = opened_by(tmp_path, "eval", WALK, *words, "--require", "n>=1", "--out", out)
    assert code in (0, 1)
    last = max(i for i, path in enumerate(opened) if path.startswith(f"{out}/actions/"))
    assert opened[last:].count(f"{out}/episodes.jsonl") == 1
