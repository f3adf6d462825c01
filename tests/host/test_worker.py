"""What a worker does to itself stays its own: an error that says all, and nothing left behind."""

import gc
import os
import random
import resource
import signal
import tempfile
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from support.hosts import PATIENT, kill_host, start_host
from support.paths import ASSETS
from support.processes import (
    alive,
    children,
    descriptors,
    guards,
    shared_memories,
    wait_for_end,
    wait_until,
)

import envhub
from envhub.errors import WorkerDied, WorkerRaised, WorkerTimeout
from envhub.options import Limits
from envhub.scratch import sweep
from envhub.types import FileSource, WorkerSpec
from envhub.vector.env import LazyVectorEnv

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """After every test: no process, descriptor, shared memory or directory of a worker is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    (tmp_path / "marker").touch()
    before = descriptors()
    yield
    gc.collect()
    assert wait_for_end(tmp_path) == []
    sweep(str(scratch))  # a host that is killed right after it made a directory leaves it
    assert descriptors() - before == set()
    assert shared_memories() == []
    assert list(scratch.iterdir()) == []


@pytest.fixture
def crew(tmp_path):
    """Makes three envs, of which number 1 misbehaves once where and how it is told."""
    made = []

    def make(where="", what="", limits=PATIENT, n_envs=3, **more):
        (tmp_path / "armed").touch()
        arguments = {"room": str(tmp_path), "where": where, "what": what, **more}
        made.append(vector("crew", "reach", arguments, limits, n_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def litter(tmp_path):
    """Makes envs that start processes of every kind and never end them."""
    made = []

    def make(n_envs=1):
        arguments = {"marker": str(tmp_path / "marker")}
        made.append(vector("litter", "litter", arguments, PATIENT, n_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def vector(name, task, arguments, limits, n_envs):
    """What `make_env` makes, without the process that describes the benchmark."""
    source = FileSource(str(ASSETS / f"fault_{name}"), "env.py", f"fault_{name}", name)
    return LazyVectorEnv(WorkerSpec(source, arguments, limits, 1000), name, task, n_envs)


def run_to(where, env):
    """Use an env until it has come to a constructor, reset or step."""
    env.reset(seed=0)
    if where == "step":
        env.step(np.zeros(env.num_envs, np.int64))


def closed(tmp_path):
    """The envs that were closed, each once."""
    rows = (tmp_path / "closed").read_text().split()
    assert len(rows) == len(set(rows))
    return {int(row) for row in rows}


DOING = {
    "constructor": "making the env of task 'reach' in env 1: ",
    "reset": "reset of task 'reach' in env 1: ",
    "step": "step of task 'reach' in env 1: ",
}
SHORT = Limits(start=60, reset=2, step=2, close=20)
DEATHS = {
    "raises": (WorkerRaised, "RuntimeError: the gripper is stuck"),
    "exits": (WorkerDied, "its process ended with exit code 7."),
    "is_killed": (WorkerDied, "its process was killed by SIGKILL, most likely because"),
    "is_killed_for_memory": (WorkerDied, "its process was killed by SIGKILL, most likely"),
    "crashes": (WorkerDied, "its process was killed by SIGSEGV"),
    "forks_and_dies": (WorkerDied, "its process was killed by SIGKILL"),
    "hangs": (WorkerTimeout, "no answer within "),
    "floods_on": (WorkerTimeout, "no answer within "),
}
LAST = {"floods_on": "x" * 99}
CASES = [
    ("constructor", "raises"),
    ("constructor", "is_killed"),
    ("reset", "exits"),
    ("reset", "hangs"),
    *(("step", what) for what in DEATHS),
]
"""Every kind where most happens, and each kind of error elsewhere."""
ANEW = ["raises", "exits", "hangs"]
"""One of each kind of error: then the same env is used again."""


@pytest.mark.parametrize(("where", "what"), CASES)
def test_one_env_of_two_fails(where, what, crew, tmp_path):
    kind, problem = DEATHS[what]
    env = crew(where, what, SHORT if kind is WorkerTimeout else PATIENT, n_envs=2)
    with pytest.raises(kind) as caught:
        run_to(where, env)
    assert str(caught.value).startswith(DOING[where] + problem)
    assert f"\n  | {LAST.get(what, f'about to do it: {what}')}" in str(caught.value)
    assert len(str(caught.value)) < 10_000
    assert closed(tmp_path) >= ({0} if where != "constructor" else set())
    assert children() == []
    if where == "step" and what in ANEW:
        observations, _ = env.reset(seed=0)
        assert observations.tolist() == [[0, 0], [1, 0]]
        observations, *_ = env.step(np.zeros(2, np.int64))
        assert observations.tolist() == [[0, 1], [1, 1]]


def test_a_flood_alone_does_no_harm(crew):
    env = crew("step", "floods")
    env.reset(seed=0)
    observations, *_ = env.step(np.zeros(3, np.int64))
    assert observations.tolist() == [[0, 1], [1, 1], [2, 1]]


def test_one_that_prints_need_not_wait_for_a_slower_one(crew):
    """Env 0 takes 3 s of its 4; env 1 needs 2 s after more output than a pipe holds."""
    env = crew("step", "talks", Limits(step=4), nap=3.0)
    env.reset(seed=0)
    observations, *_ = env.step(np.zeros(3, np.int64))
    assert observations.tolist() == [[0, 1], [1, 1], [2, 1]]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("where", ["constructor", "step"])
def test_death_is_noticed_long_before_the_limit_though_a_child_holds_the_socket(where, crew):
    """The limit is 60 s; this test may take 30."""
    env = crew(where, "forks_and_dies")
    with pytest.raises(WorkerDied, match="in env 1: its process was killed by SIGKILL"):
        run_to(where, env)


def test_a_process_that_goes_on_twice_is_ended(crew):
    """After an env's fork both processes answer: one of the answers was not asked for."""
    env = crew("step", "forks_twice")
    env.reset(seed=0)
    with pytest.raises(WorkerDied, match=r"in env 1: its process .*answered"):
        step_on(env)
    env.reset(seed=0)


