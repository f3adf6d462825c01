"""`envhub explain`: say why two results differ."""

import json
from dataclasses import replace
from pathlib import Path

import click

from envhub.cli.options import (
    WholeNumber,
    debug_option,
    json_option,
    local_path,
    policy_options,
    rerun_options,
)
from envhub.cli.output import columns
from envhub.cli.progress import make_watcher, signals_like_ctrl_c
from envhub.errors import UsageError, one_line, printable
from envhub.evaluation.explain import explain_runs
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.sample import SAMPLE, ExplainRequest, parse_versions
from envhub.options import PolicyOptions
from envhub.policies.find import read_policy
from envhub.results.explanation import Explanation
from envhub.results.report.explanation import check_place, write_explanation
from envhub.text import fold

_SHOWN = 6
"""Lines of evidence per layer; the page has all of them."""
_MOST_TEXT = 400
"""Characters of a line: an env may say anything in its error."""


@click.command("explain")
@click.argument("directory", metavar="A", callback=local_path)
@click.argument("other", metavar="[B]", required=False, callback=local_path)
@click.option(
    "--versions",
    multiple=True,
    metavar="NAME=VERSION,...",
    help="Instead of B: A's benchmark with these packages in other versions. Repeatable.",
)
@click.option(
    "--episodes",
    type=WholeNumber(min=1, max=500),
    default=SAMPLE,
    metavar="N",
    help="Episodes to play again, spread over the tasks.",
)
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task. Repeatable.")
@click.option(
    "--policy",
    metavar="P",
    help="The policy of the run that does not carry your seal; for yours, the run says it.",
)
@policy_options
@click.option(
    "--out",
    callback=local_path,
    metavar="DIR",
    help="Where to write the page with its pictures.  [default: explained/A-B]",
)
@rerun_options
@json_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    directory: Path,
    other: Path | None,
    *,
    versions: tuple[str, ...],
    episodes: int,
    tasks: tuple[str, ...],
    policy: PolicyOptions,
    out: Path | None,
    options: RerunOptions,
    as_json: bool,
) -> None:
    """Say why the results of two runs differ: A and B, or A and A in other versions.

    It walks down the layers: the question, the versions, the first observations, the physics (A's
    recorded actions under B's versions, and the other way), the policy, and luck. Each says: same,
    same to rounding, differs, or not checked and why. The first that differs has the verdict.

    \b
    Examples:
        envhub explain runs/theirs runs/mine
        envhub explain runs/mine --versions mujoco=3.3.7
        envhub explain runs/theirs runs/mine --benchmark owner/repo@<commit> --trust-remote-code
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    asked = parse_versions(versions)
    if (other is None) == (not asked):
        raise UsageError("Name two runs, A and B, or one and --versions NAME=VERSION.")
    if policy.name is None and (policy.args or policy.python is not None):
        raise UsageError("--policy-arg and --policy-python need --policy P: name the policy, too.")
    if policy.name is not None:
        named = read_policy(policy.name, policy.args)
        options = replace(options, policy=named, policy_python=policy.python)
    place = out or _place(directory, other, asked)
    check_place(place)
    watcher = make_watcher(quiet=as_json)
    context.with_resource(signals_like_ctrl_c())
    request = ExplainRequest(asked, episodes, tasks)
    found = explain_runs(directory, other, request, options, watcher)
    page = write_explanation(found, place)
    if as_json:
        click.echo(json.dumps({**found.to_json(), "page": str(page)}, indent=2))
        return
    for line in describe(found, columns()):
        click.echo(line)
    click.echo(printable(str(page)))


def describe(found: Explanation, width: int) -> list[str]:
    """Return the lines that a terminal shows: the verdict, then a layer after the other."""
    lines = [*fold(_short(found.verdict), width), ""]
    for number, layer in enumerate(found.layers, 1):
        lines += fold(_short(f"{number} {layer.name}: {layer.text}"), width, "    ")
        for detail in layer.details[:_SHOWN]:
            lines += [f"    {each}" for each in fold(_short(detail), width - 4, "  ")]
        if len(layer.details) > _SHOWN:
            lines.append(f"    and {len(layer.details) - _SHOWN} more")
        if layer.command is not None and layer.finding in ("not checked", "differs"):
            lines.append(f"    {one_line(layer.command)}")
    return lines


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]}..."


def _place(a: Path, b: Path | None, versions: dict[str, str]) -> Path:
    second = b.resolve().name if b else "-".join(f"{n}-{v}" for n, v in versions.items())
    return Path("explained") / f"{a.resolve().name}-{second}"
