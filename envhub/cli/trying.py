"""`envhub try`: one random episode of a benchmark, shown."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from envhub.cli.options import (
    debug_option,
    env_arg_option,
    get_source,
    json_option,
    say,
    source_options,
    timeout_option,
)
from envhub.cli.picture import write_png
from envhub.envs.crew import Opening
from envhub.envs.vector import LazyVectorEnv
from envhub.errors import EnvHubError, UsageError, printable
from envhub.selection import select
from envhub.types import Limits, SourceOptions, Task, Value
from envhub.worker.describe import describe
from envhub.worker.first import Wanted


@click.command("try")
@click.argument("ref")
@click.option("--task", help="The task; the benchmark's first unless said.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the episode.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Stop after so many steps.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The picture; in a temporary place unless said."
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
    env_args: dict[str, Value],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Run one episode of REF with random actions, and keep a picture of its last frame.

    \b
    Examples:
        envhub try ./my_env
        envhub try ./my_env --task reach-red --out frame.png
    """  # noqa: D301 - click takes the backspace as "do not rewrap"
    if out is not None and out.suffix != ".png":
        raise UsageError(f"--out {out} must end in .png.")
    source = get_source(ref, options)
    wanted = Wanted(source, env_args, limits, options.runtime, options.locked, max_steps)
    described = describe(wanted, say=say, note=say)
    benchmark = described.benchmark
    suite, tasks = next(iter(select(benchmark, (), (task,) if task else ()).items()))
    chosen = tasks[0]
    opening = Opening(
        source, suite, chosen.name, env_args, limits, chosen.horizon, described.interpreter
    )
    with LazyVectorEnv(opening, 1) as env:
        facts = _play(env, chosen, seed, max_steps or chosen.horizon)
        frame = _frame(env)
    picture = _keep(frame, out, chosen.name) if frame is not None else None
    shown: dict[str, Any] = {"suite": suite, "task": chosen.name, "seed": seed, **facts}
    shown["picture"] = picture
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for key, value in shown.items():
        click.echo(printable(f"{key:<12} {'-' if value is None else value}"))


def _play(env: LazyVectorEnv, task: Task, seed: int, limit: int) -> dict[str, Any]:
    """Play one episode with random actions."""
    env.action_space.seed(seed)
    options = {"init_state": 0} if task.init_states else None
    observation, _ = env.reset(seed=seed, options=options)
    total, steps, end = 0.0, 0, "truncated at the horizon"
    success: bool | None = None
    while steps < limit:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        total, steps = total + float(reward[0]), steps + 1
        told = info.get("is_success", info.get("success"))
        if told is not None:
            success = bool(told[0]) or (success is True and task.success != "at_end")
        won = success is True and task.success == "once"
        if won or terminated[0] or truncated[0]:
            end = "success" if won else "terminated" if terminated[0] else "truncated"
            break
    return {
        "description": task.description,
        "steps": steps,
        "return": round(total, 4),
        "success": success,
        "end": end,
        "observation": _shapes(observation),
    }


def _shapes(observation: Any, path: str = "") -> str:
    if isinstance(observation, dict):
        parts = [_shapes(value, f"{path}/{key}") for key, value in observation.items()]
        return ", ".join(parts)
    if isinstance(observation, np.ndarray):
        shape = "x".join(map(str, observation.shape[1:])) or "1"
        return f"{path.strip('/') or 'array'} {shape} {observation.dtype}"
    return f"{path.strip('/')} {type(observation).__name__}"


def _frame(env: LazyVectorEnv) -> np.ndarray[Any, Any] | None:
    """What the env renders, if it renders pictures."""
    try:
        frame = env.render()[0]
    except (EnvHubError, AttributeError, NotImplementedError):
        return None
    good = isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] in (1, 3)
    return frame if good and frame.dtype == np.uint8 else None


def _keep(frame: np.ndarray[Any, Any], out: Path | None, name: str) -> str:
    path = out or Path(tempfile.mkdtemp(prefix="envhub-try-")) / f"{name}.png"
    try:
        write_png(path, frame)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}.") from exc
    return str(path)
