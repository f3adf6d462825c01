"""Play recorded episodes of one run's question under another run's versions, and keep what is seen.

Whose code runs is said by this user's seal, or by the reader's own command line, as in `verify`.
"""

import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace as changed

from envhub.declarations import Benchmark
from envhub.errors import EnvHubError, RemoteCodeRefused, RunDirectoryError
from envhub.evaluation.prepare import Prepared, obtain_policy, prepare
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.rerun import Playback, RerunOptions, request_again
from envhub.evaluation.run import play
from envhub.options import Argument, OtherVersions
from envhub.policies.kinds import InProgram, PolicyKind
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.differences import is_picture
from envhub.results.run import Run
from envhub.results.seal import is_sealed
from envhub.run_info import RunInfo, agreeing, canonical
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.wire.policy_contract import Context
from envhub.wire.values import Array

_LINE_EVERY = 10.0
"""Seconds between lines that say how far it is."""

Key = tuple[str, int]
"""An episode: its task and its index."""
FirstLeaves = Mapping[int, tuple[str, ...] | None]
"""The leaves of the first observations of episodes, by number."""


class NotPlayed(Exception):
    """Why episodes cannot be played, and the command that would."""

    def __init__(self, why: str, command: str | None = None) -> None:
        super().__init__(why)
        self.command = command


@dataclass(slots=True)
class Side:
    """One of the two runs: its question, and the versions that it was played with."""

    name: str
    """A or B."""
    run: Run
    request: EvalRequest
    """With its own reference, as this user may run it."""
    policy: PolicyKind | None
    """None: nobody who may say so has named it."""
    policy_python: str | None = None
    chosen: bool = False
    """Whether its versions are those that the user names, not those that the run records."""
    strict: bool = False
    """Whether the installed plugin must be the run's: that of the other run is another one."""

    @property
    def info(self) -> RunInfo:
        """What its run.json says."""
        return self.run.run_info


def make_side(name: str, run: Run, options: RerunOptions, command: str) -> Side:
    """Return a run as it may be played again here.

    Args:
        name: A or B.
        run: The run.
        options: What the user says about it; for a run with this user's seal, the run says it.
        command: What the user says to play a run without the seal.

    Raises:
        NotPlayed: Nobody who may say so has said what to execute.
    """
    sealed = is_sealed(run.info)
    if not sealed and options.benchmark is None:
        raise NotPlayed(f"{name} does not carry your seal: say yourself what to run", command)
    if sealed:
        options = replace(options, benchmark=None, env_args={})
    request = request_again(run, options, own_policy=False)
    request = replace(request, ref=options.benchmark or run.run_info.benchmark.reference)
    own = run.run_info.benchmark
    given = {key: value for key, value in request.env_args.items() if key not in own.assets}
    if canonical(given) != canonical(own.args_without_assets):
        shown = " ".join(f"--env-arg {k}={v}" for k, v in own.args_without_assets.items())
        raise NotPlayed(f"{name} was made with other arguments: say {shown or 'no --env-arg'}")
    if options.policy is not None and not sealed:
        return Side(name, run, request, options.policy, options.policy_python)
    policy = request.policy if sealed and run.run_info.policy.kind != "object" else None
    return Side(name, run, request, policy, request.policy_python)


@dataclass(slots=True)
class Played:
    """What was seen when episodes were played."""

    info: RunInfo
    """What run.json would say of it."""
    benchmark: Benchmark
    records: dict[Key, EpisodeRecord] = field(default_factory=dict)
    actions: dict[Key, Array | None] = field(default_factory=dict)
    steps: dict[Key, Array | None] = field(default_factory=dict)
    first: dict[Key, dict[str, Array]] = field(default_factory=dict)
    """The first observations."""
    states: dict[Key, list[dict[str, Array]]] = field(default_factory=dict)
    """The numbers of all observations but pictures, if they were asked for."""

    @property
    def problem(self) -> str | None:
        """The error that ended an episode, if one did."""
        for (task, index), record in self.records.items():
            if record.error is not None:
                return f"an error ended {task}:{index}: {record.error.message}"
        return None


class Witness(Playback):
    """Takes recorded actions, and keeps the observations that it is shown."""

    def __init__(
        self, actions: Mapping[Key, Array], played: dict[Key, list[dict[str, Array]]], needs: Any
    ) -> None:
        """Take the actions of episodes.

        Args:
            actions: The actions, by episode.
            played: Receives the observations.
            needs: The leaves to observe at every step; None: all leaves, at the reset only.
        """
        self.needs = needs
        self._actions, self._seen = actions, played

    def act(self, observation: Any, episodes: Sequence[Context]) -> list[Array]:
        """Keep what is seen; return the actions until something is to be seen again."""
        leaves = dict(_leaves(observation))
        for row, episode in enumerate(episodes):
            key = episode.task, episode.index
            seen = {path: np.array(value[row]) for path, value in leaves.items()}
            self._seen.setdefault(key, []).append(seen)
        return [self._next(episode) for episode in episodes]

    def _next(self, episode: Context) -> Array:
        actions = self._actions[episode.task, episode.index]
        left = actions[episode.step :] if episode.step < len(actions) else actions[-1:]
        return left if self.needs is None else left[:1]


