"""Running uv, and making sense of what it says when it fails."""

import re
import shutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from envhub import process
from envhub.errors import RuntimeUnavailable
from envhub.runtime.uv_settings import uv_variables

_TIMEOUT = 3600.0
"""Seconds. A simulator over a slow line takes its time; uv has limits of its own for silence."""
_SHOWN = 8
_UNREACHABLE = re.compile(
    "error sending request|failed to fetch|could not connect|connection refused|dns error|"
    "network (is unreachable|connectivity is disabled)|network was disabled|timed out|offline",
    re.IGNORECASE,
)


def find_uv() -> Path:
    """The uv of this interpreter's packages, else the one on PATH.

    Raises:
        RuntimeUnavailable: There is none.
    """
    try:
        return Path(import_module("uv").find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise RuntimeUnavailable("Runtimes are built by uv, which is not here.", "pip install uv")
    return Path(found)


def run_uv(
    arguments: Sequence[str | Path],
    *,
    directory: Path,
    stdin: str = "",
    what: str,
    requirements: Iterable[str],
    line: str,
) -> str:
    """Run uv with the user's own settings and nothing else.

    Args:
        arguments: Its command line.
        directory: An empty one of ours, so that it finds no settings of others.
        stdin: What it reads.
        what: What errors say cannot be built.
        requirements: Those that it is about.
        line: What to type to try again.

    Returns:
        What it printed.

    Raises:
        RuntimeUnavailable: It failed; says what it said, and what to do.
    """
    variables = uv_variables()
    # A variable for it is not known to uv.
    options = ["--no-index"] if variables.pop("UV_NO_INDEX", "") and arguments[0] == "pip" else []
    argv = [find_uv(), *arguments, *options]
    done = process.run_bytes(argv, stdin.encode(), timeout=_TIMEOUT, env=variables, cwd=directory)
    if done is None:
        problem = f"{what} cannot be built: {argv[0]} did not start, or did not end."
        raise RuntimeUnavailable(problem, "See: envhub doctor")
    if done.code:
        raise _failure(done.stderr.decode(errors="replace"), what, requirements, line)
    return done.stdout.decode(errors="replace")


def _failure(stderr: str, what: str, requirements: Iterable[str], line: str) -> RuntimeUnavailable:
    said = "\n".join(_meaningful(stderr)[-_SHOWN:])
    guilty = _guilty(said, requirements)
    about = f" for {guilty}" if guilty else ""
    if _UNREACHABLE.search(stderr):
        return RuntimeUnavailable(
            f"{what} is not built yet, and no package index could be reached{about}.",
            f"When online, run: {line}",
            requirement=guilty,
            said=said,
        )
    advice = "Correct the requirement, or your index settings, and run"
    return RuntimeUnavailable(
        f"{what} cannot be built{': ' + guilty if guilty else ''}.",
        f"{advice}: {line}",
        requirement=guilty,
        said=said,
    )


def _meaningful(stderr: str) -> list[str]:
    """What uv printed, without the drawing around it."""
    lines = [re.sub(r"^[^\w'\"`(<]+", "", line).strip() for line in stderr.splitlines()]
    kept = [line.removeprefix("error: ").removeprefix("cause: ") for line in lines]
    return [line for line in kept if line and not line.startswith("warning:")]


def _guilty(said: str, requirements: Iterable[str]) -> str | None:
    """The first requirement that uv's words name."""
    words = re.sub(r"[-_.]+", "-", said).lower()
    for requirement in requirements:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        plain = re.escape(re.sub(r"[-_.]+", "-", name).lower())
        if re.search(rf"(?<![a-z0-9-]){plain}(?![a-z0-9])", words):
            return requirement
    return None
