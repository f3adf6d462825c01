"""Tests lie where their module does, or `tests/README.md` says where."""

import ast
import re
from pathlib import Path

from support.paths import TESTS

import envhub

PACKAGE = Path(envhub.__file__).parent
README = (TESTS / "README.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w/]+\.py)` \| `([\w/]+\.py)` \|", README, re.MULTILINE))


def modules():
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return {str(path) for path in paths if path.name != "__init__.py"}


def has_test(module):
    path = Path(module)
    return (TESTS / path.parent / f"test_{path.name}").is_file()


def test_every_module_has_its_test_file_or_a_row():
    assert {module for module in modules() if not has_test(module)} == set(ROWS)


def test_every_row_names_a_test_file():
    assert [file for file in ROWS.values() if not (TESTS / file).is_file()] == []


def test_no_test_module_is_imported_by_another():
    for path in TESTS.rglob("*.py"):
        if "assets" in path.parts or "perf" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                assert not node.module.split(".")[-1].startswith("test_"), path
