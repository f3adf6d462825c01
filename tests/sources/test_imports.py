"""Which files an env file leads to, by reading alone."""

import pytest

from envhub.sources.imports import reachable


def order(files: dict[str, str | bytes], entry: str = "env.py") -> tuple[str, ...]:
    content = {p: text.encode() if isinstance(text, str) else text for p, text in files.items()}
    return reachable(entry, content, content.__getitem__)


CASES = {
    "a sibling": ({"env.py": "import table", "table.py": ""}, ["table.py"]),
    "a relative sibling": ({"env.py": "from . import table", "table.py": ""}, ["table.py"]),
    "its function": ({"env.py": "from .table import make", "table.py": ""}, ["table.py"]),
    "in a function": ({"env.py": "def f():\n  import table", "table.py": ""}, ["table.py"]),
    "under another name": ({"env.py": "import table as np", "table.py": ""}, ["table.py"]),
    "a chain": (
        {"env.py": "import a", "a.py": "import b", "b.py": "from .c import x", "c.py": ""},
        ["a.py", "b.py", "c.py"],
    ),
    "a circle": ({"env.py": "import a", "a.py": "import env"}, ["a.py"]),
    "a package": (
        {"env.py": "import p.q.r", "p/__init__.py": "", "p/q/__init__.py": "", "p/q/r.py": ""},
        ["p/__init__.py", "p/q/__init__.py", "p/q/r.py"],
    ),
    "a package without a file": ({"env.py": "from p import r", "p/r.py": ""}, ["p/r.py"]),
    "a star": ({"env.py": "from p import *", "p/__init__.py": "", "p/r.py": ""}, ["p/r.py"]),
    "upwards": (
        {
            "env.py": "import p.q",
            "p/q.py": "from .. import up\nfrom ..other import x",
            "up.py": "",
            "other.py": "",
        },
        ["p/q.py", "up.py", "other.py"],
    ),
    "out of the repository": ({"env.py": "from ... import x", "x.py": ""}, []),
    "an extension": (
        {"env.py": "import fast", "fast.cpython-311-x86_64-linux-gnu.so": b"\x7fELF"},
        ["fast.cpython-311-x86_64-linux-gnu.so"],
    ),
    "compiled": ({"env.py": "import fast", "fast.pyc": b"\0"}, ["fast.pyc"]),
    "what it shadows": ({"env.py": "import numpy", "numpy.py": ""}, ["numpy.py"]),
    "by a text": ({"env.py": "import_module('evil')", "evil.py": ""}, ["evil.py"]),
    "by a maker": ({"env.py": "make = 'p.evil:make'", "p/evil.py": ""}, ["p/evil.py"]),
    "by a path": ({"env.py": "exec(open('a/b.txt').read())", "a/b.txt": ""}, ["a/b.txt"]),
    "its package": ({"env.py": "", "__init__.py": "import x", "x.py": ""}, ["__init__.py", "x.py"]),
    "not installed ones": ({"env.py": "import os, numpy.linalg", "other.py": ""}, []),
    "hidden by an encoding": (
        {"env.py": b"# coding: utf-7\n# +AAo-import evil", "evil.py": ""},
        ["evil.py"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(case):
    files, expected = CASES[case]
    found = order(files)
    assert found[0] == "env.py"
    assert set(expected) <= set(found[1:])
    if not expected:
        assert found == ("env.py",)


def test_an_env_file_further_down():
    files = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/env.py": "import b",
        "a/b.py": "",
        "b.py": "",
    }
    assert order(files, "a/env.py")[:4] == ("a/env.py", "__init__.py", "a/__init__.py", "b.py")


@pytest.mark.parametrize(
    "source",
    [
        "not python",
        b"\0",
        b"\xff\xfe",
        b"# coding: nonsense\n",
        "(" * 10_000,
        "-" * 100_000 + "1",
        "x = " + "[" * 150 + "]" * 150,
        "a." * 50_000 + "b",
        "'\\d'",
        "import table\n" + "#" * 2**21,
    ],
    ids=range(10),
)
def test_what_cannot_be_parsed_leads_nowhere(source):
    assert order({"env.py": source, "table.py": ""}) == ("env.py",)


def test_nearest_first():
    files = {"env.py": "import a, z", "a.py": "import m", "m.py": "", "z.py": ""}
    assert order(files) == ("env.py", "a.py", "z.py", "m.py")
