"""`envhub eval`: evaluate a policy on a benchmark."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, get_args

import click

from envhub.arguments import MAX_PROCESSES, MAX_WORKERS
from envhub.cli.options import (
    GroupedCommand,
    RenamedOption,
    WholeNumber,
    debug_option,
    env_arg_option,
    instructions_option,
    json_option,
    local_path,
    policy_options,
    policy_timeout_option,
    require_option,
    runs_directory,
    source_options,
)
from envhub.cli.perturbations import parse_perturb, show_perturbations
from envhub.cli.progress import Watcher, make_watcher, signals_like_ctrl_c
from envhub.cli.show import check_requirements, show_run
from envhub.config import read_setting
from envhub.declarations import MAX_HORIZON
from envhub.errors import ExitCode, UsageError
from envhub.evaluation.breaker import MAX_ERRORS
from envhub.evaluation.latency import LatencyRequest, parse_latency
from envhub.evaluation.perturbations import Strength
from envhub.evaluation.request import EvalRequest, Player
from envhub.evaluation.run import continue_run, resume_run, start_run, tell_end
from envhub.evaluation.shard import parse_shard
from envhub.options import PolicyOptions, Processes, SourceOptions
from envhub.plugins import Plugins
from envhub.policies.find import read_policy
from envhub.results.baselines import parse_baselines
from envhub.results.require import Requirement
from envhub.results.run import Run
from envhub.seeding import Seeding


class _Command(GroupedCommand):
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Options that matter first": ("--policy", "--task", "--episodes", "--out", "--resume"),
        "What is played": (
            *("--suite", "--seed", "--seeding", "--max-steps", "--instructions", "--env-arg"),
            *("--latency", "--perturb", "--shard", "--baselines"),
        ),
        "The policy": (
            *("--policy-arg", "--policy-python", "--policy-processes", "--ignore-conventions"),
        ),
        "The run": (
            *("--workers", "--cluster", "--continue", "--retries", "--max-errors", "--timeout"),
            "--dry-run",
        ),
        "The result": ("--watch", "--log", "--video", "--require", "--json", "--quiet"),
        "The benchmark's code": (
            *("--trust-remote-code", "--allow-unpinned", "--private", "--locked", "--sandbox"),
            *("--sandbox-allow-network", "--runtime", "--env-var"),
        ),
    }


@click.command("eval", cls=_Command)
@click.argument("ref", required=False)
@click.option(
    "--policy",
    show_default="random",
    help="random, zero, a policy of the benchmark, ./policy.py[:name] ...",
)
@policy_options
@click.option(
    "--ignore-conventions",
    is_flag=True,
    help="Run a policy whose conventions differ from the benchmark's, and record that.",
)
@click.option(
    "--policy-processes",
    metavar="N|auto",
    show_default="1; as the run, with --resume",
    callback=lambda _ctx, _param, text: None if text is None else _processes(text),
    help="Processes of the policy, which the workers are spread over; auto: one per visible GPU.",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME,...",
    show_default="the benchmark's",
    help="Suites to evaluate; all: every suite.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME,...",
    show_default="all of the suites",
    help="Tasks to evaluate, from any suite.",
)
@click.option(
    "--episodes",
    type=WholeNumber(min=1),
    show_default="the benchmark's",
    help="Episodes per task.",
)
@click.option(
    "--seed",
    type=WholeNumber(min=0),
    default=0,
    help="Seed of the run, which those of the episodes are made of.",
)
@click.option(
    "--seeding",
    type=click.Choice(get_args(Seeding)),
    show_default="task; as the run, with --continue",
    help="task: each task has seeds of its own; shared: episode k has seed --seed + k in every "
    "task, as in other loops.",
)
@click.option(
    "--max-steps",
    type=WholeNumber(min=1, max=MAX_HORIZON),
    show_default="each task's own",
    help="Horizon of every task.",
)
@instructions_option
@click.option(
    "--latency",
    "latencies",
    metavar="TIME,...|RUN",
    callback=lambda _ctx, _param, text: () if text is None else parse_latency(text),
    help="Let the simulated world go on while the policy thinks: 120ms, or as long as in a run. "
    "Several times are played one after the other and compared. mode=wait holds the robot still, "
    "mode=overlap takes the last actions of the chunk before.",
)
@click.option(
    "--perturb",
    "strengths",
    multiple=True,
    metavar="NAME=STRENGTH,...|list",
    callback=lambda _ctx, _param, texts: parse_perturb(texts),
    help="Change the benchmark: camera=0.05. Several strengths are played one after the other and "
    "compared. list: show the perturbations that are installed. Repeatable.",
)
@click.option(
    "--workers",
    default=lambda: str(read_setting("workers").value),
    show_default="auto",
    metavar="N|auto",
    callback=lambda _ctx, _param, text: _workers(text),
    help="Worker processes; auto: as many as cores and free memory allow; 0: none, run everything "
    "in this process.",
)
@click.option(
    "--retries", type=WholeNumber(min=0), default=1, help="Retries of an episode that failed."
)
@click.option(
    "--max-errors",
    type=WholeNumber(min=1),
    default=MAX_ERRORS,
    help="Stop after so many equal errors in a row, if no episode was played to its end yet.",
)
@click.option(
    "--out",
    callback=local_path,
    show_default="runs/NAME-TIME",
    help="New directory for the run.",
)
@click.option(
    "--continue", "continuing", is_flag=True, help="Continue the run in --out, or start it there."
)
@click.option("--resume", callback=local_path, metavar="DIR", help="Resume a run.")
@click.option(
    "--shard",
    metavar="I/N|auto/N",
    callback=lambda _ctx, _param, text: None if text is None else parse_shard(text, os.environ),
    help="Play the I-th of N shares of the episodes, for `envhub merge`; auto: as SLURM's or "
    "Kubernetes' variables say.",
)
@click.option(
    "--cluster",
    metavar="auto|HOST:PORT",
    help="Play on the nodes of a Ray cluster; --workers is the number for each node.",
)
@click.option(
    "--baselines",
    "--controls",
    cls=RenamedOption,
    metavar="NAME,...",
    callback=lambda _ctx, _param, text: () if text is None else parse_baselines(text),
    help="Also play zero, random or policies of the benchmark, such as expert, in the same "
    "episodes.",
)
@click.option(
    "--video",
    "videos",
    type=WholeNumber(min=1),
    metavar="N",
    help="Draw at most N episodes at the end, failures first and of each task in turn, and write "
    "the report.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what an experiment would take, and what is missing; play two probes per benchmark "
    "that was never played.",
)
@require_option
@click.option(
    "--watch", is_flag=True, help="Serve a page on this machine that grows while the run is played."
)
@click.option(
    "--log",
    "loggers",
    multiple=True,
    metavar="NAME",
    default=lambda: read_setting("log").value,
    show_default="none",
    help="Log to tensorboard, wandb, mlflow, trackio or another installed logger; none: to none. "
    "Repeatable.",
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
    ref: str | None,
    *,
    resume: Path | None,
    continuing: bool,
    workers: int | None,
    quiet: bool,
    as_json: bool,
    dry_run: bool,
    watch: bool,
    loggers: Sequence[str],
    videos: int | None,
    requirements: Sequence[Requirement],
    options: SourceOptions,
    latencies: tuple[LatencyRequest, ...],
    strengths: Mapping[str, Sequence[Strength]] | None,
    cluster: str | None,
    **request_options: Any,
) -> None:
    """Evaluate a policy on the benchmark REF, or play the experiment of a file REF.toml.

    Every episode is recorded as soon as it ends. --resume continues an interrupted run, which then
    has the same records as an uninterrupted one.

    \b
    Examples:
        envhub eval ./my_env --policy ./policy.py --episodes 50
        envhub eval owner/repo@<commit> --policy ./policy.py --trust-remote-code
        envhub eval ./my_env --task reach-red,reach-blue --workers 4 --json
        envhub eval --resume runs/my_env-20260101-120000
        envhub eval ./my_env --policy ./policy.py --out result --continue
        envhub eval ./my_env --policy ./policy.py --shard 3/16 --out parts/3
        envhub eval ./my_env --policy ./policy.py --cluster auto
        envhub eval ./my_env --policy ./policy.py --latency 0,50,100ms
        envhub eval ./my_env --policy ./policy.py --perturb camera=0,0.02,0.05
        envhub eval experiment.toml --workers 8
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if strengths is None:
        show_perturbations(as_json=as_json)
        return
    observers = Plugins()
    observers.load_loggers(name for name in loggers if name != "none")
    if _is_experiment(ref, resume):
        _refuse_cluster(cluster)
        from envhub.cli.experiment import evaluate_experiment  # what few runs need comes late

        context.with_resource(signals_like_ctrl_c())
        evaluate_experiment(
            context, ref, resume, workers=workers, options=options, observers=observers
        )
        return
    _refuse_dry_run(dry_run)
    watcher = make_watcher(quiet=quiet)
    player = None if cluster is None else _find_player(cluster)
    _prepare_pictures(context, watcher)
    try:
        if resume is not None:
            _refuse_changes(context, ref)
            run = resume_run(
                resume,
                workers,
                watcher,
                trust_remote_code=options.trust_remote_code,
                max_errors=request_options["max_errors"],
                env_vars=options.env_vars,
                policy_processes=request_options["policy_processes"],
                observers=observers,
                videos_follow=videos is not None,
                player=player,
            )
            _tell_end_at_last(context, run, observers, watcher)
        else:
            request = _request(
                ref,
                request_options.pop("policy"),
                watcher,
                requirements=tuple(requirements),
                workers=workers,
                options=options,
                latency=latencies[0] if latencies else None,
                perturb={name: values[0] for name, values in strengths.items()},
                runs=runs_directory(),
                observers=observers,
                videos_follow=videos is not None,
                player=player,
                **request_options,
            )
            if any(len(values) > 1 for values in (latencies, *strengths.values())):
                _sweep(context, request, latencies, strengths, continuing=continuing)
                return
            run = _start(request, watcher, continuing=continuing)
            _tell_end_at_last(context, run, observers, watcher)
            if request.baselines and not watcher.interrupted:
                from envhub.evaluation.baselines import play_baselines

                watcher.finish()
                play_baselines(request, run, lambda name: _watch_baseline(name, quiet=quiet))
    except KeyboardInterrupt:
        watcher.finish()
        _show_resume(watcher)
        context.exit(ExitCode.INTERRUPTED)
    finally:
        watcher.finish()
    show_run(run, as_json=as_json)
    if watcher.interrupted and not run.complete:
        _show_resume(watcher)
        context.exit(ExitCode.INTERRUPTED)
    if videos is not None:
        from envhub.cli.filming import film
        from envhub.evaluation.rerun import RerunOptions
        from envhub.results.report.page import report
        from envhub.results.videos import first_episodes

        again = RerunOptions("replay", ref, request_options["env_args"], workers, options)
        try:
            film(run, first_episodes(run, videos), again, quiet=quiet or as_json)
        except KeyboardInterrupt:
            context.exit(ExitCode.INTERRUPTED)
        watcher.message(f"Report: {report(run).resolve()}")
    check_requirements(requirements, run)
    if any(record.status != "ok" for record in run.records()):
        context.exit(ExitCode.FOUND)


