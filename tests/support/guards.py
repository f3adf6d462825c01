"""The rules of the table in `docs/security.md`, and what takes each away.

A rule is taken away from a copy of the package, by an edit of the line that holds it, since workers
and guards load it themselves; or at a seam: a name of a module, which gets another value in one
process. The product itself has no switch for either.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from envhub import directories
from envhub.sandbox import bubblewrap

Test = Callable[..., None]


@dataclass(frozen=True)
class Edit:
    """A text of the package, and what stands there once the rule is gone."""

    file: str
    before: str
    after: str = ""


@dataclass(frozen=True)
class Seam:
    """A name of a module, and its value once the rule is gone."""

    target: str
    value: object


@dataclass(frozen=True)
class Removal:
    """What takes a row's rule away."""

    edits: tuple[Edit, ...] = ()
    by_sandbox: tuple[tuple[str, tuple[Edit, ...]], ...] = ()
    """Where the sandboxes hold the rule in different ways."""
    to_both: tuple[Edit, ...] = ()
    """Made with the rule, too: a shorter time to wait, say."""
    seams: tuple[Seam, ...] = ()

    def of(self, sandbox: str | None, top: object) -> tuple[Edit, ...]:
        """Return the edits for a sandbox; `top` is the directory that a sandbox is to show."""
        edits = (*self.edits, *dict(self.by_sandbox).get(sandbox or "", ()))
        filled = (edit.after.replace("{top!r}", repr(str(top))) for edit in edits)
        return tuple(
            Edit(edit.file, edit.before, after) for edit, after in zip(edits, filled, strict=True)
        )


def takes_away(*names: str) -> Callable[[Test], Test]:
    """Say which rows a test is for: the fixture `without` takes the rule of the first away."""

    def note(test: Test) -> Test:
        test.__dict__["takes_away"] = names[0]
        return test

    return note


@contextmanager
def taken_away(name: str) -> Iterator[None]:
    """Take a row's rule away at its seams, in this process."""
    with ExitStack() as stack:
        for seam in REMOVALS[name].seams:
            stack.enter_context(patch(seam.target, seam.value))
        yield


def _is_there(kind: directories.Kind, key: str) -> bool:
    return (directories.cache_home() / kind.folder / key).is_dir()


def _accept(*_: object) -> None:
    pass


def _wrap_for_good(*given: Any, **more: Any) -> list[str]:
    return [word for word in bubblewrap.wrap(*given, **more) if word != "--die-with-parent"]


def edit(file: str, before: str, after: str = "") -> Removal:
    return Removal((Edit(file, before, after),))


STORE = "sources/store.py"
HASHED = 'f"sha256:{hashlib.sha256(content).hexdigest()}"'

