"""`envhub try`: run one random episode of a benchmark."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from envhub.cli.options import (
    COLUMNS,
    SPACE_COLUMNS,
    TERMINAL,
    WholeNumber,
    debug_option,
    env_arg_option,
    excerpt,
    get_source,
    json_option,
    local_path,
    message,
    source_options,
    timeout_option,
)
from envhub.cli.remarks import undescribed_tasks
from envhub.declarations import MAX_HORIZON, Task
from envhub.errors import EnvHubError, UsageError, WorkerError
from envhub.evaluation.outcome import Outcome
from envhub.evaluation.plan import limited, select
from envhub.host.loading import Description, LazySpec, describe
from envhub.options import Argument, Limits, SourceOptions
from envhub.results.pictures import frame_problem, write_png
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv
from envhub.wire.step_results import SUCCESSES, describe_unread, success_of

_STEPS = 1000
"""The steps of an episode whose env has no horizon."""


@click.command("try")
@click.argument("ref")
@click.option("--task", show_default="the first", help="Task to run.")
@click.option("--seed", type=WholeNumber(min=0), default=0, help="Seed of the episode.")
@click.option(
    "--max-steps",
    type=WholeNumber(min=1, max=MAX_HORIZON),
    show_default="the task's horizon, or 1000 if it has none",
    help="Stop after this many steps.",
)
@click.option(
    "--out",
    callback=local_path,
    show_default="in a temporary directory",
    help="PNG file for the picture.",
)
@source_options
@json_option
@env_arg_option
@timeout_option
@debug_option
def command(
    ref: str,
    *,
    task: str | None,
    seed: int,
    max_steps: int | None,
    out: Path | None,
    as_json: bool,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Run one episode of REF with random actions and save a picture of its last frame.

    The env is reset twice with the same seed before, to see whether its episodes repeat.

    \b
    Examples:
        envhub try ./my_env
        envhub try ./my_env --task reach-red --out frame.png
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if out is not None and out.suffix != ".png":
        raise UsageError(f"--out {out} must end in .png.")
    source, env_vars = get_source(ref, options), options.env_vars
    spec = WorkerSpec(source, env_args, limits, max_steps, env_vars=env_vars)
    described = describe(spec, options.runtime, locked=options.locked, reporter=TERMINAL)
    suite, chosen = _choose(described, task, max_steps)
    lazy = LazySpec(described, options.runtime)
    with LazyVectorEnv(lazy, suite, chosen.name, 1) as env:
        facts, unread = _play(env, chosen, seed)
        frame = _frame(env)
    shown: dict[str, Any] = {"suite": suite, "task": chosen.name, "seed": seed, **facts}
    if isinstance(frame, str):
        shown |= {"picture": None, "no_picture": frame}
    else:
        shown["picture"] = _save(frame, out, chosen.name)
    warnings = undescribed_tasks([(chosen.name, shown["description"])], after_reset=True)
    if unread:
        warnings.append(f"Task {chosen.name} reports no success: {unread}")
    if as_json:
        click.echo(json.dumps({**shown, "warnings": warnings}, indent=2))
        return
    for key, value in shown.items():
        text = "-" if value is None else str(value)
        long = {"observation": SPACE_COLUMNS, "no_picture": SPACE_COLUMNS, "picture": len(text)}
        click.echo(f"{key:<12} {excerpt(text, long.get(key, COLUMNS))}")
    for warning in warnings:
        message(warning)


def _choose(described: Description, name: str | None, steps: int | None) -> tuple[str, Task]:
    """Return the task that was asked for, else the first that can be made, with its suite."""
    selected = select(described.benchmark, (), () if name is None else (name,))
    every = [(suite, task) for suite, tasks in selected.items() for task in tasks]
    made = [(suite, task) for suite, task in every if task.name not in described.broken]
    suite, task = (made or every)[0]
    has_horizon = described.horizon(task) is not None
    return suite, limited(task, steps or (None if has_horizon else _STEPS))


def _play(env: LazyVectorEnv, task: Task, seed: int) -> tuple[dict[str, Any], str]:
    """Play one episode with random actions; it ends as in an evaluation.

    Returns:
        The facts to show, and what of its info may mean success and is not read.
    """
    env.action_space.seed(seed)
    options = {"init_state": 0} if task.init_states else None
    before, _ = env.reset(seed=seed, options=options)
    observation, _ = env.reset(seed=seed, options=options)
    different = _find_difference(before, observation)
    description = env.call("task_description")[0]
    outcome, told = Outcome(task), set[str]()
    while not outcome.ended:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        reported = {key: info[key][0] for key in SUCCESSES if key in info}
        told.update(info)
        outcome.add(
            [float(reward[0])],
            [success_of(reported)],
            terminated=bool(terminated[0]),
            truncated=bool(truncated[0]),
        )
    at_horizon = outcome.end == "truncated" and not outcome.truncated
    facts = {
        "description": description,
        "steps": outcome.steps,
        "return": round(outcome.return_, 4),
        "success": outcome.success,
        "end": "truncated at the horizon" if at_horizon else outcome.end,
        "repeats": "yes" if different is None else _no(seed, different),
        "observation": _shapes(observation),
    }
    unread = [name for name in told if not name.startswith("_")]  # gymnasium's masks
    return facts, describe_unread(unread) if outcome.success is None else ""


def _no(seed: int, leaf: str) -> str:
    where = f" in {leaf}" if leaf else ""
    return f"no: two resets with seed {seed} differ{where}; draw random numbers from self.np_random"


def _find_difference(one: Any, other: Any, path: str = "") -> str | None:
    """Return the path of the first leaf in which two observations differ; None if none does."""
    if isinstance(one, dict):
        found = (_find_difference(one[key], other[key], f"{path}/{key}") for key in one)
        return next((leaf for leaf in found if leaf is not None), None)
    if isinstance(one, tuple):
        pairs = enumerate(zip(one, other, strict=True))
        found = (_find_difference(a, b, f"{path}/{index}") for index, (a, b) in pairs)
        return next((leaf for leaf in found if leaf is not None), None)
    numbers = isinstance(one, np.ndarray) and one.dtype.kind == "f"
    same = np.array_equal(one, other, equal_nan=numbers)
    return None if same else path.strip("/")


def _shapes(observation: Any, path: str = "") -> str:
    if isinstance(observation, dict):
        parts = [_shapes(value, f"{path}/{key}") for key, value in observation.items()]
        return ", ".join(parts)
    if isinstance(observation, np.ndarray):
        shape = "x".join(map(str, observation.shape[1:])) or "1"
        return f"{path.strip('/') or 'array'} {shape} {observation.dtype}"
    return f"{path.strip('/')} {type(observation).__name__}"


def _frame(env: LazyVectorEnv) -> np.ndarray[Any, Any] | str:
    """Render the env; return its frame, or the reason why there is no picture."""
    try:
        frame = env.render()[0]
    except (EnvHubError, AttributeError, NotImplementedError) as exc:
        error = exc if isinstance(exc, WorkerError) else exc.__cause__
        if not isinstance(error, WorkerError):
            return f"render: {excerpt(str(exc))}"
        return " ".join(filter(None, (f"render: {excerpt(error.problem)}.", error.hint)))
    return frame_problem(frame, env.render_mode) or frame


def _save(frame: np.ndarray[Any, Any], out: Path | None, name: str) -> str:
    path = out or Path(tempfile.mkdtemp(prefix="envhub-try-")) / f"{name}.png"
    try:
        write_png(path, frame)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}.") from exc
    return str(path)
