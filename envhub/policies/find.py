"""From the text of `--policy` to the factory that it names."""

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from envhub.declarations import Benchmark
from envhub.discovery import find
from envhub.errors import UnknownName, UsageError
from envhub.files import expand_home
from envhub.options import Argument
from envhub.policies.checkpoint import find_checkpoint, is_checkpoint, policy_of
from envhub.policies.models import obtain_models
from envhub.refs import PathRef
from envhub.sources.find import locate
from envhub.types import FileSource, PolicySource, Source, confinement_of

POLICIES = "envhub.policies"
"""The entry-point group of policies, used as `--policy name[:argument]`."""

BUILTIN = {"random": "make_random", "zero": "make_zero"}
"""The policies of `envhub.policies.builtin`, and their factories."""

_PATH_STARTS = ("./", "../", "/")

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_FILE_OBJECT = re.compile(r"(.*\.py):([A-Za-z_]\w*)", re.DOTALL)


def read_policy(text: str) -> str:
    """Return the text of `--policy`; a file that exists is written with `./`, and `~` expanded.

    Raises:
        UsageError: The text is empty.
    """
    if not text.strip():
        raise UsageError(
            "The policy's name is empty: name one, such as random, ./policy.py or "
            "package.module:name."
        )
    if text.startswith("~"):
        return str(expand_home(text))
    match = _FILE_OBJECT.fullmatch(text)
    path = match[1] if match else text
    if path.endswith(".py") and not text.startswith(_PATH_STARTS) and Path(path).is_file():
        return f"./{text}"
    return text


def find_policy(
    text: str, benchmark: Benchmark, source: Source, args: Mapping[str, Argument]
) -> tuple[PolicySource, bool]:
    """Find the policy that `--policy` names.

    Args:
        text: `random` or `zero`; a policy of the benchmark; an installed one, `name[:argument]`;
            `./policy.py[:name]`; `package.module:name`; or `lerobot:DIRECTORY`, a checkpoint.
        benchmark: The benchmark that the policy is evaluated on.
        source: The benchmark's code.
        args: Arguments for the policy's factory.

    Returns:
        The place of its factory, and whether workers can make the policy, since it belongs to
        EnvHub or the benchmark.

    Raises:
        UsageError: No policy has this name.
    """
    if is_checkpoint(text):
        checkpoint = find_checkpoint(text)
        models = {name: one.directory for name, one in obtain_models(checkpoint, args).items()}
        return policy_of(checkpoint, args, models), False
    if text in BUILTIN:
        return PolicySource("envhub.policies.builtin", BUILTIN[text], dict(args)), True
    if text in benchmark.policies:
        module, _, name = benchmark.policies[text].partition(":")
        code = module or (source if isinstance(source, FileSource) else find(source.name).module)
        confined = confinement_of(source) is not None
        return PolicySource(code, name, dict(args), confined=confined), True
    if text.startswith(_PATH_STARTS):
        return _policy_file(text, args), False
    name, _, argument = text.partition(":")
    points = {point.name: point for point in metadata.entry_points(group=POLICIES)}
    if name in points:
        point, extra = points[name], {"argument": argument} if argument else {}
        return PolicySource(point.module, point.attr or "make_policy", {**args, **extra}), False
    if _OBJECT.fullmatch(text):
        return PolicySource(name, argument, dict(args)), False
    known = {*BUILTIN, *benchmark.policies, *points}
    raise UnknownName("policy", text, known, advice="Or write ./policy.py or package.module:name.")


def _policy_file(text: str, args: Mapping[str, Argument]) -> PolicySource:
    match = _FILE_OBJECT.fullmatch(text)
    path, name = match.groups() if match else (text, "make_policy")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a directory: name the policy's file.")
    return PolicySource(locate(PathRef(path)), name, dict(args))
