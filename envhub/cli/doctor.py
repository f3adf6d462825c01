"""`envhub doctor`: what this machine has, and for each problem the command that fixes it."""

import json

import click

from envhub.cli.doctor_checks import Check, Finding, Status, all_checks
from envhub.errors import ExitCode

_Results = list[tuple[Check, Finding]]

_COLORS = {Status.OK: "green", Status.MISSING: "yellow", Status.PROBLEM: "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Say what this machine has, and what to type where something is wrong.

    GL backends and the sandbox are really tried, in processes of their own. What is optional is
    noted with what it is needed for; the exit code is 1 only if something required is wrong.

    \b
    Example:
        envhub doctor
    """  # noqa: D301 - click takes the backspace as "do not rewrap"
    results = [(check, check.run()) for check in all_checks()]
    click.echo(_as_json(results) if as_json else _as_text(results))
    if _broken(results):
        context.exit(ExitCode.FOUND)


def _broken(results: _Results) -> list[str]:
    return [c.name for c, seen in results if c.required and seen.status is not Status.OK]


def _as_json(results: _Results) -> str:
    checks = [
        {
            "name": check.name,
            "status": seen.status,
            "required": check.required,
            "found": seen.found,
            "needed_for": check.needed_for,
            "fix": seen.fix,
        }
        for check, seen in results
    ]
    return json.dumps({"ok": not _broken(results), "checks": checks}, indent=2)


def _as_text(results: _Results) -> str:
    width = max(len(check.name) for check, _ in results)
    lines = [line for check, seen in results for line in _lines(check, seen, width)]
    return "\n".join([*lines, "", _verdict(results)])


def _lines(check: Check, seen: Finding, width: int) -> list[str]:
    mark = click.style(f"{seen.status:<7}", fg=_COLORS[seen.status])
    lines = [f"{mark}  {check.name:<{width}}  {seen.found}"]
    if seen.status is not Status.OK:
        kind = "required" if check.required else "optional"
        lines.append(f"{kind}, for {check.needed_for}")
    if seen.fix:
        lines.append("fix: " + click.style(seen.fix, bold=True))
    return [lines[0], *(" " * (width + 11) + line for line in lines[1:])]


def _verdict(results: _Results) -> str:
    broken = _broken(results)
    if broken:
        return f"Required and not in order: {', '.join(broken)}."
    noted = sum(seen.status is not Status.OK for _, seen in results)
    return f"Everything required is in order; optional things noted above: {noted}."
