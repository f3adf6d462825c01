"""A recorded run prepared once more, so that its episodes can be drawn or checked.

The door is that of resuming: only a `run.json` with this user's seal decides what is executed. For
any other run the user names the benchmark, and the run is compared with it.
"""

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import RunDirectoryError
from envhub.evaluation.prepare import Prepared, foresee, prepare
from envhub.evaluation.recorded import read_begun, recorded_variables, reference_of, request_of
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.options import Argument, SourceOptions
from envhub.policies.contract import Context
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_actions
from envhub.results.manifest import check_same
from envhub.results.run import Run
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify
from envhub.wire.values import Array


@dataclass(frozen=True, slots=True)
class Consent:
    """What the user says about running a recorded run's code again."""

    command: str
    """The command that was given, such as `verify`, for advice."""
    benchmark: str | None = None
    """The benchmark, for a run that does not carry this user's seal."""
    env_args: Mapping[str, Argument] = field(default_factory=dict)
    """The arguments of the benchmark that is named."""
    workers: int | None = None
    options: SourceOptions = field(default_factory=SourceOptions)


@dataclass(frozen=True, slots=True)
class Again:
    """A run whose benchmark is loaded again."""

    run: Run
    prepared: Prepared
    logs: Path


class Playback:
    """A policy that takes recorded actions. It reads no observation, so that none is drawn.

    An episode that does not end where it did gets its last action again, until it ends.
    """

    needs = ()

    def __init__(self, directory: Path, records: Sequence[EpisodeRecord]) -> None:
        self._directory = directory
        self._numbers = {(record.task, record.episode): record.number for record in records}

    def act(self, _observation: Any, episodes: Sequence[Context]) -> Array:
        """Return all actions that an episode has left, for each one."""
        rows = [self._left(episode) for episode in episodes]
        longest = max(map(len, rows))
        return np.stack([_fill(row, longest) for row in rows])

    def _left(self, episode: Context) -> Array:
        actions = recorded_actions(self._directory, self._numbers[episode.task, episode.index])
        return actions[episode.step :] if episode.step < len(actions) else actions[-1:]


def recorded_actions(directory: Path, number: int) -> Array:
    """Return the actions of an episode.

    Raises:
        RunDirectoryError: There are none.
    """
    actions = read_actions(directory, number)
    if actions is None or not len(actions):
        raise RunDirectoryError(
            f"{directory} has no actions of this episode (actions/{number}.npy)."
        )
    return actions


@contextmanager
def prepared_again(
    run: Run, consent: Consent, watcher: Watcher, *, policy: Any = None
) -> Iterator[Again]:
    """Load the benchmark of a run again, as the run was begun.

    Args:
        run: The run.
        consent: What the user says about it.
        watcher: Receives messages.
        policy: A policy object; None: the run's own policy.

    Raises:
        RunDirectoryError: The run does not carry this user's seal, and no benchmark is named or
            its own policy is to act; or the benchmark is another one now.
    """
    request, manifest = _request(run, consent, own_policy=policy is None)
    if policy is not None:
        request = replace(request, policy=policy, policy_args={}, policy_python=None)
    ref = reference_of(manifest) if consent.benchmark is None else consent.benchmark
    source = find_source(ref, request.options, message=watcher.message)
    files = identify(source)
    same_policy = {"policy": manifest["policy"]} if policy is not None else {}
    begun = _with_installed_files(manifest, files)
    check_same(begun, {**foresee(request, files), **same_policy}, run.directory)
    with tempfile.TemporaryDirectory(prefix="envhub-again-") as place:
        logs = Path(place)
        prepared = prepare(request, source, files, logs, watcher)
        try:
            # Not the packages: whether they change the result is what is asked.
            now = {key: prepared.manifest[key] for key in ("benchmark", "plan", "policy")}
            check_same(begun, {**now, **same_policy}, run.directory)
            yield Again(run, prepared, logs)
        finally:
            prepared.close()


def check_seal(run: Run, consent: Consent) -> dict[str, Any]:
    """Return a `run.json` that may decide what is executed, the policy and its interpreter too.

    Raises:
        RunDirectoryError: It does not carry this user's seal.
    """
    words = ["envhub", consent.command, str(run.directory), "--benchmark", "REF"]
    return read_begun(run.directory, obey=shlex.join(words))


def _request(run: Run, consent: Consent, *, own_policy: bool) -> tuple[EvalRequest, dict[str, Any]]:
    directory, given = run.directory, consent.options
    obeyed = own_policy or consent.benchmark is None
    manifest = check_seal(run, consent) if obeyed else read_begun(directory)
    request = request_of(manifest, directory, trust_remote_code=given.trust_remote_code)
    if consent.benchmark is None:
        recorded = request.options
        options = replace(
            given,
            sandbox=recorded.sandbox if given.sandbox == "auto" else given.sandbox,
            sandbox_allow_network=recorded.sandbox_allow_network,
            runtime=recorded.runtime if given.runtime == "auto" else given.runtime,
            env_vars=recorded_variables(manifest, given.env_vars, directory),
        )
    else:
        options = given
        request = replace(request, ref=consent.benchmark, env_args=consent.env_args)
    return replace(request, workers=consent.workers, options=options), manifest


def _with_installed_files(manifest: dict[str, Any], files: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a plugin's run, as if it had been begun with the installed plugin.

    A plugin is a package like others: whether its newer version changes the result is asked too.
    """
    benchmark = manifest["benchmark"]
    if not benchmark["kind"] == files["kind"] == "plugin":
        return manifest
    return {**manifest, "benchmark": {**benchmark, "files": files["files"]}}


def _fill(row: Array, length: int) -> Array:
    """Repeat the last action, so that all rows have the same length."""
    return np.concatenate([row, np.repeat(row[-1:], length - len(row), axis=0)])
