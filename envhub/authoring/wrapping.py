"""See what an existing Gymnasium env is like, in a worker, to wrap it into a benchmark."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import envhub
from envhub.errors import ContractError, EnvHubError, UsageError
from envhub.files import expand_home
from envhub.host.loading import LazySpec, describe
from envhub.options import Argument, Limits, Reporter, Say
from envhub.refs import PathRef
from envhub.scratch import scratch_directory
from envhub.sources.find import locate
from envhub.sources.imports import names_imported_by
from envhub.sources.requirements import requirements_at
from envhub.sources.siblings import hash_siblings
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv

_KNOWN = "gym:"
_PROBE = Path(envhub.__file__).parent / "worker" / "wrapped.py"
"""The env file that runs the env in a worker."""
_ID = re.compile(r"(?:[A-Za-z_][\w.]*:)?(?:[\w-]+/)?[\w-]+")
"""`CartPole-v1`, `gym_pusht/PushT-v0`, `gym_pusht:gym_pusht/PushT-v0`."""
_STEPS = 1000
"""Steps of the one episode that is played."""
_IN_EVERY_WORKER = frozenset({"gymnasium", "numpy", "envhub"})
_ACCEPTED = ("is_success", "success")
"""The keys that an evaluation reads by itself."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The env that was named."""

    name: str
    """A class or function, or Gymnasium's id; empty: the only env class of the file."""
    file: Path | None = None
    packages: tuple[str, ...] = ()
    """What it requires besides Gymnasium and numpy."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen when an env was run once."""

    task: str
    """The name of the class, or the id without its namespace."""
    call: str
    """The expression that makes the env."""
    arguments: tuple[str, ...]
    """What else its maker takes, as `goal='red'`: each value could be a task."""
    horizon: int | None
    instruction: str | None
    flags: tuple[str, ...]
    """The keys of info that were true or false, those that look like success first."""
    observation: str
    action: str
    drawn: bool
    """Whether it renders frames."""
    packages: tuple[str, ...]
    """What it requires besides Gymnasium and numpy, pinned as it is installed here."""


def read_origin(text: str) -> Origin:
    """Understand `gym:ID`, `./file.py` and `./file.py:NAME`.

    Raises:
        UsageError: It is none of them, or the file cannot be wrapped.
    """
    if text.startswith(_KNOWN):
        return _read_known(text.removeprefix(_KNOWN))
    path, _, name = text.partition(".py:")
    file = expand_home(f"{path}.py" if name else text)
    if name and not name.isidentifier():
        raise UsageError(f"--from {text}: {name!r} is not the name of a class or function.")
    if file.suffix != ".py":
        raise UsageError(f"--from {text!r} is neither ./file.py, ./file.py:NAME nor gym:ID.")
    locate(PathRef(str(file)))
    siblings = list(hash_siblings(file.resolve()))
    if siblings:
        raise UsageError(
            f"{file} imports {siblings[0]} beside it, and only one file can be wrapped: start with "
            "envhub new, and move your files into its package."
        )
    return Origin(name, file.resolve(), _packages_of(file))


def look_at(
    origin: Origin,
    limits: Limits,
    *,
    message: Say = lambda _: None,
) -> Facts:
    """Make an env in a worker, play one episode of random actions, and say what was seen.

    Raises:
        EnvHubError: It cannot be made, reset or stepped.
    """
    with scratch_directory() as place:
        directory = place / "env"
        directory.mkdir()
        (directory / "env.py").write_bytes(_PROBE.read_bytes())
        (directory / "requirements.txt").write_text("\n".join(origin.packages), encoding="utf-8")
        try:
            facts = _look(directory, origin, limits, message, drawn=True)
            if facts.drawn:
                return facts
            return _look(directory, origin, limits, message, drawn=False)
        except _NotDrawn:
            return _look(directory, origin, limits, message, drawn=False)


class _NotDrawn(Exception):
    """The env cannot be made with a render mode."""


