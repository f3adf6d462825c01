"""`envhub doctor`: check this machine, and show for each problem the command that fixes it."""

import json
from importlib import util

import click

from envhub.cli.cluster import show_nodes
from envhub.cli.doctor_checks import Check, Finding, Status, all_checks
from envhub.config import config_path, read_file
from envhub.errors import ExitCode, UsageError, printable
from envhub.policies.providers import PLUGINS, missing_plugin
from envhub.text import align

_Results = list[tuple[Check, Finding]]

_SERVERS = "envhub-servers"

_COLORS = {Status.OK: "green", Status.MISSING: "yellow", Status.PROBLEM: "red"}


@click.command("doctor")
@click.option(
    "--policy", metavar="URL", help="Check a policy server instead, such as ws://127.0.0.1:8000."
)
@click.option(
    "--cluster", metavar="auto|HOST:PORT", help="Check the nodes of a Ray cluster instead."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context, *, policy: str | None, cluster: str | None, as_json: bool
) -> None:
    """Check this machine and show how to fix problems.

    GL backends and sandboxes are tried out, each in its own process. A missing optional part is
    listed with the features that need it. The exit code is 1 only if a required check failed.

    \b
    Examples:
        envhub doctor
        envhub doctor --policy ws://127.0.0.1:8000
        envhub doctor --cluster auto
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if policy is not None:
        _show_server(policy, as_json=as_json)
        return
    if cluster is not None:
        show_nodes(context, cluster, as_json=as_json)
        return
    read_file(config_path())  # of a broken one nothing else is worth saying
    results = [(check, check.run()) for check in all_checks()]
    click.echo(_as_json(results) if as_json else _as_text(results))
    if _failed_required(results):
        context.exit(ExitCode.FOUND)


def _show_server(policy: str, *, as_json: bool) -> None:
    """Connect to a policy server, and show what it says."""
    scheme = policy.partition(":")[0]
    if PLUGINS.get(scheme) != _SERVERS:
        known = ", ".join(name for name, plugin in PLUGINS.items() if plugin == _SERVERS)
        raise UsageError(f"--policy {policy!r} is no policy server. The schemes are {known}.")
    if util.find_spec("envhub_servers") is None:
        raise missing_plugin(f"{scheme}:", _SERVERS)
    from envhub_servers.probe import probe_server

    found = {"policy": policy, **probe_server(policy)}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for key, value in found.items():
        click.echo(printable(f"{key:<22} {value}"))


def _failed_required(results: _Results) -> list[str]:
    return [c.name for c, finding in results if c.required and finding.status is not Status.OK]


def _as_json(results: _Results) -> str:
    checks = [
        {
            "name": check.name,
            "status": finding.status,
            "required": check.required,
            "found": finding.found,
            "needed_for": check.needed_for,
            "fix": finding.fix,
            "notes": finding.notes,
        }
        for check, finding in results
    ]
    return json.dumps({"ok": not _failed_required(results), "checks": checks}, indent=2)


def _as_text(results: _Results) -> str:
    rows: list[tuple[str, str, str]] = []
    for check, finding in results:
        rows.append((f"{finding.status:<7}", check.name, finding.found))
        rows += [("", "", remark) for remark in _remarks(check, finding)]
    lines = [_color(line) for line in align(rows)]
    return "\n".join([*lines, "", _conclusion(results)])


def _color(line: str) -> str:
    status = line[:7].rstrip()
    return click.style(line[:7], fg=_COLORS[Status(status)]) + line[7:] if status else line


def _remarks(check: Check, finding: Finding) -> list[str]:
    lines: list[str] = []
    if finding.status is not Status.OK:
        necessity = "required" if check.required else "optional"
        lines.append(f"{necessity}, for {check.needed_for}")
    lines += finding.notes
    if finding.fix:
        lines.append("fix: " + click.style(finding.fix, bold=True))
    return lines


def _conclusion(results: _Results) -> str:
    required = _failed_required(results)
    if required:
        return f"Required checks failed: {', '.join(required)}."
    optional = sum(finding.status is not Status.OK for _, finding in results)
    if not optional:
        return "All checks passed."
    ones = "one" if optional == 1 else "ones"
    return f"All required checks passed; {optional} optional {ones} did not."
