"""A recorded run prepared once more, so that its episodes can be drawn or checked.

The door is that of resuming: only a `run.json` with this user's seal decides what is executed. For
any other run the user names the benchmark, and the policy if it is to act, and the run is compared
with them.
"""

import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from envhub.errors import RunDirectoryError
from envhub.evaluation import recorded
from envhub.evaluation.describe import foresee
from envhub.evaluation.prepare import Prepared, obtain_policy, prepare
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.options import Argument, SourceOptions
from envhub.policies.kinds import InProgram, PolicyKind
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.comparable import check_same, shorten
from envhub.results.journal import check_directory
from envhub.results.run import Run
from envhub.run_info import RunInfo, agreeing, canonical
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.types import Batch
from envhub.wire.policy_contract import Context
from envhub.wire.values import Array


@dataclass(frozen=True, slots=True)
class RerunOptions:
    """How to run a recorded run's code again, as the user says."""

    command: str
    """The command that was given, such as `verify`, for advice."""
    benchmark: str | None = None
    """The benchmark, for a run that does not carry this user's seal."""
    env_args: Mapping[str, Argument] = field(default_factory=dict)
    """The arguments of the benchmark that is named."""
    workers: int | None = None
    source: SourceOptions = field(default_factory=SourceOptions)
    policy: PolicyKind | None = None
    """The policy that the user names; None: the run's own, which needs this user's seal."""
    policy_python: str | None = None
    """The interpreter of the policy that is named."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A recorded run whose benchmark is loaded again."""

    run: Run
    prepared: Prepared
    logs: Path


class Playback:
    """A policy that takes recorded actions. It reads no observation, so that none is drawn.

    An episode that does not end where it did gets its last action again, until it ends: one by one,
    for an error takes with it the steps of its chunk.
    """

    needs = ()
    batch: Batch = "any"

    def __init__(self, read: Callable[[int], Array], records: Sequence[EpisodeRecord]) -> None:
        """Take the function that returns the actions of an episode, by its number."""
        self._read = read
        self._numbers = {(record.task, record.episode): record.number for record in records}

    def act(self, _observation: Any, episodes: Sequence[Context]) -> list[Array]:
        """Return all actions that an episode has left, for each one."""
        return [self._left(episode) for episode in episodes]

    def _left(self, episode: Context) -> Array:
        actions = self._read(self._numbers[episode.task, episode.index])
        return actions[episode.step :] if episode.step < len(actions) else actions[-1:]


def recorded_actions(directory: Path, number: int) -> Array:
    """Return the actions of an episode.

    Raises:
        RunDirectoryError: There are none.
    """
    actions = read_arrays(directory, number).actions
    if actions is None or not len(actions):
        raise RunDirectoryError(
            f"{directory} has no actions of this episode (actions/{number}.npy)."
        )
    return actions


@contextmanager
def prepare_rerun(
    run: Run,
    options: RerunOptions,
    watcher: Watcher,
    *,
    policy: Any = None,
    fresh: tuple[int, int] | None = None,
) -> Iterator[Rerun]:
    """Load the benchmark of a run again, as the run was begun.

    Args:
        run: The run.
        options: What the user says about it.
        watcher: Receives messages.
        policy: A policy object; None: the policy that the user names, or the run's own.
        fresh: A seed and a number of episodes per task, for episodes that the run does not have.

    Raises:
        RunDirectoryError: The run does not carry this user's seal, and the benchmark, or the policy
            that is to act, is not named; or one of them is another one than in the run.
    """
    before, named = run.run_info, policy is None and options.policy is not None
    request = request_again(run, options, own_policy=policy is None and not named)
    if policy is not None:
        request = replace(request, policy=InProgram(policy), policy_python=None)
    elif options.policy is not None:
        python = options.policy_python
        request = replace(request, policy=options.policy, policy_python=python)
    if fresh is not None:
        request = replace(request, seed=fresh[0], episodes=fresh[1])
    ref = before.benchmark.reference if options.benchmark is None else options.benchmark
    source = find_source(ref, request.options, message=watcher.message)
    files = identify(source)
    request = obtain_policy(request, None if named else before, watcher)
    own = policy is None and not named
    begun = recorded.with_variable_hashes(
        _with_installed_files(before, files),
        request.options.env_vars,
        others=options.benchmark is not None,
    )
    check_same(begun, _asked(foresee(request, files, begun), begun, own=own), run.directory)
    if named:
        _check_identity(begun, foresee(request, files, begun), run.directory)
    with tempfile.TemporaryDirectory(prefix="envhub-rerun-") as place:
        logs = Path(place)
        prepared = prepare(request, source, files, logs, watcher)
        try:
            begun = recorded.with_keys_of_today(begun, prepared)
            check_same(begun, _asked(prepared.info, begun, own=own), run.directory)
            if not own:  # what was recorded are the actions as they were taken
                prepared = replace(prepared, plan=replace(prepared.plan, delays=None))
            if named:  # a name of the benchmark, and one that is installed, are now told apart
                _check_identity(begun, prepared.info, run.directory)
            yield Rerun(run, prepared, logs)
        finally:
            prepared.close()


