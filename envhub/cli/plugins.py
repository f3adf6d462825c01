"""`envhub list --check`, and its name of before, `envhub plugins`: which plugins can be used."""

import json

import click

from envhub.cli.options import debug_option, json_option, one_line, timeout_option
from envhub.discovery import Installed, find, installed
from envhub.errors import EnvHubError, ExitCode
from envhub.host.loading import describe
from envhub.options import Limits
from envhub.text import align
from envhub.types import PluginSource, WorkerSpec


@click.command("plugins", hidden=True)
@json_option
@timeout_option
@debug_option
@click.pass_context
def command(context: click.Context, *, as_json: bool, limits: Limits) -> None:
    """Show the installed plugins and whether each can be used.

    Each plugin is loaded in its own process. The exit code is 1 if any cannot be used.

    \b
    Examples, by its name of today:
        envhub list --check
        ENVHUB_PLUGINS=metaworld envhub list --check --json
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    show_checked(context, limits, as_json=as_json)


def show_checked(context: click.Context, limits: Limits, *, as_json: bool) -> None:
    """Load each installed plugin in its own process, and show which can be used."""
    checked = [(plugin, _problem(plugin, limits)) for plugin in installed()]
    click.echo(_as_json(checked) if as_json else _as_text(checked))
    if any(problem for _, problem in checked):
        context.exit(ExitCode.FOUND)


def _problem(plugin: Installed, limits: Limits) -> str | None:
    try:
        find(plugin.name)
        describe(WorkerSpec(PluginSource(plugin.name), {}, limits, alone=True), "here")
    except EnvHubError as exc:
        return str(exc)
    return None


def _as_json(checked: list[tuple[Installed, str | None]]) -> str:
    rows = [
        {
            "name": plugin.name,
            "module": plugin.module,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "problem": problem,
        }
        for plugin, problem in checked
    ]
    return json.dumps({"plugins": rows}, indent=2)


def _as_text(checked: list[tuple[Installed, str | None]]) -> str:
    if not checked:
        return "No plugins are installed. Local benchmarks need none: envhub info ./DIRECTORY"
    rows = [(p.name, f"{p.distribution} {p.version}", p.module) for p, _ in checked]
    indent = " " * (max(len(p.name) for p, _ in checked) + 11)
    lines = []
    for line, (_, problem) in zip(align(rows), checked, strict=True):
        status = click.style("problem", fg="red") if problem else click.style("ok     ", fg="green")
        lines.append(f"{status}  {one_line(line)}")
        lines.extend(f"{indent}{one_line(text)}" for text in (problem or "").splitlines())
    return "\n".join(lines)
