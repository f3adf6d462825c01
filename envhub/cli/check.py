"""`envhub check`: does a benchmark keep its contract?"""

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envhub.cli.options import (
    COLUMNS,
    SPACE_COLUMNS,
    debug_option,
    env_arg_option,
    excerpt,
    json_option,
    local_path,
    message,
    source_options,
    timeout_option,
)
from envhub.errors import ExitCode
from envhub.options import Argument, Limits, SourceOptions
from envhub.text import align, pluralize

if TYPE_CHECKING:
    from envhub.check import Report, Result

_COLORS = {"passed": "green", "failed": "red", "skipped": "yellow"}


@click.command("check")
@click.argument("ref")
@click.option("--quick", is_flag=True, help="Play less, and only the first task unless named.")
@click.option("--suite", "suites", multiple=True, metavar="NAME,...", help="Suites. Repeatable.")
@click.option("--task", "tasks", multiple=True, metavar="NAME,...", help="Tasks. Repeatable.")
@click.option(
    "--workers",
    type=click.Choice(["auto", "0"]),
    default="auto",
    help="0: everything in this process, for breakpoint() and debuggers.",
)
@click.option(
    "--card",
    metavar="FILE",
    callback=local_path,
    help="Write badge and figures between the two comments of a card.",
)
@source_options
@json_option
@env_arg_option
@timeout_option
@debug_option
def command(
    ref: str,
    *,
    quick: bool,
    suites: tuple[str, ...],
    tasks: tuple[str, ...],
    workers: str,
    card: Path | None,
    as_json: bool,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Check whether the benchmark REF keeps its contract.

    Its envs are made, played, compared and closed in workers. Each check that fails says what was
    seen, why it matters and how to fix it. The exit code is 1 if a check of severity error failed.

    \b
    Examples:
        envhub check ./my_env --quick
        envhub check ./my_env --task reach-red --card README.md
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    from envhub.check import check_benchmark  # commands must start fast
    from envhub.check.settings import keywords_of

    report = check_benchmark(
        ref,
        suites=suites,
        tasks=tasks,
        quick=quick,
        workers=0 if workers == "0" else None,
        env_args=env_args,
        limits=limits,
        message=message,
        progress=_show_progress,
        **keywords_of(options),
    )
    if card is not None:
        from envhub.check.report import fill_card

        fill_card(card, report)
    click.echo(json.dumps(report.to_json(), indent=2) if as_json else _as_text(report))
    if not report.ok:
        raise click.exceptions.Exit(ExitCode.FOUND)


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        message(text)


def _as_text(report: "Report") -> str:
    from envhub.check import CHECKS

    rows = [(f"{report.status(c.name):<7}", c.name, _remark(report, c.name)) for c in CHECKS]
    aligned = dict(zip((check.name for check in CHECKS), align(rows), strict=True))
    lines: list[str] = []
    for group, checks in groupby(CHECKS, key=lambda check: check.group):
        lines.append(click.style(group, bold=True))
        for check in checks:
            status = report.status(check.name)
            line = aligned[check.name]
            lines.append(f"  {click.style(line[:7], fg=_COLORS[status])}{line[7:]}")
    for result in report.failures:
        lines += ["", *_explained(result)]
    return "\n".join([*lines, "", *_figures(report), report.badge, "", _conclusion(report)])


def _remark(report: "Report", name: str) -> str:
    """What a row says beside the status: the tasks that failed, or why the check was skipped."""
    results, status = report.result(name), report.status(name)
    if status == "failed":
        failed = [result.task for result in results if result.status == "failed"]
        return excerpt(f"{results[0].check.severity}: {', '.join(failed)}")
    return excerpt(results[0].seen) if status == "skipped" and results else ""


def _explained(result: "Result") -> list[str]:
    check = result.check
    title = f"{check.severity} {check.name}" + (f", task {result.task}" if result.task else "")
    return [
        click.style(title, bold=True),
        f"  rule  {check.rule}",
        f"  seen  {excerpt(result.seen, SPACE_COLUMNS)}",
        f"  why   {check.why}",
        f"  fix   {check.fix}",
    ]


def _figures(report: "Report") -> list[str]:
    from envhub.check.report import figure_table

    titles, rows = figure_table(report)
    if not titles:
        return []
    table = [["task", *titles], *([excerpt(row[0], COLUMNS // 4), *row[1:]] for row in rows)]
    lines = align(table)
    if report.memory_mb:
        lines.append(f"Declare memory_mb={report.memory_mb}; it is {report.declared_mb}.")
    return [*lines, ""]


def _conclusion(report: "Report") -> str:
    passed, skipped = report.count("passed"), report.count("skipped")
    names = {result.check.name: result.check.severity for result in report.failures}
    errors = sum(severity == "error" for severity in names.values())
    counts = f"{pluralize(passed, 'check')} passed, {skipped} do not apply or could not run"
    if not names:
        return f"{counts}."
    failed = f"{pluralize(errors, 'error')} and {pluralize(len(names) - errors, 'warning')}"
    return f"{counts}, {failed}: {', '.join(names)}."
