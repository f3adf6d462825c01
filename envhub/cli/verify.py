"""`envhub verify`: whether a run's episodes go again as they were recorded."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from envhub.cli.options import WholeNumber, again_options, debug_option, json_option, local_path
from envhub.cli.progress import make_watcher, signals_like_ctrl_c
from envhub.errors import ExitCode, UsageError, printable
from envhub.evaluation.again import Consent
from envhub.evaluation.verify import ORDER, SAMPLE, Question, Verdict, Verification, verify_run

_SHOWN = 12
"""Episodes that are named, the worst first."""


@click.command("verify")
@click.argument("directory", metavar="RUN", callback=local_path)
@click.option(
    "--episodes",
    default=str(SAMPLE),
    metavar="N|all",
    callback=lambda _ctx, _param, text: _episodes(text),
    help="Episodes to play again: the first of each task, and others by chance.",
)
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task. Repeatable.")
@click.option("--policy", is_flag=True, help="Let the run's policy choose the actions again, too.")
@click.option("--seed", type=WholeNumber(min=0), help="Chooses the episodes.  [default: a new one]")
@again_options
@json_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    directory: Path,
    *,
    episodes: int | None,
    tasks: tuple[str, ...],
    policy: bool,
    seed: int | None,
    consent: Consent,
    as_json: bool,
) -> None:
    """Check whether RUN's files agree with each other, and its episodes go again as recorded.

    First the files, without running anything. Then the recorded actions are taken again on this
    machine, and every reward and flag is compared. That shows what these actions score in this
    benchmark, not who chose them: --policy lets the policy choose again.

    \b
    Examples:
        envhub verify runs/my_env-20260101-120000
        envhub verify result --episodes all --policy
        envhub verify from_somebody --benchmark owner/repo@<commit> --trust-remote-code
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    watcher = make_watcher(quiet=as_json)
    question = Question(episodes, tasks, policy, seed)
    context.with_resource(signals_like_ctrl_c())
    found = verify_run(directory, question, consent, watcher)
    if as_json:
        click.echo(json.dumps(_content(found), indent=2))
    else:
        for line in describe(found):
            click.echo(printable(line))
    if not found.ok:
        context.exit(ExitCode.FOUND)


def describe(found: Verification) -> list[str]:
    """Return the lines that say what was found, the worst first."""
    lines = [*found.problems]
    for title, verdicts in (("", found.episodes), ("by the policy: ", found.policy or ())):
        named = [each for each in verdicts if each.verdict not in ("identical", "not checked")]
        named.sort(key=lambda each: ORDER.index(each.verdict))
        lines += [f"{title}{_line(each)}" for each in named[:_SHOWN]]
        if len(named) > _SHOWN:
            lines.append(f"{title}and {len(named) - _SHOWN} more")
    counts = ", ".join(f"{n} {name}" for name in ORDER if (n := found.count(name)))
    lines.append(f"{found.directory}: {counts or 'nothing to check'}")
    if found.policy is not None:
        same = sum(each.verdict == "identical" for each in found.policy)
        lines.append(f"The policy chose the same again in {same} of {len(found.policy)} episodes.")
    if found.machine:
        lines.append(f"The machines differ: {'; '.join(found.machine)}.")
    return lines


def _line(each: Verdict) -> str:
    return f"{each.task}:{each.episode} {each.verdict}: {each.reason}"


def _content(found: Verification) -> dict[str, object]:
    return {
        "run": str(found.directory),
        "ok": found.ok,
        "verdict": found.verdict,
        "counts": {name: found.count(name) for name in ORDER},
        "problems": list(found.problems),
        "machine": list(found.machine),
        "sample_seed": found.sample_seed,
        "episodes": [asdict(each) for each in found.episodes],
        "policy": None if found.policy is None else [asdict(each) for each in found.policy],
    }


def _episodes(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise UsageError(f"--episodes must be a number or all, found {text!r}.")
    return int(text)
