"""LIBERO's meshes and its runtime, made once for all tests and kept in pytest's cache."""

import fcntl
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import envhub_libero

import envhub
from envhub.runtime.provision import provision
from envhub.types import Interpreter, PluginSource
from support.libero_frames import Looker, differences
from support.paths import TESTS

ARCHIVE = "ENVHUB_TEST_LIBERO"
"""Names the archive of the meshes; else it is looked for next to the project."""
CACHE = TESTS.parent / ".pytest_cache" / "libero"
LOOPS = TESTS / "support" / "libero_loops.py"
SIZE = 64
"""Of the frames that are compared."""
THREADS = ("LP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""The variables of the numbers of threads, of which a worker has one."""


def archive() -> Path:
    named = os.environ.get(ARCHIVE)
    return Path(named) if named else TESTS.parent.parent / "shared" / "libero-assets.tar.xz"


def assets() -> Path:
    """The directory of the meshes, unpacked by whoever needs it first."""
    place = CACHE / "libero-assets"
    with _alone("assets"):
        if not place.is_dir():
            fresh = CACHE / f"unpacked-{os.getpid()}"
            with tarfile.open(archive()) as packed:
                # Python 3.11.4 is the first with filters; the archive is ours.
                with_filter = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                packed.extractall(fresh, **with_filter)
            (fresh / "libero-assets").rename(place)
            fresh.rmdir()
    return place


def runtime(name: str = "libero") -> Interpreter:
    """The runtime of a benchmark's lock; `ENVHUB_HOME` must be that of `home()`."""
    benchmarks = {benchmark.name: benchmark for benchmark in envhub_libero.envhub_benchmarks()}
    return provision(PluginSource(name), "isolated", benchmarks[name])


def home() -> Path:
    """The value of `ENVHUB_HOME` for tests that run LIBERO: runtimes are built once."""
    return CACHE / "home"


def python(
    *arguments: object,
    stdin: str = "",
    first: str = "",
    benchmark: str = "libero",
    **variables: str,
) -> str:
    """Run the interpreter of a benchmark and return what it prints."""
    interpreter = runtime(benchmark)
    done = subprocess.run(
        [interpreter.python, *map(str, arguments)],
        env=os.environ | variables_of(interpreter, first) | variables,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def variables_of(interpreter: Interpreter, first: str = "") -> dict[str, str]:
    """The variables of a process on LIBERO's interpreter, as a worker would have them.

    Args:
        interpreter: That of `runtime()`.
        first: A directory that is searched before all others.
    """
    paths = [*([first] if first else []), str(TESTS), *interpreter.paths]
    return {
        "PYTHONPATH": ":".join(paths),
        "NUMBA_CACHE_DIR": str(home() / "numba" / str(interpreter.key)),
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(THREADS, "1"),
    }


def episodes(kind: str, jobs: list[Any], *, steps: int, chunks: str = "1") -> Any:
    """The lines of `libero_loops.py`, read."""
    benchmark = "libero_pro" if kind.endswith("_pro") else "libero"
    arguments = (LOOPS, kind, assets(), SIZE, steps, chunks)
    told = python(*arguments, stdin=json.dumps(jobs), benchmark=benchmark)
    return [json.loads(line) for line in told.splitlines() if line.startswith("[")]


def compare_frames(
    tasks: list[str], out: Path, runtime: str = "isolated"
) -> dict[str, list[float]]:
    """How much what a policy is shown differs from the frames of MuJoCo 3.2.3, by task."""
    policy = Looker()
    envhub.evaluate(
        "libero",
        policy,
        tasks=tasks,
        episodes=1,
        workers=1,
        max_steps=1,
        out=out,
        runtime=runtime,
        seeding="shared",
    )
    return differences(policy.seen)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