def _leaves(value: Any, path: str = "") -> Any:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, f"{path}/{name}" if path else str(name))
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{path}/{index}" if path else str(index))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield path, value


def actions_of(run: Run, records: Sequence[EpisodeRecord]) -> dict[Key, Array]:
    """Return the recorded actions of episodes; of those without any, nothing."""
    found = {}
    for record in records:
        actions = read_arrays(run.directory, record.number).actions
        if actions is not None and len(actions):
            found[record.task, record.episode] = actions
    return found


def play_actions(
    question: Side,
    setting: Side,
    actions: Mapping[Key, Array],
    watcher: Watcher,
    *,
    needs: tuple[str, ...] | None = None,
    reset_only: bool = False,
    first_leaves: FirstLeaves | None = None,
) -> Played:
    """Take recorded actions in one run's question under another run's versions.

    Args:
        question: Whose tasks, seeds and arguments are played.
        setting: Whose code and packages play them.
        actions: The actions by episode.
        watcher: Receives messages.
        needs: The leaves to observe at every step; None: all, and only at the reset.
        reset_only: Whether one step of each episode is enough.
        first_leaves: The leaves that the resets of episodes fill, by number, if not all.

    Raises:
        NotPlayed: It cannot be, and why.
    """
    seen: dict[Key, list[dict[str, Array]]] = {}
    witness = InProgram(Witness(actions, seen, needs))
    horizon = 1 if reset_only else None
    keys = tuple(actions)
    played = _play(question, setting, keys, watcher, witness, None, horizon, first_leaves)
    played.first = {key: observed[0] for key, observed in seen.items() if observed}
    if needs is not None:
        played.states = seen
    return played


def play_policy(
    question: Side, setting: Side, policy: Side, keys: Sequence[Key], watcher: Watcher
) -> Played:
    """Let a run's policy play episodes of one run's question under another run's versions.

    Raises:
        NotPlayed: It cannot, and why.
    """
    if policy.policy is None:
        if policy.info.policy.kind == "object":
            raise NotPlayed(f"the policy of {policy.name} was a Python object")
        raise NotPlayed(f"{policy.name} does not carry your seal: name its policy", "--policy P")
    return _play(question, setting, keys, watcher, policy.policy, policy, None)


def _play(
    question: Side,
    setting: Side,
    keys: Sequence[Key],
    watcher: Watcher,
    policy: PolicyKind,
    acting: Side | None,
    horizon: int | None,
    first_leaves: FirstLeaves | None = None,
) -> Played:
    _check_python(setting)
    request = replace(
        question.request,
        ref=setting.request.ref,
        env_args=_arguments(question, setting),
        options=setting.request.options,
        limits=question.request.limits,
        policy=policy,
        policy_python=acting.policy_python if acting else None,
        batch=acting.request.batch if acting else 1,
        ignore_conventions=acting.request.ignore_conventions if acting else False,
        shard=None,
        retries=0,  # what was seen of an attempt that failed is not that of the next one
    )
    try:
        with tempfile.TemporaryDirectory(prefix="envhub-explain-") as place:
            return _play_in(
                Path(place), request, question, setting, keys, watcher, acting, horizon,
                first_leaves,
            )  # fmt: skip
    except _Elsewhere as other:
        options = replace(setting.request.options, runtime=other.choice)
        setting.request = replace(setting.request, options=options)
        setting.chosen = True
        return _play(question, setting, keys, watcher, policy, acting, horizon, first_leaves)
    except RemoteCodeRefused as error:
        raise NotPlayed(str(error), "--trust-remote-code") from error
    except EnvHubError as error:
        raise NotPlayed(str(error)) from error


def _arguments(question: Side, setting: Side) -> dict[str, Argument]:
    """Return the arguments of a question, with the places of the setting's assets."""
    assets = setting.info.benchmark.assets
    places = {key: each for key, each in setting.request.env_args.items() if key in assets}
    asked = {key: each for key, each in question.request.env_args.items() if key not in assets}
    return asked | places


class _Elsewhere(Exception):
    """The packages of a run are not those that are installed here, and may be built."""

    def __init__(self, choice: OtherVersions) -> None:
        super().__init__()
        self.choice = choice


def _play_in(
    logs: Path,
    request: EvalRequest,
    question: Side,
    setting: Side,
    keys: Sequence[Key],
    watcher: Watcher,
    acting: Side | None,
    horizon: int | None,
    first_leaves: FirstLeaves | None = None,
) -> Played:
    source = find_source(request.ref, request.options, message=watcher.message)
    files = identify(source)
    _check_files(setting, files)
    if acting is not None:
        request = obtain_policy(request, acting.info, watcher)
        _check_policy(acting, request.policy)
    prepared = prepare(request, source, files, logs, watcher)
    try:
        _check_packages(setting, prepared)
        prepared = _of_question(prepared, question, delayed=acting is not None, horizon=horizon)
        return _collect(prepared, keys, logs, watcher, first_leaves)
    finally:
        prepared.close()


