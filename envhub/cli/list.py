"""`envhub list`: list the installed benchmarks, or the tasks of one."""

import json
from typing import TYPE_CHECKING

import click

from envhub.cli.options import (
    TERMINAL,
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
from envhub.discovery import Installed, installed
from envhub.errors import UsageError
from envhub.options import Argument, Limits, SourceOptions
from envhub.text import align

if TYPE_CHECKING:
    from envhub.declarations import Benchmark


@click.command("list")
@click.argument("ref", required=False)
@source_options
@click.option("--check", is_flag=True, help="Load each installed benchmark; show which cannot be.")
@json_option
@env_arg_option
@timeout_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    ref: str | None,
    *,
    check: bool,
    as_json: bool,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """List the installed benchmarks, or the suites and tasks of REF.

    Without REF, nothing is imported. With REF, its code is loaded in its own process; with --check,
    that of each installed benchmark. The exit code is 1 if one cannot be used.

    \b
    Examples:
        envhub list
        envhub list ./my_env
        envhub list --check
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if check:
        from envhub.cli.plugins import show_checked  # slow to import

        if ref is not None:
            raise UsageError("--check takes no REF: envhub check REF tests a benchmark.")
        show_checked(context, limits, as_json=as_json)
        return
    if ref is None:
        plugins = installed()
        click.echo(_installed_json(plugins) if as_json else _installed_text(plugins))
        return
    source = get_source(ref, options)
    # Slow to import, so only after REF has been checked.
    from envhub.cli.remarks import broken_tasks
    from envhub.host.loading import describe
    from envhub.types import WorkerSpec

    described = describe(
        WorkerSpec(source, env_args, limits, env_vars=options.env_vars),
        options.runtime,
        locked=options.locked,
        reporter=TERMINAL,
    )
    benchmark = described.benchmark
    click.echo(_tasks_json(benchmark) if as_json else _tasks_text(benchmark))
    for remark in broken_tasks(described):
        message(remark)


def _installed_json(plugins: tuple[Installed, ...]) -> str:
    rows = [{"name": p.name, "distribution": p.distribution, "version": p.version} for p in plugins]
    return json.dumps({"benchmarks": rows}, indent=2)


def _installed_text(plugins: tuple[Installed, ...]) -> str:
    if not plugins:
        return (
            "No benchmarks are installed. Local ones need no installation: envhub list ./DIRECTORY"
        )
    rows = [(plugin.name, f"{plugin.distribution} {plugin.version}") for plugin in plugins]
    return "\n".join(map(one_line, align(rows)))


def _tasks_json(benchmark: "Benchmark") -> str:
    suites = {name: [task.name for task in tasks] for name, tasks in benchmark.suites.items()}
    return json.dumps({"benchmark": benchmark.name, "suites": suites}, indent=2)


def _tasks_text(benchmark: "Benchmark") -> str:
    lines: list[str] = []
    for suite, tasks in benchmark.suites.items():
        rows = [("", task.name, excerpt(task.description)) for task in tasks]
        lines += [click.style(suite, bold=True), *align(rows)]
    return "\n".join(lines)
