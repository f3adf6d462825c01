"""From texts to sources: what a reference means, and what `--policy` means."""

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from envhub.errors import UnknownName, UsageError
from envhub.plugins import find
from envhub.refs import HubRef, NameRef, PathRef, parse
from envhub.sources.local import locate
from envhub.types import Benchmark, FileSource, PluginSource, PolicySource, Source, Value

POLICIES = "envhub.policies"
"""The entry-point group of policies, used as `--policy name[:argument]`."""
BUILTIN = {"random": "make_random", "zero": "make_zero"}
"""The policies of `envhub.policies.builtin`, and their factories."""

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def find_source(text: str) -> Source:
    """What a reference means.

    Raises:
        UsageError: There is no such benchmark.
    """
    match parse(text):
        case NameRef(name=name):
            find(name)
            return PluginSource(name)
        case PathRef() as ref:
            return locate(ref)
        case HubRef() as ref:
            if Path(text).exists():
                raise UsageError(
                    f"{text} means a Hub repository; for the local path write ./{text}"
                )
            raise UsageError(
                f"{ref} is a Hub repository; this version loads local and installed ones."
            )


def find_policy(
    text: str, benchmark: Benchmark, source: Source, args: Mapping[str, Value]
) -> tuple[PolicySource, bool]:
    """What `--policy` means.

    Args:
        text: `random` or `zero`; a policy of the benchmark; an installed one, `name[:argument]`;
            `./policy.py[:name]`; or `package.module:name`.
        benchmark: What it is to be evaluated on.
        source: The benchmark's code.
        args: For the policy's factory.

    Returns:
        Where its factory is, and whether a worker can make it: it comes with EnvHub or the
        benchmark.

    Raises:
        UsageError: There is no such policy.
    """
    if text in BUILTIN:
        return PolicySource("envhub.policies.builtin", BUILTIN[text], dict(args)), True
    if text in benchmark.policies:
        module, _, name = benchmark.policies[text].partition(":")
        code = module or (source if isinstance(source, FileSource) else source.name)
        return PolicySource(code, name, dict(args)), True
    if text.startswith(("./", "../", "/")):
        return _policy_file(text, args), False
    name, _, argument = text.partition(":")
    points = {point.name: point.value for point in metadata.entry_points(group=POLICIES)}
    if name in points:
        module, _, factory = points[name].partition(":")
        extra = {"argument": argument} if argument else {}
        return PolicySource(module, factory or "make_policy", {**args, **extra}), False
    if _OBJECT.fullmatch(text):
        return PolicySource(name, argument, dict(args)), False
    known = {*BUILTIN, *benchmark.policies, *points}
    raise UnknownName("policy", text, known, advice="Or write ./policy.py or package.module:name.")


def _policy_file(text: str, args: Mapping[str, Value]) -> PolicySource:
    path, _, name = text.partition(":") if ".py:" in text else (text, "", "")
    return PolicySource(locate(PathRef(path)), name or "make_policy", dict(args))
