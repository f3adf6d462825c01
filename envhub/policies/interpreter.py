"""Choose the interpreter of a policy's own process: this one, one the user names, or a runtime.

Runs in the host. Nothing of the policy is executed here.
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from envhub.errors import RuntimeUnavailable, UsageError
from envhub.policies.checkpoint import MODULE
from envhub.run_info import PolicyRuntimeInfo
from envhub.runtime.installed import unmet_requirements, worker_needs
from envhub.runtime.own_packages import copy_packages
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
from envhub.types import HERE, FileSource, Interpreter, PolicySource

Say = Callable[[str], None]

_RECORDED = (
    "diffusers", "gymnasium", "jax", "lerobot", "msgspec", "numpy", "peft", "safetensors",
    "tokenizers", "torch", "torchvision", "transformers",
)  # fmt: skip
"""The packages whose versions can change what a policy computes."""


_LEROBOT = "lerobot>=0.4.4"
"""The first version whose checkpoints have their processors, and that has been tried here."""


@dataclass(frozen=True, slots=True)
class PolicyRuntime:
    """The interpreter of a policy's own process."""

    interpreter: Interpreter
    python: str
    """Its version."""
    packages: Mapping[str, str]
    """The versions of those packages that can change what a policy computes."""

    @property
    def info(self) -> PolicyRuntimeInfo:
        """What `run.json` says of it."""
        named = self.interpreter.kind == "named"
        return PolicyRuntimeInfo(
            kind=self.interpreter.kind,
            key=self.interpreter.key,
            path=self.interpreter.python if named else None,
            python=self.python,
            packages=dict(self.packages),
        )


def choose_interpreter(
    policy: PolicySource, python: str | None, *, inline: bool, progress: Say = lambda _: None
) -> PolicyRuntime:
    """Return the interpreter for a policy of the user; build its runtime if it declares one.

    Args:
        policy: The place of its factory.
        python: The user's `--policy-python`, which replaces what the file declares.
        inline: Whether everything runs in this process.
        progress: Receives a line for each step that takes long.

    Raises:
        UsageError: There is no such interpreter, or another one is needed with `--workers 0`.
        RuntimeUnavailable: The interpreter lacks something, or the runtime cannot be built.
    """
    if python is not None:
        _refuse_inline("--policy-python", inline=inline)
        return _named(ask_python(locate_python(python)), checkpoint=policy.module == MODULE)
    if policy.module == MODULE:
        _check_lerobot()
    declared = _declared(policy)
    if declared == Requirements() or not unmet_requirements(declared):
        here = installed_here(_RECORDED)
        return PolicyRuntime(HERE, this_python().version, here)
    assert isinstance(policy.module, FileSource)
    _refuse_inline(f"The requirements of {policy.module.file}", inline=inline)
    return _built(policy.module, declared, progress)


def _declared(policy: PolicySource) -> Requirements:
    """Return what the block of a policy's file requires."""
    if not isinstance(policy.module, FileSource):
        return Requirements()
    path = Path(policy.module.directory, policy.module.file)
    return read_requirements(path.read_text(encoding="utf-8", errors="replace"), path.name)


def _refuse_inline(subject: str, *, inline: bool) -> None:
    if inline:
        raise UsageError(
            f"{subject}: --workers 0 runs everything in this process, and so on this interpreter. "
            "Omit --workers 0."
        )


def _check_lerobot() -> None:
    """Refuse a checkpoint on this interpreter if it has no LeRobot."""
    if not installed_here(["lerobot"]):
        raise RuntimeUnavailable(
            f"A checkpoint needs LeRobot, which {sys.executable} does not have.",
            "Name the interpreter of an environment that has it: --policy-python PATH",
            requirement="lerobot",
        )


def _named(python: Python, *, checkpoint: bool) -> PolicyRuntime:
    needs = [need for need in map(Requirement, worker_needs()) if need.name != "pluggy"]
    needs += [Requirement(_LEROBOT)] if checkpoint else []
    lacking = [need for need in needs if not _has(python, need)]
    if lacking:
        found = ", ".join(f"{n.name} {python.packages.get(n.name, '(none)')}" for n in lacking)
        texts = [str(need) for need in lacking]
        raise RuntimeUnavailable(
            f"{python.executable} has {found}; a policy's process needs {', '.join(texts)}.",
            f"Run: {shlex.join([python.executable, '-m', 'pip', 'install', *texts])}",
            requirement=texts[0],
        )
    interpreter = Interpreter("named", python.executable, None, copy_packages(()))
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
