"""From texts to sources: what a reference means, and what `--policy` means."""

import re
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from envhub.errors import UnknownName, UsageError
from envhub.plugins import find
from envhub.refs import HubRef, NameRef, PathRef, parse
from envhub.runtime import resources
from envhub.runtime.sandbox import choose
from envhub.sources.download import OnProgress
from envhub.sources.fetch import obtain, resolve
from envhub.sources.hub import Hub, endpoint
from envhub.sources.local import locate
from envhub.sources.lock import check_lock
from envhub.sources.trust import Ledger, Refused, decide, refusal
from envhub.types import (
    Benchmark,
    Confinement,
    FileSource,
    Origin,
    PluginSource,
    PolicySource,
    Source,
    SourceOptions,
    Value,
)

POLICIES = "envhub.policies"
"""The entry-point group of policies, used as `--policy name[:argument]`."""
BUILTIN = {"random": "make_random", "zero": "make_zero"}
"""The policies of `envhub.policies.builtin`, and their factories."""

_LEAST_MB = 2048
"""What a worker in a sandbox may use, however little memory is free."""
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FILE_OBJECT = re.compile(r"(.*\.py):([A-Za-z_]\w*)", re.DOTALL)


def find_source(
    text: str,
    options: SourceOptions | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
    on_progress: OnProgress = lambda *_: None,
) -> Source:
    """What a reference means; files of the Hub are fetched, if somebody agreed to run them.

    Args:
        text: The reference.
        options: How the source is had.
        say: Told what a moving reference was resolved to.
        on_progress: Told of downloads.

    Raises:
        UsageError: There is no such benchmark, or the reference is not pinned.
        RemoteCodeRefused: Nobody agreed to run the code.
        SourceError: It cannot be had as it should be.
    """
    match parse(text):
        case NameRef(name=name):
            find(name)
            return PluginSource(name)
        case PathRef() as ref:
            return locate(ref)
        case HubRef() as ref:
            return _find_on_hub(text, ref, options or SourceOptions(), say, on_progress)


def _find_on_hub(
    text: str,
    ref: HubRef,
    options: SourceOptions,
    say: Callable[[str], None],
    on_progress: OnProgress,
) -> FileSource:
    decision = decide(
        ref,
        endpoint(),
        Ledger().entries(),
        trust_remote_code=options.trust_remote_code,
        allow_unpinned=options.allow_unpinned,
    )
    if isinstance(decision, Refused):
        if Path(text).exists():
            raise UsageError(f"{text} means a Hub repository; for the local path write ./{text}")
        raise refusal(ref, decision)
    sandbox = choose(options.sandbox)  # before anything is asked for
    if not ref.pinned:
        ref = resolve(ref, Hub(private=options.private)).ref
        say(f"{text} is {ref} now.")
    stored = obtain(ref, private=options.private, on_progress=on_progress)
    manifest = stored.manifest
    if options.locked:
        check_lock(ref, manifest)
    origin = Origin(
        manifest.repo,
        manifest.commit,
        manifest.endpoint,
        manifest.proof,
        decision.consent,
        {path: f"sha256:{file.sha256}" for path, file in manifest.files.items()},
    )
    plain = "".join(c if c.isalnum() else "_" for c in f"{ref.owner}_{ref.repo}")
    package = f"envhub_hub_{plain}_{manifest.commit}"
    directory = str(stored.directory)
    open_to_all = sandbox == "none"
    confinement = Confinement(
        sandbox,
        network=open_to_all or options.sandbox_allow_network,
        readable=(directory,),
        memory_mb=None if open_to_all else max(_LEAST_MB, resources.memory_mb() * 3 // 4),
    )
    return FileSource(directory, ref.path, package, ref.repo, origin, confinement)


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
        code = module or (source if isinstance(source, FileSource) else find(source.name).module)
        return PolicySource(code, name, dict(args)), True
    if text.startswith(("./", "../", "/")):
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


def _policy_file(text: str, args: Mapping[str, Value]) -> PolicySource:
    found = _FILE_OBJECT.fullmatch(text)
    path, name = found.groups() if found else (text, "make_policy")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a directory: name the policy's file.")
    return PolicySource(locate(PathRef(path)), name, dict(args))
