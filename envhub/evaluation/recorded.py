"""What was asked of a recorded run, as a request again: for resuming, replaying, verifying."""

import os
from collections.abc import Mapping
from dataclasses import replace as renamed
from pathlib import Path

from msgspec.structs import asdict, replace

from envhub.errors import RunDirectoryError
from envhub.evaluation.describe import hash_variables
from envhub.evaluation.perturbations import strengths_of
from envhub.evaluation.prepare import Prepared
from envhub.evaluation.request import EvalRequest
from envhub.options import Limits, RecordedRuntime, RuntimeChoice, SourceOptions
from envhub.policies.find import read_policy
from envhub.policies.kinds import OfFile, PolicyKind, Provided
from envhub.results import format1
from envhub.results.journal import check_directory, read_run
from envhub.results.run import Run
from envhub.results.schema import parse_run
from envhub.results.seal import is_sealed
from envhub.run_info import RunInfo, RuntimeInfo
from envhub.types import Batch


def read_begun(directory: Path, *, obey: str | None = None) -> Run:
    """Return a run that has begun, with its records, which are of its plan.

    Args:
        directory: Of the run.
        obey: Given if `run.json` decides what is executed; it must then carry this user's seal.
            The command in which the user says that instead.

    Raises:
        RunDirectoryError: The directory has no run, a damaged one, or one without the seal.
    """
    check_directory(directory)
    content = read_run(directory)
    if obey is not None:
        check_seal(content, directory, obey)
    return Run(directory, content, parse_run(content, directory)).keep_records()


def check_seal(content: Mapping[str, object], directory: Path, obey: str) -> None:
    """Refuse a `run.json` that is to decide what is executed, and that this user did not write.

    Args:
        content: The content of the file.
        directory: Of the run.
        obey: The command in which the user says what to execute instead.

    Raises:
        RunDirectoryError: It does not carry this user's seal.
    """
    if not is_sealed(content):
        raise RunDirectoryError(
            f"{directory}/run.json does not carry your seal: somebody else made it, or it was "
            f"changed, so it is not obeyed. Say yourself what to run: {obey}"
        )


def check_policy_is_named(info: RunInfo, directory: Path) -> None:
    """Refuse a run whose policy cannot be made again.

    Raises:
        RunDirectoryError: Its policy was an object.
    """
    if info.policy.kind == "object":
        raise RunDirectoryError(
            f"The policy of {directory} was a Python object; only the program that made it can "
            "resume the run."
        )


def request_of(info: RunInfo, directory: Path, *, trust_remote_code: bool) -> EvalRequest:
    """Return the request that a run was started with."""
    plan, benchmark, policy = info.plan, info.benchmark, info.policy
    return EvalRequest(
        ref=benchmark.ref,
        policy=_policy_of(info),
        policy_python=policy.runtime.path if policy.runtime else None,
        suites=tuple(plan.suites),
        tasks=tuple(f"{suite}/{task}" for suite, tasks in plan.suites.items() for task in tasks),
        episodes=plan.episodes,
        seed=plan.seed,
        seeding=plan.seeding,
        max_steps=plan.max_steps,
        instructions={task: tuple(texts) for task, texts in plan.instructions.items()},
        latency=plan.latency,
        perturb=strengths_of(plan.perturbations),
        env_args=benchmark.env_args,
        limits=Limits(**asdict(info.limits)),
        retries=info.retries,
        ignore_conventions=info.conventions.ignore,
        out=directory,
        shard=info.shard,
        options=SourceOptions(
            trust_remote_code=trust_remote_code,
            sandbox=info.protection.sandbox if benchmark.kind == "hub" else "auto",
            sandbox_allow_network=info.protection.network,
            runtime=_choice(info.runtime),
        ),
    )


def _policy_of(info: RunInfo) -> PolicyKind:
    """Return the policy, from the place where it was, and called what it was called."""
    recorded = info.policy
    place = _directory_of(recorded.directory)
    policy = read_policy(recorded.path or recorded.ref, recorded.args, place)
    if isinstance(policy, OfFile | Provided):
        return renamed(policy, ref=recorded.ref)
    return policy


def recorded_variables(info: RunInfo, given: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return the variables of `--env-var` that a run was begun with; their values are not in it.

    Raises:
        RunDirectoryError: A value is neither given nor among this process's variables.
    """
    names = info.benchmark.env_vars
    values = {**{name: os.environ[name] for name in names if name in os.environ}, **given}
    for name in names:
        if name not in values:
            raise RunDirectoryError(
                f"{directory} was begun with --env-var {name}, whose value is not recorded. Give "
                f"--env-var {name}=VALUE again."
            )
    return values


def with_variable_hashes(
    before: RunInfo, env_vars: Mapping[str, str], *, others: bool = False
) -> RunInfo:
    """Return what `run.json` says, with hashes of values that it says nothing of.

    Args:
        before: What it says.
        env_vars: The variables of `--env-var` now.
        others: Whether a value may be another one: nobody has the secrets of whoever began the run.
    """
    benchmark = before.benchmark
    if benchmark.env_vars != sorted(env_vars) or (benchmark.env_var_hashes and not others):
        return before
    return replace(before, benchmark=replace(benchmark, env_var_hashes=hash_variables(env_vars)))


def undeclared_batch(info: RunInfo) -> Batch:
    """Return the rows of a call in a run, of a policy that declares none.

    Runs that began before one row was the default have null; their records stay those of one run.
    """
    return "any" if info.policy.batch in (None, "any") else 1


def with_keys_of_today(before: RunInfo, prepared: Prepared) -> RunInfo:
    """Return what `run.json` says, with the keys that the same runtimes have in this format."""
    policy = prepared.policy_runtime
    return format1.with_keys_of_today(
        before, prepared.worker.spec.interpreter, policy.interpreter if policy else None
    )


def _choice(runtime: RuntimeInfo) -> RuntimeChoice:
    """Return the choice that leads to a recorded runtime."""
    if runtime.kind != "isolated" or runtime.key is None:
        return runtime.kind
    return RecordedRuntime(runtime.key, runtime.packages)


def _directory_of(recorded: str) -> Path:
    """Where the policy of a run ran, if that is still there."""
    begun = Path(recorded)
    return begun if begun.is_dir() else Path.cwd()
