"""The live page of `--watch`: served by this process, or by one beside it that may be killed."""

import os
import select
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from envhub.errors import UsageError
from envhub.process import spawn
from envhub.results.experiment import is_experiment
from envhub.results.report.live import LivePage

_NICE = 10
"""The run comes first."""
_PATIENCE = 10.0
"""Seconds for the page's last words."""


def serve(directory: Path, *, open_it: bool, parent: int | None) -> None:
    """Serve the page about a run or an experiment until Ctrl-C, or until another process ends.

    Args:
        directory: Of the run or the experiment.
        open_it: Whether to open the page in the browser.
        parent: A pipe that is closed when the process that plays ends; None: there is none.

    Raises:
        UsageError: The directory has no run.
    """
    if not (directory / "run.json").is_file() and not is_experiment(directory):
        raise UsageError(f"{directory} is not a run or an experiment: name a directory of one.")
    os.nice(_NICE)
    page = LivePage(directory)
    click.echo(page.address)
    sys.stdout.flush()
    if open_it:
        webbrowser.open(page.address)
    try:
        page.watch(lambda: parent is not None and _has_ended(parent))
    except KeyboardInterrupt:
        return
    finally:
        page.close()


def _has_ended(parent: int) -> bool:
    """Whether nobody has the other end of a pipe any more."""
    ready, _, _ = select.select([parent], [], [], 0)
    return bool(ready)


@contextmanager
def page_beside(directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Have another process serve the page of a run that this one plays.

    Whatever becomes of that process, the run goes on.

    Args:
        directory: Of the run or the experiment.
        say: Receives the line with the address, once it is known.
    """
    ended, playing = os.pipe()
    said, output = os.pipe()
    command = [sys.executable, "-P", "-m", "envhub", "report", str(directory), "--watch"]
    try:
        child = spawn(
            [*command, "--parent", str(ended)],
            env=os.environ,
            cwd=Path.cwd(),
            output=output,
            pass_fds=(ended,),
        )
    except OSError as exc:
        os.close(playing)
        os.close(said)
        say(f"The live page could not be served: {exc.strerror}.")
        yield
        return
    finally:
        os.close(ended)
        os.close(output)
    threading.Thread(target=_tell, args=(said, say), daemon=True).start()
    try:
        yield
    finally:
        os.close(playing)
        child.wait(_PATIENCE)
        child.end()


def _tell(said: int, say: Callable[[str], None]) -> None:
    with os.fdopen(said, errors="replace") as answer:
        line = answer.readline().strip()
        say(f"Watch it: {line}" if line else "The live page could not be served.")
        answer.read()  # until it ends, so that it can always write
