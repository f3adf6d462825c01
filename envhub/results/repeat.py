"""What plays a run's question again: a command, and the file of an experiment. Pure."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from envhub.errors import UsageError
from envhub.options import Argument
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
    perturb: dict[str, Argument] = {name: p.argument for name, p in plan.perturbations.items()}
    for option, args in (
        ("--perturb", perturb),
        ("--env-arg", info.benchmark.env_args),
        ("--policy-arg", policy.args),
    ):
        for name, value in args.items():
            words += [option, f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)


def write_toml(info: RunInfo) -> str:
    """Return the text of an experiment with one cell: what a run was asked.

    Args:
        info: The content of its `run.json`.

    Raises:
        UsageError: Its policy was an object of a program.
    """
    if info.policy.kind == "object":
        raise UsageError("The policy of this run was a Python object, which no file can name.")
    plan, policy = info.plan, info.policy
    asked: dict[str, Any] = {"ref": info.benchmark.ref, "suites": list(plan.suites)}
    asked["tasks"] = [f"{suite}/{task}" for suite, tasks in plan.suites.items() for task in tasks]
    asked["episodes"] = plan.episodes
    if plan.seeding != DEFAULT_SEEDING:
        asked["seeding"] = plan.seeding
    if plan.latency is not None:
        asked["latency"] = plan.latency.argument
    if plan.perturbations:
        asked["perturb"] = {name: each.strength for name, each in plan.perturbations.items()}
    if plan.max_steps is not None:
        asked["max_steps"] = plan.max_steps
    if plan.instructions:
        asked["instructions"] = plan.instructions
    if info.benchmark.env_args:
        asked["env_args"] = info.benchmark.env_args
    of_policy: dict[str, Any] = {"policy": policy.ref}
    if policy.args:
        of_policy["policy_args"] = policy.args
    if policy.runtime is not None and policy.runtime.path:
        of_policy["policy_python"] = policy.runtime.path
    if info.conventions.ignore:
        of_policy["ignore_conventions"] = True
    name = _name(policy.ref, "policy"), _name(info.benchmark.name, "benchmark")
    lines = [
        f"# protocol {info.protocol}",
        f"seeds = [{plan.seed}]",
        "",
        *_table(f"policies.{_key(name[0])}", of_policy),
        "",
        *_table(f"benchmarks.{_key(name[1])}", asked),
    ]
    return "\n".join(lines)


def _table(name: str, content: Mapping[str, Any]) -> list[str]:
    return [f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in content.items())]


def _name(text: str, otherwise: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-./")
    return plain[-60:].strip("-.") or otherwise


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _text(text)


def _text(text: str) -> str:
    """Return text as a basic string, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case Mapping():
            inside = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
            return f"{{{inside}}}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case None:
            raise UsageError("An argument of this run is null, which TOML cannot say.")
    return json.dumps(value)