REMOVALS = {
    "consent": edit(
        "sources/trust.py", '    return Refused("untrusted")', '    return Trusted("flag")'
    ),
    "where-code-runs": edit("loader.py", "    if confined and not _in_worker:", "    if False:"),
    "answers": edit(
        "wire/messages.py",
        "    if taken > request.count or",
        "    if False and taken > request.count or",
    ),
    "making": Removal(
        (
            Edit(
                "host/worker.py", "min(now + self._limit, self._loading_ends)", "now + self._limit"
            ),
        ),
        to_both=(Edit("host/worker.py", "_MOST_LOADING = 12", "_MOST_LOADING = 1"),),
    ),
    "variables": edit(
        "sandbox/variables.py",
        "if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)) and not _SECRET.search(name)",
    ),
    "network": Removal(
        by_sandbox=(
            (
                "bubblewrap",
                (Edit("sandbox/bubblewrap.py", '*(() if network else ("--unshare-net",)),', ""),),
            ),
            (
                "landlock",
                (
                    Edit(
                        "sandbox/inside.py",
                        "            network=protection.network,\n            abi=abi,",
                        "            network=True,\n            abi=abi,",
                    ),
                    Edit(
                        "sandbox/seccomp.py",
                        "    if not network:\n        rules = (*rules, *refuse",
                        "    if False:\n        rules = (*rules, *refuse",
                    ),
                ),
            ),
        )
    ),
    "files": Removal(
        by_sandbox=(
            (
                "bubblewrap",
                (
                    Edit(
                        "sandbox/bubblewrap.py",
                        '*("--bind", str(scratch), str(scratch), "--chdir", str(scratch)),',
                        '*("--ro-bind", {top!r}, {top!r}, "--bind", str(scratch), str(scratch)),'
                        '*("--chdir", str(scratch)),',
                    ),
                ),
            ),
            (
                "landlock",
                (Edit("sandbox/inside.py", "        landlock.restrict(", "        dict("),),
            ),
        )
    ),
    "terminal": Removal(
        (
            Edit("sandbox/bubblewrap.py", '"--new-session", ', ""),
            Edit(
                "process.py",
                "pass_fds=tuple(pass_fds),\n                start_new_session=True,",
                "pass_fds=tuple(pass_fds),",
            ),
        )
    ),
    "guard": Removal(
        (
            Edit(
                "host/start.py",
                '*("/usr/bin/env", "-i", *(f"{k}={v}" for k, v in guard_variables().items())),',
                "",
            ),
            Edit(
                "host/start.py", '"envhub.worker.guard", "-I", "-S"', '"envhub.worker.guard", "-S"'
            ),
        )
    ),
    "output": edit("errors.py", "if (c.isprintable() and c not in _INVISIBLE)", "if (True)"),
    "requirements": Removal(
        (
            Edit("sources/requirements.py", "if requirement.url is not None or ", "if "),
            Edit("runtime/resolve.py", '"--only-binary", ":all:", ', ""),
        )
    ),
    "run-directories": edit(
        "evaluation/recorded.py", "    if not is_sealed(content):", "    if False:"
    ),
    "stored-bytes": Removal(
        (
            Edit(
                STORE,
                "    if (sha256, tree_id) != (entry.sha256, entry.blob_id):",
                "    if False:",
            ),
            Edit("loader.py", f"        if expected == {HASHED}:", "        if True:"),
        )
    ),
    "commit": Removal(
        (
            Edit(STORE, '    if manifest.proof == "git":', "    if False:"),
            Edit(STORE, "digest(content) != known.manifest", "False"),
        )
    ),
    "seccomp": edit("sandbox/seccomp.py", "= assemble(rules, os", "= assemble((), os"),
    "capabilities": Removal(
        (Edit("sandbox/inside.py", " or libc.capset(*_CAPABILITIES) != 0"),),
        by_sandbox=(("bubblewrap", (Edit("sandbox/bubblewrap.py", ', "--cap-drop", "ALL"'),)),),
    ),
    "limits": edit("sandbox/inside.py", "    limit(protection.memory_mb)\n"),
    "processes": edit(
        "sandbox/supervisor.py",
        "        if most >= limit:\n            return",
        "        if False:\n            return",
    ),
    "memory": Removal(
        (Edit("worker/guard.py", "lambda: memory_mb is not None and ", "lambda: False and "),),
        to_both=(
            Edit("sandbox/choose.py", "max(_LEAST_MB, resources.memory_mb() * 3 // 4)", "350"),
        ),
    ),
    "scopes": Removal(
        (
            Edit("sandbox/landlock.py", "_SCOPES = 0b11", "_SCOPES = 0"),
            # The kernels before Linux 6.12 have no scopes.
            Edit(
                "sandbox/seccomp.py",
                "return rules if abi >= 6 else (*rules, *_signalling(pid))",
                "return rules",
            ),
        )
    ),
    "second-guard": Removal(
        seams=(
            Seam("envhub.sandbox.inside.Protection.needs_inner_guard", False),
            Seam("envhub.sandbox.choose.wrap", _wrap_for_good),
        )
    ),
    "token": edit(
        "sources/http.py", "        if origin_of(url) != origin_of(target):", "        if False:"
    ),
    "names": edit(
        "sources/fetch.py", "        problem = _find_problem(path)", '        problem = ""'
    ),
    "caches": Removal(seams=(Seam("envhub.directories.is_whole", _is_there),)),
    "checkpoints": Removal(seams=(Seam("envhub_lerobot.reading.check_steps", _accept),)),
}
"""The rules of the table, by the names that its rows have."""