def _look(
    directory: Path,
    origin: Origin,
    limits: Limits,
    message: Say,
    *,
    drawn: bool,
) -> Facts:
    file = str(origin.file) if origin.file else ""
    arguments: dict[str, Argument] = {"origin": file, "name": origin.name, "drawn": drawn}
    spec = WorkerSpec(locate(PathRef(str(directory))), arguments, limits)
    described = describe(spec, "auto", reporter=Reporter(message, message))
    [(suite, [task])] = described.benchmark.suites.items()
    if task.name in described.broken:
        if drawn:
            raise _NotDrawn
        raise described.broken[task.name]
    horizon = described.horizon(task)
    with LazyVectorEnv(LazySpec(described, "auto"), suite, task.name, 1) as env:
        env.action_space.seed(0)
        env.reset(seed=0)
        instruction = env.call("task_description")[0]
        return Facts(
            task.name,
            str(env.get_attr("envhub_call")[0]),
            tuple(map(str, env.get_attr("envhub_arguments")[0])),
            horizon,
            None if instruction in (task.name, "") else str(instruction),
            _play(env, min(horizon or _STEPS, _STEPS)),
            str(env.single_observation_space),
            str(env.single_action_space),
            drawn and _draws(env),
            origin.packages or _packages_with(env.get_attr("envhub_modules")[0]),
        )


def _play(env: LazyVectorEnv, steps: int) -> tuple[str, ...]:
    """Play an episode, and return the keys of info that were flags in every step that had them."""
    kinds: dict[str, bool] = {}
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        for key, value in info.items():
            if not key.startswith("_"):
                kinds[key] = kinds.get(key, True) and _is_flag(value)
        if terminated[0] or truncated[0]:
            break
    flags = [key for key, flag in kinds.items() if flag]
    return tuple(sorted(flags, key=lambda key: (key not in _ACCEPTED, "succe" not in key, key)))


def _is_flag(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.size == 1


def _draws(env: LazyVectorEnv) -> bool:
    try:
        frame = env.render()[0]
    except (EnvHubError, AttributeError, NotImplementedError):
        return False
    return isinstance(frame, np.ndarray) and frame.ndim == 3


def _read_known(name: str) -> Origin:
    if not _ID.fullmatch(name):
        raise UsageError(f"--from gym:{name} does not name an env: write e.g. gym:CartPole-v1.")
    return Origin(name)


def _packages_with(modules: list[str]) -> tuple[str, ...]:
    """Pin the packages that have some modules, without those that the others require anyway."""
    kept = [name for name in modules if name not in sys.stdlib_module_names | _IN_EVERY_WORKER]
    providers = metadata.packages_distributions()
    found = {canonicalize_name(name) for module in kept for name in providers.get(module, ())}
    required = {
        canonicalize_name(Requirement(text).name)
        for name in (*found, *_IN_EVERY_WORKER - {"envhub"})
        for text in metadata.requires(name) or ()
        if "extra ==" not in text
    }
    return tuple(f"{name}=={metadata.version(name)}" for name in sorted(found - required))


def _packages_of(file: Path) -> tuple[str, ...]:
    """Return what a file declares, else the installed packages that it imports."""
    declared = requirements_at(file)
    if declared.packages:
        return declared.packages
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as exc:
        raise ContractError(f"{file} is not valid Python: {exc}.") from exc
    return tuple(_pins(sorted(_imported(tree))))


def _imported(tree: ast.AST) -> set[str]:
    names = (name for node in ast.walk(tree) for name in names_imported_by(node))
    absolute = {name.partition(".")[0] for name in names if not name.startswith(".")}
    return absolute - sys.stdlib_module_names - _IN_EVERY_WORKER


def _pins(modules: list[str]) -> Iterator[str]:
    """Pin the installed packages that have some modules; those that are not installed are not."""
    providers = metadata.packages_distributions()
    for module in modules:
        for distribution in sorted(set(providers.get(module, ())))[:1]:
            yield f"{distribution}=={metadata.version(distribution)}"
