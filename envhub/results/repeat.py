"""The command that plays a run's question again. Pure."""

import json
import shlex

from envhub.run_info import RunInfo
from envhub.seeding import DEFAULT_SEEDING


def repeat_command(info: RunInfo) -> str | None:
    """Return the command that repeats a run; None if its policy was an object.

    Args:
        info: The content of `run.json`.
    """
    policy, plan = info.policy, info.plan
    if policy.kind == "object":
        return None
    words = ["envhub", "eval", info.benchmark.ref, "--policy", policy.ref]
    if policy.runtime is not None and policy.runtime.path:
        words += ["--policy-python", policy.runtime.path]
    if info.conventions.ignore:
        words.append("--ignore-conventions")
    for suite in plan.suites:
        words += ["--suite", suite]
    if plan.part:
        chosen = (f"{suite}/{task}" for suite, tasks in plan.suites.items() for task in tasks)
        words += ["--task", ",".join(chosen)]
    words += ["--episodes", str(plan.episodes), "--seed", str(plan.seed)]
    if plan.seeding != DEFAULT_SEEDING:
        words += ["--seeding", plan.seeding]
    if plan.max_steps is not None:
        words += ["--max-steps", str(plan.max_steps)]
    if plan.latency is not None:
        words += ["--latency", plan.latency.argument]
    if plan.instructions:
        words += ["--instructions", "FILE"]  # its content is in run.json
    for option, args in (("--env-arg", info.benchmark.env_args), ("--policy-arg", policy.args)):
        for name, value in args.items():
            words += [option, f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)