def _is_experiment(ref: str | None, resume: Path | None) -> bool:
    if resume is None:
        return ref is not None and ref.endswith(".toml")
    from envhub.results.experiment import is_experiment

    return is_experiment(resume)


def _sweep(
    context: click.Context,
    request: EvalRequest,
    latencies: Sequence[LatencyRequest],
    strengths: Mapping[str, Sequence[Strength]],
    *,
    continuing: bool,
) -> None:
    """Play several values of a condition; each is a run, and their table is the result."""
    from envhub.cli.sweep import play_sweep, show_sweep, sweep_of

    sweep = sweep_of(request, latencies, strengths)
    quiet, as_json = context.params["quiet"], context.params["as_json"]
    if context.params["videos"] is not None or request.requirements:
        option = "--require" if request.requirements else "--video"
        raise UsageError(f"{option} goes with one --{sweep.condition.across}; name one.")
    begun: list[Watcher] = []

    def watch(said: str) -> Watcher:
        for before in begun:
            before.finish()
        begun.append(make_watcher(quiet=quiet))
        begun[-1].progress(said)
        return begun[-1]

    try:
        runs = play_sweep(request, sweep, watch, continuing=continuing)
    finally:
        for watcher in begun:
            watcher.finish()
    if not runs[-1].complete or len(runs) < len(sweep.requests):
        place = runs[-1].directory.parent
        begun[-1].message(
            f"Interrupted. Type the command again with --out {place} --continue to go on."
        )
        context.exit(ExitCode.INTERRUPTED)
    show_sweep(runs, sweep.condition, as_json=as_json)
    if any(record.status != "ok" for run in runs for record in run.records()):
        context.exit(ExitCode.FOUND)


