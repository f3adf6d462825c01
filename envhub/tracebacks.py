"""Exceptions of foreign code in words: the user's own traceback, and the last place in it."""

import importlib
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import envhub

_OWN = str(Path(envhub.__file__).parent) + "/"
_IMPORTLIB = str(Path(importlib.__file__).parent) + "/"
_INSTALLED = tuple(f"{path}/" for path in set(sysconfig.get_paths().values()))
_CLIENTS = "/envhub_servers/"
"""The plugin that speaks to policy servers: what they do wrong is at no line of it."""
_PACKAGES = ("/site-packages/", "/dist-packages/")


def trace_of(exc: BaseException) -> str:
    """Return the traceback from the first frame that is not EnvHub's own."""
    begin = exc.__traceback__
    while begin is not None and not _is_foreign(begin.tb_frame.f_code.co_filename):
        begin = begin.tb_next
    told = traceback.TracebackException(type(exc), exc, begin or exc.__traceback__)
    return "".join(told.format())


def place_of(exc: BaseException) -> str:
    """Return file, line and function of the last frame of the user's own code.

    Where all of the code is installed, as that of a plugin is, the last frame of that; "" if only
    EnvHub's code was running.
    """
    if isinstance(exc, SyntaxError) and exc.filename and exc.lineno:
        return f"{_short(exc.filename)}, line {exc.lineno}"
    foreign = [frame for frame in _frames(exc.__traceback__) if _is_foreign(frame[0])]
    own = [frame for frame in foreign if not _is_installed(frame[0])]
    if not foreign:
        return ""
    file, line, function = (own or foreign)[-1]
    return f"{_short(file)}, line {line}, in {function}"


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield code.co_filename, trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _is_foreign(file: str) -> bool:
    # The code of dataclasses is in no file; importlib is how we load what is named.
    return _CLIENTS not in file and not file.startswith((_OWN, _IMPORTLIB, "<frozen ", "<string>"))


def _is_installed(file: str) -> bool:
    return file.startswith(_INSTALLED) or any(part in file for part in _PACKAGES)


def _short(file: str) -> str:
    """The name of a file; with its directory where the name alone says nothing."""
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name
