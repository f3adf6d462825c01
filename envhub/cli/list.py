"""`envhub list`: what is installed, or what a benchmark holds."""

import json

import click

from envhub.cli.options import (
    debug_option,
    env_arg_option,
    excerpt,
    get_source,
    json_option,
    message,
    one_line,
    source_options,
    timeout_option,
)
from envhub.plugins import Installed, installed
from envhub.types import Benchmark, Limits, SourceOptions, Value, WorkerSpec


@click.command("list")
@click.argument("ref", required=False)
@source_options
@json_option
@env_arg_option
@timeout_option
@debug_option
def command(
    ref: str | None,
    *,
    as_json: bool,
    env_args: dict[str, Value],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """List the installed benchmarks, or the suites and tasks of REF.

    Without REF nothing is imported. With REF its code is loaded in a process of its own.

    \b
    Examples:
        envhub list
        envhub list ./my_env
    """  # noqa: D301 - click takes the backspace as "do not rewrap"
    if ref is None:
        found = installed()
        click.echo(_installed_json(found) if as_json else _installed_text(found))
        return
    source = get_source(ref, options)
    # Heavy, so imported after all that can be wrong with REF.
    from envhub.host.loading import describe

    described = describe(
        WorkerSpec(source, env_args, limits),
        options.runtime,
        locked=options.locked,
        message=message,
        progress=message,
    )
    benchmark = described.benchmark
    click.echo(_tasks_json(benchmark) if as_json else _tasks_text(benchmark))


def _installed_json(found: tuple[Installed, ...]) -> str:
    rows = [{"name": p.name, "distribution": p.distribution, "version": p.version} for p in found]
    return json.dumps({"benchmarks": rows}, indent=2)


def _installed_text(found: tuple[Installed, ...]) -> str:
    if not found:
        return "No benchmark is installed. A local one needs no installing: envhub list ./DIRECTORY"
    width = max(len(plugin.name) for plugin in found)
    return "\n".join(one_line(f"{p.name:<{width}}  {p.distribution} {p.version}") for p in found)


def _tasks_json(benchmark: Benchmark) -> str:
    suites = {name: [task.name for task in tasks] for name, tasks in benchmark.suites.items()}
    return json.dumps({"benchmark": benchmark.name, "suites": suites}, indent=2)


def _tasks_text(benchmark: Benchmark) -> str:
    lines: list[str] = []
    for suite, tasks in benchmark.suites.items():
        width = max(len(task.name) for task in tasks)
        lines.append(click.style(suite, bold=True))
        lines.extend(f"  {task.name:<{width}}  {excerpt(task.description)}" for task in tasks)
    return "\n".join(lines)
