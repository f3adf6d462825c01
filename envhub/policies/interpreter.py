"""Choose the interpreter of a policy's own process: this one, one the user names, or a runtime.

Runs in the host. Nothing of the policy is executed here.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from envhub.errors import RuntimeUnavailable, UsageError
from envhub.options import Say
from envhub.run_info import PolicyRuntimeInfo
from envhub.runtime.installed import unmet_requirements, worker_needs
from envhub.runtime.provision import build
from envhub.runtime.pythons import (
    Python,
    ask_python,
    find_python,
    installed_here,
    locate_python,
    this_python,
)
from envhub.sources.requirements import Requirements, read_requirements
from envhub.types import HERE, FileSource, Interpreter

_RECORDED = (
    "diffusers", "gymnasium", "jax", "lerobot", "msgspec", "numpy", "peft", "safetensors",
    "tokenizers", "torch", "torchvision", "transformers",
)  # fmt: skip
"""The packages whose versions can change what a policy computes."""


@dataclass(frozen=True, slots=True)
class AskedInterpreter:
    """What the user says about the interpreter of a policy's own process."""

    python: str | None = None
    """The user's `--policy-python`, which replaces what a policy's file declares."""
    inline: bool = False
    """Whether everything runs in this process."""
    progress: Say = lambda _: None
    """Receives a line for each step that takes long."""


@dataclass(frozen=True, slots=True)
class PolicyRuntime:
    """The interpreter of a policy's own process."""

    interpreter: Interpreter
    python: str
    """Its version."""
    packages: Mapping[str, str]
    """The versions of those packages that can change what a policy computes."""

    def identify(self) -> PolicyRuntimeInfo:
        """Return what `run.json` records of it."""
        named = self.interpreter.kind == "named"
        return PolicyRuntimeInfo(
            kind=self.interpreter.kind,
            key=self.interpreter.key,
            path=self.interpreter.python if named else None,
            python=self.python,
            packages=dict(self.packages),
        )


def choose_interpreter(
    asked: AskedInterpreter,
    *,
    subject: str = "the policy",
    requires: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> PolicyRuntime:
    """Return the interpreter for a policy in a process of its own: the user's, or this one.

    Args:
        asked: What the user says.
        subject: The policy, for errors.
        requires: What the interpreter must have, besides what every policy's process needs.
        packages: Distributions that are put on the path of an interpreter that the user names.

    Raises:
        UsageError: There is no such interpreter, or it cannot be used with `--workers 0`.
        RuntimeUnavailable: The interpreter lacks something.
    """
    if asked.python is not None:
        _refuse_inline("--policy-python", asked)
        return _named(ask_python(locate_python(asked.python)), requires, packages)
    if unmet := unmet_requirements(Requirements(packages=tuple(requires))):
        raise RuntimeUnavailable(
            f"{subject} needs what {sys.executable} does not have: {', '.join(unmet)}.",
            "Name the interpreter of an environment that has it: --policy-python PATH",
            requirement=requires[0],
        )
    return PolicyRuntime(HERE, this_python().version, installed_here(_RECORDED))


def choose_for_file(source: FileSource, asked: AskedInterpreter) -> PolicyRuntime:
    """Return the interpreter for a policy in a file; build its runtime if the file declares one.

    Args:
        source: The policy's file.
        asked: What the user says.

    Raises:
        UsageError: There is no such interpreter, or another one is needed with `--workers 0`.
        RuntimeUnavailable: The interpreter lacks something, or the runtime cannot be built.
    """
    path = Path(source.directory, source.file)
    declared = read_requirements(path.read_text(encoding="utf-8", errors="replace"), path.name)
    if asked.python is not None or declared == Requirements() or not unmet_requirements(declared):
        return choose_interpreter(asked)
    _refuse_inline(f"The requirements of {source.file}", asked)
    return _built(source, declared, asked.progress)


def _refuse_inline(subject: str, asked: AskedInterpreter) -> None:
    if asked.inline:
        raise UsageError(
            f"{subject}: --workers 0 runs everything in this process, and so on this interpreter. "
            "Omit --workers 0."
        )


def _named(python: Python, requires: Sequence[str], packages: Sequence[str]) -> PolicyRuntime:
    needs = [need for need in map(Requirement, worker_needs()) if need.name != "pluggy"]
    needs += map(Requirement, requires)
    lacking = [need for need in needs if not _has(python, need)]
    if lacking:
        found = ", ".join(f"{n.name} {python.packages.get(n.name, '(none)')}" for n in lacking)
        texts = [str(need) for need in lacking]
        raise RuntimeUnavailable(
            f"{python.executable} has {found}; a policy's process needs {', '.join(texts)}.",
            f"Run: {shlex.join([python.executable, '-m', 'pip', 'install', *texts])}",
            requirement=texts[0],
        )
    from envhub.runtime.own_packages import copy_packages

    interpreter = Interpreter("named", python.executable, None, copy_packages(packages))
    return PolicyRuntime(interpreter, python.version, _recorded(python.packages))


def _has(python: Python, need: Requirement) -> bool:
    version = python.packages.get(need.name)
    return version is not None and need.specifier.contains(version, prereleases=True)


def _built(source: FileSource, declared: Requirements, progress: Say) -> PolicyRuntime:
    base = this_python()
    if not base.meets(declared.python):
        assert declared.python is not None
        base = find_python(declared.python, source.file)
    interpreter = build(
        declared,
        None,
        name=source.file,
        line="the same command again",
        base=base,
        progress=progress,
    )
    runtime = ask_python(interpreter.python)
    return PolicyRuntime(interpreter, runtime.version, _recorded(runtime.packages))


def _recorded(packages: Mapping[str, str]) -> dict[str, str]:
    return {name: packages[name] for name in _RECORDED if name in packages}
