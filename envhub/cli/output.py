"""What standard output can show, and what to say when it cannot be written."""

import errno
import os
import shutil
import sys

import click

from envhub.errors import ExitCode
from envhub.text import fold

_PLAIN = {"█": "#", "·": ".", "─": "-", "…": "..."}
"""What stands for characters of our own that an encoding may lack."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing to a file fails with that is no bug."""


def colors() -> bool | None:
    """Whether to style what is printed: never where the user or the terminal says so.

    None leaves the decision to click, which styles what goes to a terminal.
    """
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def columns() -> int:
    """Return the columns of the terminal; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns


def echo_sentence(text: str) -> None:
    """Print a sentence, on a terminal without breaking its words; elsewhere in one line."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    click.echo("\n".join(fold(text, columns(), "  ")) if known else text)


def encodable(text: str) -> str:
    """The text in characters that standard output has."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for character, instead in _PLAIN.items():
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            text = text.replace(character, instead)
    return text


def echo_error(text: str, end: str = "\n") -> None:
    """Print on standard error; where that cannot be written, nobody can be told."""
    try:
        click.echo(text + end, err=True, nl=False)
    except OSError:
        _silence(2)


def show_usage(error: click.ClickException) -> None:
    """Print click's own words about a command line, on standard error."""
    try:
        error.show()
    except OSError:
        _silence(2)


def explain(error: OSError) -> tuple[str, ExitCode] | None:
    """A sentence and an exit code for an error of the machine; None for one that may be a bug."""
    reason = error.strerror or str(error)
    if error.filename is None and error.errno in _NO_ROOM and _stdout_fails():
        _silence(1)
        text = f"Standard output cannot be written: {reason}. Send it elsewhere, or free some space"
        return f"{text}; `envhub show RUN` prints a finished run again.", ExitCode.FOUND
    from envhub.process import describe_exhaustion

    if (problem := describe_exhaustion(error)) is not None:
        return problem, ExitCode.USAGE
    if error.filename is not None:
        return f"{error.filename} cannot be used: {reason}.", ExitCode.USAGE
    return None


def _stdout_fails() -> bool:
    """Whether standard output can take no more; the error itself does not say what was written."""
    try:
        os.write(1, b"\n")
    except OSError:
        return True
    return False


def _silence(descriptor: int) -> None:
    """Write to nowhere from now on: Python would try again at the end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