def check_seal(run: Run, options: RerunOptions, *, acts: bool = False) -> None:
    """Refuse a run that may not decide what is executed, its policy and its interpreter too.

    Args:
        run: The run.
        options: What the user says about it.
        acts: Whether its policy is to act.

    Raises:
        RunDirectoryError: It does not carry this user's seal.
    """
    words = ["envhub", options.command, str(run.directory), "--benchmark", "REF"]
    if acts:
        words += ["--policy", "P"]
    recorded.check_seal(run.info, run.directory, shlex.join(words))


def request_again(run: Run, options: RerunOptions, *, own_policy: bool) -> EvalRequest:
    """Return the request that a run was started with, where its code is run as the user says.

    Args:
        run: The run.
        options: What the user says about it.
        own_policy: Whether the run's own policy is to act.

    Raises:
        RunDirectoryError: The run does not carry this user's seal, and is to decide what runs.
    """
    directory, given = run.directory, options.source
    check_directory(directory)
    if own_policy or options.benchmark is None:
        check_seal(run, options, acts=own_policy)
    request = recorded.request_of(
        run.run_info, directory, trust_remote_code=given.trust_remote_code
    )
    if options.benchmark is None:
        begun = request.options
        given = replace(
            given,
            sandbox=begun.sandbox if given.sandbox == "auto" else given.sandbox,
            sandbox_allow_network=begun.sandbox_allow_network,
            runtime=begun.runtime if given.runtime == "auto" else given.runtime,
            env_vars=recorded.recorded_variables(run.run_info, given.env_vars, directory),
        )
    else:
        request = replace(request, ref=options.benchmark, env_args=options.env_args)
    batch = recorded.undeclared_batch(run.run_info)
    return replace(request, batch=batch, workers=options.workers, options=given)


def _asked(now: RunInfo, before: RunInfo, *, own: bool) -> RunInfo:
    """Return what must be as it was: not the packages and workers, whose effect is in question.

    Args:
        now: What `run.json` would say.
        before: What it says.
        own: Whether the run's own policy acts.
    """
    plan = changed(now.plan, seed=before.plan.seed, episodes=before.plan.episodes)
    policy = now.policy if own else before.policy
    return changed(now, runtime=before.runtime, plan=plan, policy=policy)


def _check_identity(before: RunInfo, now: RunInfo, directory: Path) -> None:
    """Refuse a policy that is not the one of which a run says that it acted.

    Its interpreter is not part of that: whether other packages act otherwise is in question.

    Raises:
        RunDirectoryError: It is another one; says in what.
    """
    old, new = (
        {
            item.words: item.value
            for item in agreeing(info.policy, "resume", "policy.")
            if not item.path.startswith("policy.runtime.")
        }
        for info in (before, now)
    )
    for words in {**old, **new}:
        if canonical(old.get(words)) != canonical(new.get(words)):
            raise RunDirectoryError(
                f"The policy that you name is not the one of {directory}: its {words} is "
                f"{shorten(new.get(words))}, and the run says {shorten(old.get(words))}. Name the "
                "policy with the --policy-arg that the run claims; if that cannot be, the run is "
                "not what it says."
            )


def _with_installed_files(info: RunInfo, files: Mapping[str, Any]) -> RunInfo:
    """Return what a plugin's run says, as if it had been begun with the installed plugin.

    A plugin is a package like others: whether its newer version changes the result is asked too.
    """
    if not info.benchmark.kind == files["kind"] == "plugin":
        return info
    return changed(info, benchmark=changed(info.benchmark, files=dict(files["files"])))
