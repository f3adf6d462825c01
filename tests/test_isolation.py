"""A worker for foreign code cannot be started without its confinement: the value carries it."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from support.sources import ORIGIN

import envhub
from envhub.errors import UsageError
from envhub.host.inline import InlineWorker
from envhub.host.worker import Worker
from envhub.options import Limits
from envhub.types import Confinement, FileSource, PluginSource, WorkerSpec

PACKAGE = Path(envhub.__file__).parent
KEPT = Confinement("bubblewrap", network=False)


def test_a_foreign_file_has_a_confinement():
    with pytest.raises(ValueError, match="an origin and a confinement"):
        FileSource("/x", "env.py", "x", "x", ORIGIN)
    with pytest.raises(ValueError, match="an origin and a confinement"):
        FileSource("/x", "env.py", "x", "x", None, KEPT)


def test_a_worker_spec_has_the_confinement_of_its_source():
    foreign = FileSource("/x", "env.py", "x", "x", ORIGIN, KEPT)
    assert WorkerSpec(foreign, {}, Limits()).confinement is KEPT
    assert WorkerSpec(PluginSource("x"), {}, Limits()).confinement is None
    assert "confinement" not in WorkerSpec.__dataclass_fields__  # nobody can set another one


def test_workers_are_started_from_a_spec_alone():
    assert inspect.signature(Worker).parameters["spec"].default is inspect.Parameter.empty
    assert inspect.signature(InlineWorker).parameters["spec"].default is inspect.Parameter.empty


def test_foreign_code_does_not_run_in_the_host():
    foreign = FileSource("/x", "env.py", "x", "x", ORIGIN, KEPT)
    with pytest.raises(UsageError, match="runs only in workers"):
        InlineWorker("", WorkerSpec(foreign, {}, Limits()))


def parameters_with_defaults():
    for folder in ("host", "vector", "evaluation"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from defaults_of(node.args, f"{folder}/{path.name}:{node.name}")


def defaults_of(arguments, where):
    plain = [*arguments.posonlyargs, *arguments.args]
    given = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    pairs = [*zip(plain, given, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for argument, default in pairs:
        if default is not None:
            yield where, argument.arg, ast.unparse(argument.annotation or ast.Name("Any"))


def test_no_signature_has_a_default_that_means_unconfined():
    suspicious = {"confinement", "sandbox", "protection", "source", "spec", "Source", "WorkerSpec"}
    found = [
        (where, name)
        for where, name, annotation in parameters_with_defaults()
        if suspicious & set(re.findall(r"\w+", f"{name} {annotation}"))
    ]
    assert found == []
    assert list(parameters_with_defaults())  # it looks at something