def _start(request: EvalRequest, watcher: Watcher, *, continuing: bool) -> Run:
    if not continuing:
        return start_run(request, watcher)
    if request.out is None:
        raise UsageError("--continue needs the run's directory: --out DIR.")
    return continue_run(request, request.out, watcher)


def _request(
    ref: str | None,
    policy: PolicyOptions,
    watcher: Watcher,
    *,
    policy_processes: Processes | None,
    **options: Any,
) -> EvalRequest:
    """Make the request of a command line, whose options are fields of the request."""
    if ref is None:
        raise UsageError("Name a benchmark, or resume a run: envhub eval --resume DIR.")
    if policy.name is None:
        watcher.message("No --policy: evaluating random actions.")
    return EvalRequest(
        ref=ref,
        policy=read_policy("random" if policy.name is None else policy.name, policy.args),
        policy_python=policy.python,
        policy_processes=policy_processes or 1,
        **options,
    )


def _find_player(cluster: str) -> Player:
    from envhub.cli.cluster import find_player

    return find_player(cluster)


def _refuse_cluster(cluster: str | None) -> None:
    if cluster is not None:
        raise UsageError("--cluster is for one evaluation; the cells of an experiment play here.")


def _refuse_dry_run(dry_run: bool) -> None:  # noqa: FBT001
    if dry_run:
        raise UsageError("--dry-run is for experiments: envhub eval FILE.toml --dry-run.")


