"""Find the source that a reference names: a plugin, a local file, or a file of the Hub."""

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from envhub.discovery import find, installed
from envhub.errors import InvalidReference, RemoteCodeRefused, UnknownName, UsageError
from envhub.files import expand_home
from envhub.options import Say, SourceOptions
from envhub.refs import HubRef, NameRef, PathRef, Reference, parse
from envhub.sandbox.choose import choose, confine_foreign
from envhub.types import FileSource, Origin, PluginSource, Source

if TYPE_CHECKING:
    from envhub.sources.download import OnProgress

_MAX_FILE = 16 * 2**20
"""Bytes of a Python file that is loaded; larger ones are data with a wrong name."""


def find_source(
    text: str,
    options: SourceOptions | None = None,
    *,
    message: Say = lambda _: None,
    on_progress: "OnProgress" = lambda *_: None,
) -> Source:
    """Return the source that a reference names; files of the Hub are fetched if they are trusted.

    Args:
        text: The reference.
        options: How to get and protect files of the Hub.
        message: Receives the commit that a moving reference was resolved to.
        on_progress: Receives the progress of downloads.

    Raises:
        UsageError: The benchmark does not exist, or the reference is not pinned.
        RemoteCodeRefused: Nobody agreed to run the code.
        SourceError: The source is not available, or differs from its commit.
    """
    match read_reference(text):
        case NameRef(name=name):
            _find_plugin(name)
            _tell_no_sandbox(text, options, message)
            return PluginSource(name)
        case PathRef() as ref:
            _tell_no_sandbox(text, options, message)
            return locate(ref)
        case HubRef() as ref:
            return _find_on_hub(text, ref, options or SourceOptions(), message, on_progress)


def _tell_no_sandbox(text: str, options: SourceOptions | None, message: Say) -> None:
    """Say that a sandbox which was asked for confines no code of this machine."""
    if options is not None and options.sandbox not in ("auto", "none"):
        message(
            f"--sandbox {options.sandbox} does nothing for {text}: code that is on this machine "
            "runs with your rights, in processes of its own. Only code from the Hub is confined."
        )


def read_reference(text: str) -> Reference:
    """Turn text into a reference; `./` may be missing where only a local path can be meant.

    Raises:
        InvalidReference: The text is not a reference, and no path.
    """
    if isinstance(text, str) and text.startswith("~"):
        text = str(expand_home(text))
    try:
        ref = parse(text)
    except InvalidReference:
        if isinstance(text, str) and _exists(text):
            return parse(f"./{text}")
        raise
    if isinstance(ref, NameRef) and text.endswith(".py") and _exists(text):
        return parse(f"./{text}")
    return ref


def _find_plugin(name: str) -> None:
    try:
        find(name)
    except UnknownName as exc:
        if not _exists(name):
            raise
        raise UsageError(
            f"No benchmark called {name!r} is installed. For the local path write ./{name}"
        ) from exc


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a null character in it
        return False


def _find_on_hub(
    text: str,
    ref: HubRef,
    options: SourceOptions,
    message: Say,
    on_progress: "OnProgress",
) -> FileSource:
    # The code about the Hub is not for runs of local code.
    from envhub.sources.fetch import leads_to, obtain, resolve
    from envhub.sources.hub import Hub, endpoint
    from envhub.sources.lock import check_lock
    from envhub.sources.trust import Ledger, Refused, decide, refusal

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
        if ref.revision is None and ref.owner in {plugin.name for plugin in installed()}:
            raise UsageError(
                f"{text} means a Hub repository, and {ref.owner} is installed here. For a task of "
                f"it: envhub eval {ref.owner} --task {ref.repo}"
            )
        raise refusal(ref, decision)
    sandbox = choose(options.sandbox)  # before the first request
    if not ref.pinned:
        ref = resolve(ref, Hub(private=options.private))
        message(f"{text} is {ref} now.")
    stored = obtain(ref, private=options.private, on_progress=on_progress)
    if decision.consent == "flag" and not leads_to(ref, private=options.private):
        raise RemoteCodeRefused(
            f"Refusing to execute remote code from {ref}: no branch or tag of {ref.repo_id} leads "
            "to this commit, so that anybody may have made it. If you mean it, review the files "
            f"and agree at a terminal:\n  envhub trust {ref}"
        )
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
    confinement = confine_foreign(sandbox, (directory,), network=options.sandbox_allow_network)
    return FileSource(directory, ref.path, package, ref.repo, origin, confinement)


def locate(ref: PathRef) -> FileSource:
    """Return the file that a local reference names.

    Raises:
        UsageError: The file does not exist or cannot be read.
    """
    try:
        return _locate(ref, Path(ref.path))
    except OSError as exc:
        raise UsageError(f"{ref} cannot be read: {exc.strerror or exc}.") from exc
    except UnicodeEncodeError as exc:
        problem = f"{ref} is at a path that is not UTF-8: {exc.object!a}. Rename its directory."
        raise UsageError(problem) from exc


def _locate(ref: PathRef, path: Path) -> FileSource:
    if path.is_dir():
        if not (path / "env.py").is_file():
            raise UsageError(f"{ref} has no env.py: name the file that makes its envs.")
        path /= "env.py"
    elif not path.exists():
        raise UsageError(f"{ref} does not exist. Check the path.")
    elif path.suffix != ".py" or not path.is_file():
        raise UsageError(f"{ref} is not a Python file: name a .py file or a directory.")
    size = path.stat().st_size
    if size > _MAX_FILE:
        raise UsageError(
            f"{ref} has {size / 2**20:,.0f} MB, and a Python file at most {_MAX_FILE // 2**20}: "
            "name the file with the code."
        )
    file = path.resolve(strict=True)
    with file.open("rb") as opened:  # an unreadable file fails here, not in a worker
        opened.read(1)
    plain = file.parent.name if file.stem == "env" else file.stem
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", plain).lstrip("._+-")[:200] or "local"
    digest = hashlib.sha256(str(file.parent).encode()).hexdigest()[:16]
    return FileSource(str(file.parent), file.name, f"envhub_local_{digest}", name)