def step_on(env):
    for _ in range(1000):
        env.step(np.zeros(3, np.int64))


@pytest.mark.parametrize("what", ["raises", "floods_on"])
def test_an_env_that_cannot_be_closed_is_ended(what, crew, tmp_path):
    env = crew("close", what, Limits(close=2))
    env.reset(seed=0)
    env.close()
    assert closed(tmp_path) == {0, 1, 2}
    assert children() == []


def test_a_slow_close_takes_no_time_from_the_others(crew, tmp_path):
    """Env 0 hangs till the limit; the others would too if nobody took what they print."""
    env = crew("close", "hangs", Limits(close=2), row=0)
    env.reset(seed=0)
    env.close()
    assert closed(tmp_path) == {0, 1, 2}


@pytest.mark.parametrize("which", ["outer guard", "inner guard", "worker"])
def test_a_process_killed_from_outside_while_nothing_is_asked(which, crew, tmp_path):
    env = crew()
    env.reset(seed=0)
    outer = guards()[1]
    [inner] = children(outer)
    [worker] = children(inner)
    victim = {"outer guard": outer, "inner guard": inner, "worker": worker}[which]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not alive(victim) and not alive(worker))  # until then it may take a step
    with pytest.raises(WorkerDied, match=r"step of task 'reach' in env 1: .* killed by SIGKILL"):
        env.step(np.zeros(3, np.int64))
    assert closed(tmp_path) == {0, 2}
    env.reset(seed=0)


def test_the_same_through_make_env(tmp_path):
    (tmp_path / "armed").touch()
    arguments = {"room": str(tmp_path), "where": "step", "what": "exits"}
    envs = envhub.make_env(str(ASSETS / "fault_crew"), n_envs=2, env_args=arguments)
    env = envs["crew"]["reach"]
    env.reset(seed=0)
    with pytest.raises(WorkerDied, match="step of task 'reach' in env 1: its process ended with"):
        env.step(np.zeros(2, np.int64))
    env.reset(seed=0)
    env.close()


def test_two_failures_are_one_error_with_a_note(crew, tmp_path):
    env = crew()
    env.reset(seed=0)
    for outer in guards()[:2]:
        [inner] = children(outer)
        os.kill(children(inner)[0], signal.SIGKILL)
    with pytest.raises(WorkerDied, match="in env 0") as caught:
        env.step(np.zeros(3, np.int64))
    assert any("in env 1: its process was killed" in note for note in caught.value.__notes__)


def test_a_value_that_cannot_cross_for_one_env_harms_none(crew):
    env = crew()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="is a object"):
        env.set_attr("count", [5, object(), 5])
    env.set_attr("count", [5, 6, 7])
    assert env.get_attr("count") == (5, 6, 7)


