"""`envhub verify`: replay recorded episodes and compare them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
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
from envhub.cli.output import echo_sentence
from envhub.cli.progress import make_watcher, signals_like_ctrl_c
from envhub.errors import ExitCode, UsageError, one_line
from envhub.evaluation.judge import ORDER, Verdict
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.verify import SAMPLE, Fresh, Verification, VerifyRequest, verify_run
from envhub.options import PolicyOptions
from envhub.policies.find import read_policy
from envhub.results import attestations
from envhub.results.reproduction import describe_confidence

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
@click.option(
    "--policy",
    is_flag=False,
    flag_value="",
    metavar="[P]",
    help="Let the policy choose the actions again, too: the one that you name, or the run's own.",
)
@policy_options
@click.option(
    "--fresh",
    type=WholeNumber(min=1),
    metavar="N",
    help="Let the policy play N new episodes per task, on seeds drawn here, and compare the rates.",
)
@click.option("--seed", type=WholeNumber(min=0), help="Chooses the episodes.  [default: a new one]")
@click.option(
    "--sign",
    callback=local_path,
    metavar="SSHKEY",
    help="Write what was found into RUN, signed by this SSH key.",
)
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
    policy: PolicyOptions,
    fresh: int | None,
    seed: int | None,
    sign: Path | None,
    options: RerunOptions,
    as_json: bool,
) -> None:
    """Replay recorded episodes of RUN and compare them; check its files first.

    First the files, without running anything. Then the recorded actions of a random sample are
    taken again on this machine, and every reward and flag is compared; so are those of the run's
    baselines. That shows what these actions score in this benchmark, not who chose them: --policy
    lets the policy choose again. Of a run of somebody else you name the policy, too, and it is
    compared with what the run says. --fresh finds what no file shows: the best of many seeds.

    \b
    Examples:
        envhub verify runs/my_env-20260101-120000
        envhub verify result --episodes all --policy
        envhub verify from_somebody --benchmark owner/repo@<commit> --trust-remote-code
        envhub verify from_somebody --benchmark ./my_env --policy ./policy.py --fresh 20
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    watcher = make_watcher(quiet=as_json)
    if not policy.name and (policy.args or policy.python is not None):
        raise UsageError("--policy-arg and --policy-python need --policy P: name the policy, too.")
    request = VerifyRequest(episodes, tasks, policy.name is not None, seed, fresh)
    if policy.name:
        named = read_policy(policy.name, policy.args)
        options = replace(options, policy=named, policy_python=policy.python)
    if sign is not None:
        attestations.fingerprint(sign)  # before what takes long
    context.with_resource(signals_like_ctrl_c())
    found = verify_run(directory, request, options, watcher)
    signed = None if sign is None else attestations.sign(directory, _say(found), sign)
    if signed is not None:
        watcher.message(f"Signed by {signed.key}, in {directory / attestations.FOLDER}.")
    if as_json:
        click.echo(json.dumps(_content(found), indent=2))
    else:
        for line in describe(found):
            echo_sentence(line)
    if not found.ok:
        context.exit(ExitCode.FOUND)


def _say(found: Verification) -> attestations.Said:
    """Return what is signed of a verification."""
    policy, fresh = found.policy, found.fresh
    same = None if policy is None else sum(each.verdict == "identical" for each in policy)
    compared = fresh.found if fresh is not None else None
    return attestations.say(
        found.directory,
        ok=found.ok,
        verdict=found.verdict,
        planned=found.planned,
        ended=found.ended,
        checked=found.checked,
        most_false=found.most_false,
        policy=None if policy is None else [same, len(policy)],
        fresh=fresh
        and {
            "episodes": fresh.episodes,
            "verdict": None if compared is None else compared.verdict,
        },
        python=found.python,
        packages=dict(found.packages),
    )


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
    if found.fresh is not None:
        yield _describe_fresh(found.fresh)
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


def _describe_fresh(fresh: Fresh) -> str:
    lost = f", {_count(fresh.lost)} lost to errors of the env" if fresh.lost else ""
    begin = f"{_count(fresh.episodes)} of each task on new seeds, from {fresh.seed}{lost}:"
    found = fresh.found
    if found is None:
        return f"{begin} nothing to compare, for no success is reported."
    said = {
        "reproduced": "the run's rate is reproduced",
        "lower": "the policy succeeds less often than the run says",
        "higher": "the policy succeeds more often than the run says",
        "undecided": "the rates do not contradict each other, and do not confirm it",
    }[found.verdict]
    interval = f"[{100 * found.ci_low:.1f}, {100 * found.ci_high:.1f}]"
    return (
        f"{begin} {said}. {found.measured:.1%} here, {found.claimed:.1%} in the run, difference "
        f"{100 * found.difference:+.1f} points {interval}, {describe_confidence(found)}."
    )


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
        "fresh": None if found.fresh is None else asdict(found.fresh),
        "baselines": {name: _content(baseline) for name, baseline in found.baselines.items()},
    }


def _episodes(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise UsageError(f"--episodes must be a number or all, found {text!r}.")
    return int(text)
