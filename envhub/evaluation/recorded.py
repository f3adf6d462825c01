"""What was asked of a recorded run, as a request again: for resuming, replaying, verifying."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envhub.errors import RunDirectoryError
from envhub.evaluation.request import EvalRequest
from envhub.options import Limits, RecordedRuntime, RuntimeChoice, SourceOptions
from envhub.results.journal import PlannedEpisodes, check_directory, read_records, read_run
from envhub.results.schema import check_shape
from envhub.results.seal import is_sealed


def read_begun(directory: Path, *, obey: str | None = None) -> dict[str, Any]:
    """Return what `run.json` says of a run that has begun, whose records are of its plan.

    Args:
        directory: Of the run.
        obey: Given if `run.json` decides what is executed; it must then carry this user's seal.
            The command in which the user says that instead.

    Raises:
        RunDirectoryError: The directory has no run, a damaged one, or one without the seal.
    """
    check_directory(directory)
    manifest = read_run(directory)
    if obey is not None and not is_sealed(manifest):
        raise RunDirectoryError(
            f"{directory}/run.json does not carry your seal: somebody else made it, or it was "
            f"changed, so it is not obeyed. Say yourself what to run: {obey}"
        )
    check_shape(manifest, directory)
    read_records(directory, PlannedEpisodes(manifest["plan"]))
    return manifest


def check_policy_is_named(manifest: Mapping[str, Any], directory: Path) -> None:
    """Refuse a run whose policy cannot be made again.

    Raises:
        RunDirectoryError: Its policy was an object.
    """
    if manifest["policy"]["kind"] == "object":
        raise RunDirectoryError(
            f"The policy of {directory} was a Python object; only the program that made it can "
            "resume the run."
        )


def request_of(
    manifest: Mapping[str, Any], directory: Path, *, trust_remote_code: bool
) -> EvalRequest:
    """Return the request that a run was started with."""
    plan, benchmark, policy = manifest["plan"], manifest["benchmark"], manifest["policy"]
    protection = manifest["protection"]
    return EvalRequest(
        ref=benchmark["ref"],
        policy=policy["path"] or policy["ref"],
        policy_python=(policy.get("runtime") or {}).get("path"),
        suites=tuple(plan["suites"]),
        tasks=tuple(task for tasks in plan["suites"].values() for task in tasks),
        episodes=plan["episodes"],
        seed=plan["seed"],
        max_steps=plan["max_steps"],
        env_args=benchmark["env_args"],
        policy_args=policy["args"],
        limits=Limits(**manifest["limits"]),
        retries=manifest["retries"],
        ignore_conventions=manifest.get("conventions", {}).get("ignore", False),
        out=directory,
        directory=_directory_of(policy),
        options=SourceOptions(
            trust_remote_code=trust_remote_code,
            sandbox=protection["sandbox"] if benchmark["kind"] == "hub" else "auto",
            sandbox_allow_network=protection["network"],
            runtime=_choice(manifest["runtime"]),
        ),
    )


def reference_of(manifest: Mapping[str, Any]) -> str:
    """Return the reference by which the run's benchmark is found from any directory."""
    benchmark = manifest["benchmark"]
    return str(benchmark["path"] if benchmark["kind"] == "local" else benchmark["ref"])


def recorded_variables(
    manifest: Mapping[str, Any], given: Mapping[str, str], directory: Path
) -> dict[str, str]:
    """Return the variables of `--env-var` that a run was begun with; their values are not in it.

    Raises:
        RunDirectoryError: A value is neither given nor among this process's variables.
    """
    names = manifest["benchmark"].get("env_vars", [])
    values = {**{name: os.environ[name] for name in names if name in os.environ}, **given}
    for name in names:
        if name not in values:
            raise RunDirectoryError(
                f"{directory} was begun with --env-var {name}, whose value is not recorded. Give "
                f"--env-var {name}=VALUE again."
            )
    return values


def _choice(runtime: Mapping[str, Any]) -> RuntimeChoice:
    """The choice that leads to a recorded runtime."""
    if runtime["kind"] != "isolated":
        return str(runtime["kind"])
    return RecordedRuntime(runtime["key"], runtime["packages"])


def _directory_of(policy: Mapping[str, Any]) -> Path:
    """Where the policy of a run ran, if that is still there."""
    begun = Path(policy["directory"])
    return begun if begun.is_dir() else Path.cwd()
