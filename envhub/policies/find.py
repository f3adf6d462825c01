"""From what the user gives as a policy to its kind."""

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from envhub.declarations import Benchmark
from envhub.discovery import entry_points
from envhub.errors import UnknownName, UsageError
from envhub.files import expand_home
from envhub.options import Argument
from envhub.policies.kinds import (
    BUILTIN,
    Builtin,
    InProgram,
    OfBenchmark,
    OfFile,
    OfModule,
    PolicyKind,
    Provided,
)
from envhub.policies.providers import is_scheme

GROUP = "envhub.policies"
"""The entry-point group of factories, used as `--policy name[:argument]`."""

_PATH_STARTS = ("./", "../", "/")

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_FILE_OBJECT = re.compile(r"(.*\.py):([A-Za-z_]\w*)", re.DOTALL)


def read_policy(
    given: object, args: Mapping[str, Argument] | None = None, directory: Path | None = None
) -> PolicyKind:
    """Return the policy that the user gives; nothing is looked up but installed names.

    Args:
        given: An object that acts; or the text of `--policy`: `random` or `zero`; the name of a
            policy of the benchmark, or of an installed one, `name[:argument]`;
            `./policy.py[:name]`, where `./` may be left out if the file exists;
            `package.module:name`; or `SCHEME:REST`, of an installed provider.
        args: Arguments for the policy's factory.
        directory: Where it runs, and relative paths in its arguments begin; None: here.

    Returns:
        Its kind. A plain name is taken for one of the benchmark: `find_policy` knows better.

    Raises:
        UsageError: The text is empty, or an object is given with arguments.
    """
    args, directory = args or {}, directory or Path.cwd()
    if not isinstance(given, str):
        if args:
            raise UsageError("policy_args need a policy given by name; this one is an object.")
        return InProgram(given, directory=directory)
    return replace(_read_text(given), args=args, directory=directory)


def find_policy(asked: PolicyKind, benchmark: Benchmark) -> PolicyKind:
    """Return the policy that is asked for, now that the benchmark is known.

    Raises:
        UsageError: No policy has this name, or one of the benchmark and an installed one: a
            benchmark is not to act where the user's own policy was meant.
    """
    if not isinstance(asked, OfBenchmark):
        return asked
    points = _points()
    if asked.name in benchmark.policies:
        if asked.name in points:
            raise UsageError(
                f"{benchmark.name} and an installed package both have a policy called "
                f"{asked.name!r}. Write {points[asked.name].value} for the installed one, or "
                "uninstall its package to have that of the benchmark."
            )
        return asked
    if asked.name in points:
        found = _of_point(asked.name, points[asked.name])
        return replace(found, args=asked.args, directory=asked.directory)
    known = {*BUILTIN, *benchmark.policies, *points}
    scheme, colon, _ = asked.name.partition(":")
    advice = f"If {scheme}: is a scheme, install its provider. " if colon else ""
    advice += "Or write ./policy.py or package.module:name."
    raise UnknownName("policy", asked.name, known, advice=advice)


def _read_text(text: str) -> PolicyKind:
    if not text.strip():
        raise UsageError(
            "The policy's name is empty: name one, such as random, ./policy.py or "
            "package.module:name."
        )
    if text in BUILTIN:
        return Builtin(text)
    match = _FILE_OBJECT.fullmatch(text)
    path, name = match.groups() if match else (text, "make_policy")
    if text.startswith("~"):
        return OfFile(str(expand_home(text)), str(expand_home(path)), name)
    if text.startswith(_PATH_STARTS):
        return OfFile(text, path, name)
    if path.endswith(".py") and Path(path).is_file():
        return OfFile(f"./{text}", f"./{path}", name)
    scheme, colon, rest = text.partition(":")
    if not colon:
        return OfBenchmark(text)
    if is_scheme(scheme):
        return Provided(scheme, rest)
    points = _points()
    if scheme in points:
        return _of_point(text, points[scheme], rest)
    return OfModule(text, scheme, rest) if _OBJECT.fullmatch(text) else OfBenchmark(text)


def _of_point(ref: str, point: metadata.EntryPoint, argument: str = "") -> OfModule:
    return OfModule(ref, point.module, point.attr or "make_policy", argument)


def _points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in entry_points(GROUP)}