def _tell_end_at_last(
    context: click.Context, run: Run, observers: Plugins, watcher: Watcher
) -> None:
    """Have observers told of the end once videos are drawn; without --video they know already."""
    if context.params["videos"] is not None and run.complete:
        context.call_on_close(lambda: tell_end(observers, run, run.summary(), watcher))


def _prepare_pictures(context: click.Context, watcher: Watcher) -> None:
    """Before what takes long, look for the encoder; have a page served once the run begins."""
    if context.params["videos"] is not None:
        from envhub.results.pictures import check_encoder

        check_encoder()
    context.with_resource(signals_like_ctrl_c())
    if not context.params["watch"]:
        return
    from envhub.cli.live import page_beside

    pages = context.with_resource(ExitStack())
    watcher.on_start = lambda place: pages.enter_context(page_beside(place, watcher.message))


def _watch_baseline(name: str, *, quiet: bool) -> Watcher:
    watcher = make_watcher(quiet=quiet)
    watcher.progress(f"Playing {name} in the same episodes, as a baseline.")
    return watcher


def _refuse_changes(context: click.Context, ref: str | None) -> None:
    """Refuse options that --resume cannot change: all but speed, output, consent and secrets."""
    changeable = {
        *("resume", "workers", "max_errors", "quiet", "as_json", "ref", "trust_remote_code"),
        *("requirements", "videos", "policy_processes", "watch", "loggers", "cluster"),
        "env_vars",
    }
    for name in context.params:
        origin = context.get_parameter_source(name)
        if name not in changeable and origin is not click.core.ParameterSource.DEFAULT:
            option = next(p.opts[0] for p in context.command.params if p.name == name)
            raise UsageError(f"{option} cannot be changed: --resume takes it from the run.")
    if ref is not None:
        raise UsageError(f"--resume takes the benchmark from the run: leave {ref} out.")


def _show_resume(watcher: Watcher) -> None:
    if watcher.run is None:
        return
    line = f"envhub eval --resume {watcher.run.directory}"
    if watcher.run.run_info.seal is None:
        line = f"envhub eval REF --policy P --out {watcher.run.directory} --continue"
    watcher.message(f"Interrupted. Resume with: {line}")


def _workers(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) > MAX_WORKERS:
        limits = f"a number up to {MAX_WORKERS}"
        raise UsageError(f"--workers must be {limits} or auto, found {text!r}.")
    return int(text)


def _processes(text: str) -> Processes:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PROCESSES:
        limits = f"a number from 1 to {MAX_PROCESSES}"
        raise UsageError(f"--policy-processes must be {limits} or auto, found {text!r}.")
    return int(text)