def test_an_interrupt_while_waiting_ends_the_envs_and_a_reset_starts_anew(crew):
    env = crew("step", "hangs")
    env.reset(seed=0)
    main = threading.main_thread().ident
    interrupt = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        env.step(np.zeros(3, np.int64))
    observations, _ = env.reset(seed=0)
    assert observations.tolist() == [[0, 0], [1, 0], [2, 0]]


@pytest.mark.parametrize("spare", [6, 9])
def test_when_a_worker_cannot_be_started_none_is_left(spare, crew):
    """Descriptors run out while one of the workers is made."""
    env = crew(n_envs=3)
    with few_descriptors(spare), pytest.raises(OSError, match="Too many open files"):
        env.reset(seed=0)
    assert children() == []
    observations, _ = env.reset(seed=0)
    assert observations[:, 0].tolist() == [0, 1, 2]


@contextmanager
def few_descriptors(spare):
    """Only so many descriptors are to be had; none of them is kept."""
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    filling = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (top + 2 + spare, hard))
    try:
        with suppress(OSError):
            while True:
                filling.append(os.open(os.devnull, os.O_RDONLY))
        for fd in filling[-spare:]:
            os.close(fd)
        before = descriptors()
        yield
        gc.collect()
        assert descriptors() == before
    finally:
        for fd in filling[:-spare]:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestNothingIsLeft:
    def test_after_opening_and_closing(self, litter):
        env = litter()
        env.reset(seed=0)
        env.close()
        before = descriptors(), threading.active_count()
        for _ in range(3):
            env.reset(seed=0)
            env.close()
        gc.collect()
        assert (descriptors(), threading.active_count()) == before
        assert children() == []

    def test_after_an_env_was_dropped(self, litter, tmp_path):
        source = FileSource(str(ASSETS / "fault_litter"), "env.py", "fault_litter", "litter")
        arguments = {"marker": str(tmp_path / "marker")}
        env = LazyVectorEnv(WorkerSpec(source, arguments, PATIENT, 1000), "litter", "litter", 1)
        env.reset(seed=0)
        assert children() != []
        del env
        gc.collect()
        assert children() == []

    def test_when_the_worker_is_killed(self, litter, tmp_path):
        env = litter(2)
        env.reset(seed=0)
        with pytest.raises(WorkerDied, match="in env 1: its process was killed by SIGKILL"):
            env.step(np.array([0, 1]))
        assert wait_for_end(tmp_path) == []

    @pytest.mark.parametrize("ending", ["pass", "os._exit(0)", "suicide()"])
    def test_when_the_host_ends_without_closing(self, ending, tmp_path):
        host = start_host(f"env.reset(seed=0)\nprint('ready', flush=True)\n{ending}", tmp_path)
        output, errors = host.communicate(timeout=50)
        assert output == "ready\n"
        assert errors == ""
        assert host.returncode == (-signal.SIGTERM if "suicide" in ending else 0)
        assert wait_for_end(tmp_path) == []

    def test_when_the_host_is_killed_at_a_random_moment(self, tmp_path):
        """`make soak` does it many times."""
        kill_host(random.uniform(0, 1.5), tmp_path)

    def test_when_a_host_is_killed_whose_envs_run(self, tmp_path):
        kill_host(None, tmp_path)

    def test_when_the_thread_that_used_the_env_has_ended(self, crew):
        """The parent-death signal follows the thread that started a process."""
        env = crew()
        user = threading.Thread(target=env.reset)
        user.start()
        user.join()
        time.sleep(0.1)
        observations, *_ = env.step(np.zeros(3, np.int64))
        assert observations[:, 1].tolist() == [1, 1, 1]


class TestHostThatForks:
    def test_a_fork_that_ends_leaves_the_envs_alone(self, tmp_path):
        body = """
env.reset(seed=0)
pid = os.fork()
if pid == 0:
    warnings.simplefilter("ignore", ResourceWarning)  # it closes nothing, as it should
    sys.exit()
os.waitpid(pid, 0)
for _ in range(3):
    env.step([0])
assert len(list(pathlib.Path(tempfile.gettempdir()).iterdir())) == 1
env.close()
print("done")
"""
        host = start_host(body, tmp_path)
        assert host.communicate(timeout=50) == ("done\n", "")

    def test_a_fork_that_lives_does_not_keep_envs_from_closing(self, crew, tmp_path):
        env = crew(limits=Limits(close=20))
        env.reset(seed=0)
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        try:
            env.close()
            assert closed(tmp_path) == {0, 1, 2}
            assert children() == [pid]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
