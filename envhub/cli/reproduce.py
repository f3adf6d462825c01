"""`envhub reproduce`: whether what somebody claims of a policy is what its episodes give."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import TextWrapper

import click

from envhub.cli.options import (
    WholeNumber,
    debug_option,
    env_arg_option,
    excerpt,
    json_option,
    local_path,
    policy_options,
    policy_timeout_option,
    source_options,
)
from envhub.cli.progress import Watcher, make_watcher, signals_like_ctrl_c
from envhub.cli.show import show_run
from envhub.errors import ExitCode, UsageError, printable
from envhub.evaluation.recipe import Claim, Recipe
from envhub.evaluation.reproduce import (
    Difference,
    Foreseen,
    Judged,
    Reproducing,
    find_differences,
    find_obstacles,
    find_recipe,
    foresee,
    judge_recipe,
    make_request,
    shipped_recipes,
)
from envhub.evaluation.request import EvalRequest
from envhub.evaluation.run import continue_run, start_run
from envhub.options import Argument, Limits, PolicyOptions, SourceOptions
from envhub.results.reproduction import describe_confidence
from envhub.results.run import Run
from envhub.results.summary import to_json
from envhub.text import align, pluralize

_WIDTH = 80


@click.command("reproduce")
@click.argument("recipe", metavar="RECIPE|list")
@click.option("--dry-run", is_flag=True, help="Show what would be played, and what is missing.")
@click.option("--policy", metavar="P", help="The policy, where the recipe's is not to be used.")
@policy_options
@click.option("--benchmark", metavar="REF", help="The benchmark, instead of the recipe's.")
@click.option(
    "--suite", "suites", multiple=True, metavar="NAME", help="Only this suite. Repeatable."
)
@click.option("--episodes", type=WholeNumber(min=1), help="Episodes per task, not the recipe's.")
@click.option("--workers", type=WholeNumber(min=1, max=4096), help="Worker processes.")
@click.option(
    "--out", callback=local_path, help="Directory of the run; if it has begun, it is continued."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@source_options
@json_option
@env_arg_option
@policy_timeout_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    *,
    dry_run: bool,
    policy: PolicyOptions,
    benchmark: str | None,
    suites: tuple[str, ...],
    episodes: int | None,
    workers: int | None,
    out: Path | None,
    quiet: bool,
    as_json: bool,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Repeat a published evaluation, and compare its rates with those that are claimed.

    RECIPE is a TOML file, or a name that `envhub reproduce list` shows. It says what to play, and
    agrees to nothing: code that it names on this machine you name again, with --policy or
    --benchmark. The run is one like others; the verdicts follow its table: reproduced, lower,
    higher, undecided, not judged.

    \b
    Examples:
        envhub reproduce list
        envhub reproduce smolvla-libero --dry-run
        envhub reproduce ./claim.toml --out result
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if recipe == "list":
        _list(as_json=as_json)
        return
    asked = Reproducing(
        policy, benchmark, env_args, suites, episodes, workers,
        limits, out, options,
    )  # fmt: skip
    read = find_recipe(recipe)
    watcher = make_watcher(quiet=quiet or as_json)
    if dry_run:
        request = make_request(read, asked, recipe)
        foreseen = foresee(read, request, watcher.message)
        _show_foreseen(recipe, read, asked, request, foreseen, as_json=as_json)
        if foreseen.obstacles or foreseen.missing:
            context.exit(ExitCode.FOUND)
        return
    request = make_request(read, asked, recipe)
    if obstacles := find_obstacles(read, request):
        raise UsageError(f"{recipe} cannot be run: {'; '.join(obstacles)}.")
    for problem in filter(None, (claim.problem for claim in read.claims)):
        watcher.message(f"The recipe {problem}: it is not judged.")
    run = _play(context, recipe, request, watcher)
    judged = judge_recipe(read, run)
    packages = {**run.run_info.runtime.packages}
    if run.run_info.policy.runtime is not None:
        packages |= run.run_info.policy.runtime.packages
    differences = find_differences(read, asked, request, run.suites, packages)
    if as_json:
        click.echo(json.dumps(_content(recipe, read, run, judged, differences), indent=2))
    else:
        show_run(run, as_json=False)
        click.echo(f"\n{_wrap(read.title)}")
        for line in (*_lines(judged), *_lines_of_differences(differences)):
            click.echo(printable(line))
    verdicts = {each.verdict for each in judged} - {"not judged"}
    if verdicts != {"reproduced"} or any(record.status != "ok" for record in run.records()):
        context.exit(ExitCode.FOUND)


def _play(context: click.Context, recipe: str, request: EvalRequest, watcher: Watcher) -> Run:
    """Play the episodes that are missing; an interrupt ends the command with the line to type."""
    context.with_resource(signals_like_ctrl_c())
    run: Run | None = None
    try:
        if request.out is None:
            run = start_run(request, watcher)
        else:
            run = continue_run(request, request.out, watcher)
    except KeyboardInterrupt:
        watcher.interrupted = True
    finally:
        watcher.finish()
    if run is None or (watcher.interrupted and not run.complete):
        if watcher.run is not None:
            words = ["envhub", "reproduce", recipe, "--out", str(watcher.run.directory)]
            watcher.message(f"Interrupted. Continue with: {shlex.join(words)} and the same options")
        context.exit(ExitCode.INTERRUPTED)
    return run.keep_records()


def _list(*, as_json: bool) -> None:
    recipes = {name: find_recipe(name) for name in shipped_recipes()}
    if as_json:
        content = [{"name": name, **_about(recipe)} for name, recipe in recipes.items()]
        click.echo(json.dumps({"recipes": content}, indent=2))
    elif not recipes:
        click.echo("No installed package brings recipes. Those of LeRobot: plugins/lerobot.")
    else:
        rows = [[name, excerpt(recipe.title)] for name, recipe in recipes.items()]
        click.echo("\n".join(align(rows)))


def _about(recipe: Recipe) -> dict[str, object]:
    return {
        "title": recipe.title,
        "policy": recipe.policy_ref,
        "policy_args": recipe.policy_args,
        "benchmark": recipe.run.benchmark,
        "tested": recipe.limits.tested,
        "note": recipe.limits.envhub,
        "claims": [_claim(claim, recipe) for claim in recipe.claims],
    }


def _claim(claim: Claim, recipe: Recipe) -> dict[str, object]:
    tally = claim.tally
    return {
        "suite": claim.suite,
        "rate": claim.share,
        "successes": tally[0] if tally else claim.successes,
        "episodes": claim.episodes,
        "judged": claim.judged,
        "problem": claim.problem,
        "source": claim.source or recipe.source.url,
        "by": claim.by or recipe.source.by,
    }


def _show_foreseen(
    name: str,
    recipe: Recipe,
    asked: Reproducing,
    request: EvalRequest,
    foreseen: Foreseen,
    *,
    as_json: bool,
) -> None:
    differences = find_differences(recipe, asked, request, foreseen.tasks, foreseen.packages)
    if as_json:
        content = {
            "recipe": name,
            **_about(recipe),
            "suites": {suite: list(tasks) for suite, tasks in foreseen.tasks.items()},
            "episodes": request.episodes,
            "seed": request.seed,
            "env_args": request.env_args,
            "max_steps": request.max_steps,
            "differences": [asdict(each) for each in differences],
            "missing": foreseen.missing,
            "cannot_run": foreseen.obstacles,
        }
        click.echo(json.dumps(content, indent=2))
        return
    for line in (
        *_lines_of_plan(recipe, asked, request, foreseen),
        *_lines_of_differences(differences),
        *_bullets("Missing:", foreseen.missing),
        *_bullets("Cannot be run:", foreseen.obstacles),
    ):
        click.echo(printable(line))


def _lines_of_plan(
    recipe: Recipe, asked: Reproducing, request: EvalRequest, foreseen: Foreseen
) -> Iterator[str]:
    args = " ".join(f"{name}={_shown(value)}" for name, value in request.policy.args.items())
    env_args = " ".join(f"{name}={_shown(value)}" for name, value in request.env_args.items())
    each = pluralize(request.episodes or 0, "episode")
    plan = f"{each} per task"
    if foreseen.count:
        total = foreseen.count * (request.episodes or 0)
        plan = f"{pluralize(foreseen.count, 'task')}, {each} each: {total:,} in all"
    rows = [
        ("policy", f"{asked.policy.name or recipe.policy_ref} {args}"),
        ("benchmark", f"{request.ref} {env_args}"),
        ("suites", ", ".join(foreseen.tasks or request.suites)),
        ("plan", f"{plan}; seed {request.seed}"),
        ("horizon", "" if request.max_steps is None else f"{request.max_steps} steps"),
        *(("claim", f"{claim.suite} {_describe_claim(claim)}") for claim in recipe.claims),
        ("source", recipe.source.url or recipe.claims[0].source),
        ("by", recipe.source.by or recipe.claims[0].by),
        ("tested", recipe.limits.tested),
        ("note", recipe.limits.envhub),
    ]
    yield _wrap(recipe.title)
    for label, text in rows:
        if text.strip():
            yield _wrap(text.strip(), f"  {label:<10}", " " * 12)


def _describe_claim(claim: Claim, *, wrong: bool = True) -> str:
    tally = claim.tally
    of = f" of {pluralize(claim.episodes, 'episode')}" if claim.episodes else ""
    if tally is not None:
        of = f" ({tally[0]} of {pluralize(tally[1], 'episode')})"
    problem = f"; {claim.problem}" if claim.problem and wrong else ""
    return f"{claim.share:.1%}{of}{'' if claim.judged else ', not judged'}{problem}"


def _lines(judged: Sequence[Judged]) -> Iterator[str]:
    for each in judged:
        yield ""
        why = f" ({each.why})" if each.why else ""
        yield _wrap(f"{each.claim.suite}: {each.verdict}{why}", "", "  ")
        yield _wrap(_rates(each), "  ", "  ")
        if each.found is not None:
            found = each.found
            yield (
                f"  difference {100 * found.difference:+.1f} points "
                f"[{100 * found.ci_low:.1f}, {100 * found.ci_high:.1f}], "
                f"{describe_confidence(found)}"
            )
            if found.verdict == "undecided":
                yield _wrap(_what_would_decide(each), "  ", "  ")


def _rates(each: Judged) -> str:
    claimed, measured = f"claimed {_describe_claim(each.claim, wrong=False)}", "not measured"
    if each.measured is not None and each.measured.rate is not None:
        line = each.measured
        measured = f"measured {line.rate:.1%} ({line.successes} of {line.n})"
        if each.found is None:
            measured += f" [{line.ci_low:.1%}, {line.ci_high:.1%}]"
        if line.errors:
            measured += f", {pluralize(line.errors, 'episode')} lost to errors of the env"
    return f"{claimed}; {measured}"


def _what_would_decide(each: Judged) -> str:
    assert each.found is not None
    assert each.measured is not None
    found, tasks = each.found, each.measured.n_tasks
    if found.needed is None:
        return "No number of episodes would decide: the claim itself has too few."
    per_task = -(-found.needed // max(tasks, 1))
    rates = "equal" if found.needed_if_equal else "as measured"
    return (
        f"{per_task * tasks} episodes would decide if the rates are {rates}: --episodes {per_task}"
    )


def _lines_of_differences(differences: Sequence[Difference]) -> Iterator[str]:
    yield from _bullets("Differences from the claim's protocol:", list(map(str, differences)))


def _bullets(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"\n{title}"
        yield from (_wrap(excerpt(text, 600), "  ", "    ") for text in texts)


def _wrap(text: str, first: str = "", others: str = "") -> str:
    wrapper = TextWrapper(
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapper.fill(excerpt(text, 2000))


def _shown(value: Argument) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _content(
    name: str,
    recipe: Recipe,
    run: Run,
    judged: Sequence[Judged],
    differences: Sequence[Difference],
) -> dict[str, object]:
    return {
        "recipe": name,
        "title": recipe.title,
        "run": str(run.directory),
        "complete": run.complete,
        "protocol": run.run_info.protocol,
        "claims": [
            {
                **_claim(each.claim, recipe),
                "verdict": each.verdict,
                "why": each.why,
                "measured": None if each.measured is None else asdict(each.measured),
                "compared": None if each.found is None else _compared(each),
            }
            for each in judged
        ],
        "differences": [asdict(each) for each in differences],
        **to_json(run.summary()),
    }


def _compared(each: Judged) -> dict[str, object]:
    assert each.found is not None
    return {**asdict(each.found), "difference": each.found.difference}
