"""`envhub verify`: whether a run's episodes go again as they were recorded."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from envhub.cli.options import WholeNumber, debug_option, json_option, local_path, rerun_options
from envhub.cli.progress import make_watcher, signals_like_ctrl_c
from envhub.errors import ExitCode, UsageError, one_line
from envhub.evaluation.judge import ORDER, Verdict
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.verify import SAMPLE, Verification, VerifyRequest, verify_run

_SHOWN = 12
"""Episodes that are named, the worst first."""
_MOST_TEXT = 400
"""Characters of a reason; an env may say anything in its error."""


@click.command("verify")
@click.argument("directory", metavar="RUN", callback=local_path)
@click.option(
    "--episodes",
    default=str(SAMPLE),
    metavar="N|all",
    callback=lambda _ctx, _param, text: _episodes(text),
    help="Episodes to play again, chosen by chance; of those with errors as many more.",
)
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task. Repeatable.")
@click.option("--policy", is_flag=True, help="Let the run's policy choose the actions again, too.")
@click.option("--seed", type=WholeNumber(min=0), help="Chooses the episodes.  [default: a new one]")
@rerun_options
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
    options: RerunOptions,
    as_json: bool,
) -> None:
    """Check whether RUN's files agree with each other, and its episodes go again as recorded.

    First the files, without running anything. Then the recorded actions of a random sample are
    taken again on this machine, and every reward and flag is compared; so are those of the run's
    baselines. That shows what these actions score in this benchmark, not who chose them: --policy
    lets the policy choose again.

    \b
    Examples:
        envhub verify runs/my_env-20260101-120000
        envhub verify result --episodes all --policy
        envhub verify from_somebody --benchmark owner/repo@<commit> --trust-remote-code
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    watcher = make_watcher(quiet=as_json)
    request = VerifyRequest(episodes, tasks, policy, seed)
    context.with_resource(signals_like_ctrl_c())
    found = verify_run(directory, request, options, watcher)
    if as_json:
        click.echo(json.dumps(_content(found), indent=2))
    else:
        for line in describe(found):
            click.echo(line)
    if not found.ok:
        context.exit(ExitCode.FOUND)


def describe(found: Verification) -> list[str]:
    """Return the lines that say what was found, the worst first; text of the run ends no line."""
    lines = [*_describe(found)]
    for name, baseline in found.baselines.items():
        lines += [f"baseline {name}: {line}" for line in _describe(baseline)]
    return [one_line(line) for line in lines]


def _describe(found: Verification) -> Iterator[str]:
    yield from found.problems
    for title, verdicts in (("", found.episodes), ("by the policy: ", found.policy or ())):
        named = [each for each in verdicts if each.verdict not in ("identical", "not checked")]
        named.sort(key=lambda each: ORDER.index(each.verdict))
        yield from (f"{title}{_line(each)}" for each in named[:_SHOWN])
        if len(named) > _SHOWN:
            yield f"{title}and {len(named) - _SHOWN} more"
    counts = ", ".join(f"{n} {name}" for name in ORDER if (n := found.count(name)))
    recorded = f"incomplete, {len(found.episodes)} of {found.planned} episodes recorded; "
    yield f"{found.directory}: {'' if found.complete else recorded}{counts or 'nothing to check'}"
    yield from _limits(found)
    if found.policy is not None:
        same = sum(each.verdict == "identical" for each in found.policy)
        yield f"The policy chose the same again in {same} of {len(found.policy)} episodes."
    if found.machine:
        yield f"The machines differ: {'; '.join(found.machine)}."


def _limits(found: Verification) -> Iterator[str]:
    """Say what the result leaves open."""
    if found.most_false is not None:
        share = 100 * found.most_false / found.ended
        yield (
            f"{found.checked} of {found.ended} ended episodes were played again, chosen by seed "
            f"{found.sample_seed}: at most {found.most_false}/{found.ended} ({share:.1f} %) may be "
            "false, 95 %."
        )
    if found.ok and found.count("drifted"):
        yield "Of drifted episodes the success is confirmed, and their return is not."
    if found.lost:
        yield (
            f"{_count(found.lost)} not counted, for an error of the env; in {found.unconfirmed} "
            "the error did not occur again, or was not tried: they could hide failures."
        )
    if found.policy_errors:
        yield f"{_count(found.policy_errors)} failed by an error of the policy: not checked."
    if not found.complete:
        yield f"{_count(found.planned - len(found.episodes))} without a record could hide failures."


def _count(number: int) -> str:
    return f"{number} episode{'' if number == 1 else 's'}"


def _line(each: Verdict) -> str:
    reason = each.reason if len(each.reason) <= _MOST_TEXT else f"{each.reason[:_MOST_TEXT]}..."
    return f"{each.task}:{each.episode} {each.verdict}: {reason}"


def _content(found: Verification) -> dict[str, object]:
    return {
        "run": str(found.directory),
        "ok": found.ok,
        "verdict": found.verdict,
        "complete": found.complete,
        "planned": found.planned,
        "counts": {name: found.count(name) for name in ORDER},
        "ended": found.ended,
        "checked": found.checked,
        "most_false": found.most_false,
        "lost": found.lost,
        "unconfirmed": found.unconfirmed,
        "policy_errors": found.policy_errors,
        "problems": list(found.problems),
        "machine": list(found.machine),
        "sample_seed": found.sample_seed,
        "episodes": [asdict(each) for each in found.episodes],
        "policy": None if found.policy is None else [asdict(each) for each in found.policy],
        "baselines": {name: _content(baseline) for name, baseline in found.baselines.items()},
    }


def _episodes(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise UsageError(f"--episodes must be a number or all, found {text!r}.")
    return int(text)
