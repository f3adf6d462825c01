"""The tests of a benchmark: authors subclass them, and pytest shows each check as one test."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from envhub.check import CHECKS, Report, check_benchmark
from envhub.errors import EnvHubError
from envhub.options import Argument, SourceKeywords


class BenchmarkConformance:
    """One test per check of `envhub check`.

        from envhub.testing import BenchmarkConformance

        class TestMyBenchmark(BenchmarkConformance):
            ref = "my-benchmark"

    The benchmark is inspected once per class. A check that does not apply, or that cannot run on
    this machine, passes; `envhub check` says which these are.
    """

    ref: ClassVar[str | Path]
    """The benchmark: an installed one's name, or a path, which may be relative to the test file."""
    suites: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ()
    """Names of tasks; none: all tasks of the suites, with `quick` only the first."""
    env_args: ClassVar[Mapping[str, Argument]] = {}
    quick: ClassVar[bool] = True
    """Whether to play less; False for a thorough inspection of every task."""
    workers: ClassVar[int | None] = None
    """0: everything in pytest's own process, so that `breakpoint()` works with `pytest -s`."""
    source: ClassVar[SourceKeywords] = {}
    """How to get the benchmark, and where to run it, as for `envhub.make_env`."""
    waived: ClassVar[Mapping[str, str]] = {}
    """Checks that may fail, by name, each with the reason."""

    @pytest.mark.parametrize("name", [check.name for check in CHECKS])
    def test_check(self, name: str) -> None:
        """Fail with what was seen, why it matters and how to fix it."""
        report = _inspect(type(self))
        failed = [result for result in report.result(name) if result.status == "failed"]
        if name in self.waived:
            if not failed:
                pytest.fail(f"{name} passes: remove it from `waived`.")
            pytest.xfail(self.waived[name])
        if failed:
            pytest.fail("\n".join(map(str, failed)), pytrace=False)


_FOUND: "dict[type[BenchmarkConformance], Report | EnvHubError]" = {}
"""What was seen of the benchmark of a class, also if it could not be inspected."""


def _inspect(cls: type[BenchmarkConformance]) -> Report:
    """Inspect the benchmark, once for all tests of a class.

    It is no fixture of the class: pytest gives each test another instance, and warns of those.
    """
    if cls not in _FOUND:
        try:
            _FOUND[cls] = check_benchmark(
                _resolved(cls),
                suites=cls.suites,
                tasks=cls.tasks,
                quick=cls.quick,
                workers=cls.workers,
                env_args=cls.env_args,
                **cls.source,
            )
        except EnvHubError as exc:
            _FOUND[cls] = exc
    found = _FOUND[cls]
    if isinstance(found, EnvHubError):
        raise found
    return found


def _resolved(cls: type[BenchmarkConformance]) -> str | Path:
    """A path relative to the test file, if there is such a file; else the reference as it is."""
    near = Path(inspect.getfile(cls)).parent / cls.ref
    relative = isinstance(cls.ref, Path) or str(cls.ref).startswith(("./", "../"))
    return near if relative and near.exists() else cls.ref
