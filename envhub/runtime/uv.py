"""Run uv, and explain its failures."""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from envhub import process
from envhub.errors import RuntimeUnavailable
from envhub.runtime.uv_settings import uv_variables

_TIMEOUT = 3600.0
"""Seconds. A large download over a slow line takes long; uv itself limits the silence."""
_SHOWN_LINES = 8
_UNREACHABLE = re.compile(
    "error sending request|failed to fetch|could not connect|connection refused|dns error|"
    "network (is unreachable|connectivity is disabled)|network was disabled|timed out|offline",
    re.IGNORECASE,
)


def find_uv() -> Path:
    """Return the uv of this interpreter's packages, else the uv on PATH.

    Raises:
        RuntimeUnavailable: uv is not installed.
    """
    try:
        return Path(import_module("uv").find_uv_bin())
    except (ImportError, FileNotFoundError):
        path = shutil.which("uv")
    if path is None:
        problem = "Runtimes are built with uv, which is not installed."
        raise RuntimeUnavailable(problem, "pip install uv")
    return Path(path)


def run_uv(
    arguments: Sequence[str | Path],
    *,
    directory: Path,
    stdin: str = "",
    subject: str,
    requirements: Iterable[str],
    line: str,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run uv with the user's own settings and nothing else.

    Args:
        arguments: The command line after `uv`.
        directory: An empty directory of ours, so that uv finds no settings of others.
        stdin: The standard input.
        subject: The thing to be built, as errors call it.
        requirements: The requirements that uv works on.
        line: The command that tries again, for errors.
        on_line: Receives each line of uv's standard error as it comes; then uv has no standard
            input, and its standard output is not kept.

    Returns:
        The standard output.

    Raises:
        RuntimeUnavailable: uv failed; quotes its output and says what to do.
    """
    variables = uv_variables()
    # uv has an option for this, but no variable.
    options = ["--no-index"] if variables.pop("UV_NO_INDEX", "") and arguments[0] == "pip" else []
    argv = [find_uv(), *arguments, *options]
    done: process.Finished | None
    if on_line is not None:
        done = process.run_lines(argv, on_line, timeout=_TIMEOUT, env=variables, cwd=directory)
    else:
        done = _run(argv, stdin, variables, directory)
    if done is None:
        problem = f"{subject} cannot be built: {argv[0]} did not start, or did not end."
        raise RuntimeUnavailable(problem, "See: envhub doctor")
    if done.code:
        raise _failure(done.stderr, subject, requirements, line)
    return done.stdout


def _run(
    argv: Sequence[str | Path], stdin: str, variables: Mapping[str, str], directory: Path
) -> process.Finished | None:
    done = process.run_bytes(argv, stdin.encode(), timeout=_TIMEOUT, env=variables, cwd=directory)
    if done is None:
        return None
    stdout, stderr = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return process.Finished(done.code, stdout, stderr)


class Downloads:
    """Follows what uv says of its downloads; small ones are not worth a word to it."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._sizes: dict[str, float] = {}
        self._done = 0.0

    def on_line(self, line: str) -> None:
        """Take a line of uv's; report what was downloaded, and how much is on its way."""
        if found := _DOWNLOADING.match(line):
            self._sizes[found[1]] = float(found[2]) * _BYTES[found[3]] / 10**6
        elif (found := _DOWNLOADED.match(line)) and found[1] in self._sizes:
            self._done += self._sizes[found[1]]
            total = sum(self._sizes.values())
            self._progress(f"  {found[1]}: {self._done:,.1f} of {total:,.1f} MB downloaded")


_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \(([\d.]+)(B|KiB|MiB|GiB)\)")
_DOWNLOADED = re.compile(r"\s*Downloaded (\S+)")
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_UNWRITABLE = re.compile("No space left on device|Disk quota exceeded|File too large")
_NARRATION = ("Using Python ", "Resolved ", "Downloading ", "Downloaded ", "Prepared ")


def _failure(
    stderr: str, subject: str, requirements: Iterable[str], line: str
) -> RuntimeUnavailable:
    output = "\n".join(_clean_lines(stderr)[-_SHOWN_LINES:])
    requirement = _named_requirement(output, requirements)
    if _UNREACHABLE.search(stderr):
        about = f" for {requirement}" if requirement else ""
        return RuntimeUnavailable(
            f"{subject} is not built yet, and no package index could be reached{about}.",
            f"When online, run: {line}",
            requirement=requirement,
            said=output,
        )
    if found := _UNWRITABLE.search(stderr):
        return RuntimeUnavailable(
            f"{subject} cannot be built: {found[0]}.",
            "Free some space, or set ENVHUB_CACHE_DIR and UV_CACHE_DIR to directories on another "
            f"disk, and run: {line}",
            said=output,
        )
    return RuntimeUnavailable(
        f"{subject} cannot be built{': ' + requirement if requirement else ''}.",
        f"Correct the requirement, or your index settings, and run: {line}",
        requirement=requirement,
        said=output,
        refused=True,
    )


def _clean_lines(stderr: str) -> list[str]:
    """Return the lines that uv printed, without decoration and warnings."""
    lines = [re.sub(r"^[^\w'\"`(<]+", "", line).strip() for line in stderr.splitlines()]
    texts = [line.removeprefix("error: ").removeprefix("cause: ") for line in lines]
    return [text for text in texts if text and not text.startswith(("warning:", *_NARRATION))]


def _named_requirement(output: str, requirements: Iterable[str]) -> str | None:
    """Return the first requirement whose package uv's output names."""
    normalized = re.sub(r"[-_.]+", "-", output).lower()
    for requirement in requirements:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        pattern = re.escape(re.sub(r"[-_.]+", "-", name).lower())
        if re.search(rf"(?<![a-z0-9-]){pattern}(?![a-z0-9])", normalized):
            return requirement
    return None