def _of_question(
    prepared: Prepared, question: Side, *, delayed: bool, horizon: int | None
) -> Prepared:
    """Return the plan with the rules of the question, whatever the code of the setting says."""
    rules = question.info.plan.tasks
    tasks = {
        name: replace(task, horizon=horizon or rules[name].horizon, success=rules[name].success)
        for name, task in prepared.plan.tasks.items()
    }
    plan = replace(prepared.plan, tasks=tasks)
    if not delayed:  # what was recorded are the actions as they were taken
        plan = replace(plan, delays=None)
    return replace(prepared, plan=plan)


def _collect(
    prepared: Prepared,
    keys: Sequence[Key],
    logs: Path,
    watcher: Watcher,
    first_leaves: FirstLeaves | None,
) -> Played:
    played = Played(prepared.info, prepared.benchmark)
    wanted = set(keys)
    episodes = tuple(e for e in prepared.plan.episodes if (e.task, e.index) in wanted)

    told = time.monotonic()

    def on_record(record: EpisodeRecord, actions: Array | None, steps: Array | None) -> None:
        nonlocal told
        if time.monotonic() - told >= _LINE_EVERY:
            told = time.monotonic()
            watcher.progress(f"{len(played.records) + 1}/{len(episodes)} episodes")
        key = record.task, record.episode
        played.records[key] = record
        played.actions[key], played.steps[key] = actions, steps

    play(prepared, episodes, logs, on_record, first_leaves=first_leaves)
    return played


def _check_python(setting: Side) -> None:
    recorded, here = setting.info.runtime.python, platform.python_version()
    if not setting.chosen and is_of_another_python(setting.info):
        raise NotPlayed(
            f"{setting.name} ran on Python {recorded} and this EnvHub runs on {here}: call explain "
            "from an environment of that Python",
            f"python{'.'.join(recorded.split('.')[:2])} -m",
        )


def is_of_another_python(info: RunInfo) -> bool:
    """Whether a run was made on another Python than EnvHub runs on, to the minor version."""
    return info.runtime.python.split(".")[:2] != platform.python_version().split(".")[:2]


def _check_files(setting: Side, files: Mapping[str, Any]) -> None:
    """Refuse a benchmark that is not the run's any more; a plugin is a package like others."""
    own = setting.info.benchmark
    if own.kind == files["kind"] == "plugin":
        if setting.strict and own.files != dict(files["files"]):
            raise NotPlayed(f"{setting.name} was made with another version of {own.package}")
        return
    now = _with_files(setting.info, files)
    if now.benchmark.counted_files != own.counted_files:
        old, new = own.counted_files, now.benchmark.counted_files
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        raise NotPlayed(
            f"the benchmark of {setting.name} has changed since ({', '.join(changed[:3])})"
        )


def _with_files(info: RunInfo, files: Mapping[str, Any]) -> RunInfo:
    """Return what a run says, with the files of its benchmark as they are now."""
    return changed(info, benchmark=changed(info.benchmark, files=dict(files["files"])))


def _check_policy(acting: Side, policy: PolicyKind) -> None:
    """Refuse a policy that is not the run's any more."""
    old, new = (
        {item.words: item.value for item in agreeing(each, "resume")
         if not item.path.startswith("runtime")}
        for each in (acting.info.policy, policy.identify())
    )  # fmt: skip
    for words in {**old, **new}:
        if canonical(old.get(words)) != canonical(new.get(words)):
            name = acting.name
            raise NotPlayed(f"the policy of {name} is another one now: its {words} has changed")


def _check_packages(setting: Side, prepared: Prepared) -> None:
    """Refuse assets and packages that are not the run's; where it may say so, they are built."""
    if prepared.info.benchmark.assets != setting.info.benchmark.assets:
        raise NotPlayed(f"{setting.name} was made with other assets than are found here")
    due, here = setting.info.runtime.packages, prepared.info.runtime.packages
    differing = {name: due[name] for name in due if here.get(name) != due[name]}
    if setting.chosen or not differing:
        return
    if not is_sealed(setting.run.info):
        shown = ",".join(f"{name}={version}" for name, version in sorted(differing.items()))
        raise NotPlayed(
            f"{setting.name} ran with {shown.replace('=', ' ')}, which a run without your seal "
            "does not install",
            f"--versions {shown}",
        )
    choice = prepared.request.options.runtime
    begun = "isolated" if choice in ("here", "auto") else choice
    if isinstance(begun, OtherVersions):
        raise RunDirectoryError(f"{setting.name} ran with other packages than can be built here.")
    raise _Elsewhere(OtherVersions(differing, begun))


def leaves_of_states(played: Played) -> tuple[str, ...]:
    """Return the leaves of observations that are numbers and no pictures."""
    found: dict[str, None] = {}
    for observation in played.first.values():
        found |= {path: None for path, value in observation.items() if not is_picture(value)}
    return tuple(found)
