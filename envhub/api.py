"""The functions that `import envhub` offers to programs."""

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, Unpack, get_args

from gymnasium.vector import AutoresetMode

from envhub.arguments import (
    MAX_WORKERS,
    HubConfig,
    as_config,
    check_choice,
    check_flag,
    check_function,
    check_instructions,
    check_limits,
    check_names,
    check_path,
    check_policy,
    check_processes,
    check_reference,
    check_runtime,
    check_values,
    check_whole,
    check_workers,
)
from envhub.declarations import MAX_HORIZON
from envhub.errors import EnvHubError, PluginError, RunDirectoryError, UnknownName, UsageError
from envhub.evaluation.baselines import play_baselines
from envhub.evaluation.breaker import MAX_ERRORS
from envhub.evaluation.experiment import Played, new_directory, play_experiment
from envhub.evaluation.explain import explain_runs
from envhub.evaluation.latency import LatencyRequest, parse_latency
from envhub.evaluation.perturbations import check_perturbations
from envhub.evaluation.plan import Plan, select
from envhub.evaluation.replay import Replay
from envhub.evaluation.request import EvalRequest, Playing
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.run import continue_run, start_run
from envhub.evaluation.sample import ExplainRequest, parse_versions
from envhub.evaluation.shard import parse_shard
from envhub.evaluation.verify import SAMPLE, Verification, VerifyRequest, verify_run
from envhub.evaluation.videos import replay_episode
from envhub.files import fetching_to
from envhub.host.loading import LazySpec, describe
from envhub.options import (
    Argument,
    Limits,
    Processes,
    SandboxChoice,
    SourceKeywords,
    SourceOptions,
)
from envhub.plugins import Plugins
from envhub.policies.find import read_policy
from envhub.records import EpisodeRecord
from envhub.results.experiment import Cell, read_experiment_file
from envhub.results.explanation import Explanation
from envhub.results.run import Run, open_run
from envhub.results.videos import find_episode
from envhub.sandbox.variables import chosen_variables
from envhub.seeding import Seeding
from envhub.sources.find import find_source
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv
from envhub.vector.rules import Rules
from envhub.wire.policy_contract import Policy
from envhub.wire.tasks import Tasks
from envhub.wire.values import Array


def make_env(
    ref: str | Path | HubConfig,
    n_envs: int = 1,
    use_async_envs: bool | None = None,  # noqa: FBT001 - as LeRobot's programs call it
    hub_cache_dir: str | Path | None = None,
    *,
    suites: Iterable[str] = (),
    tasks: Iterable[str] = (),
    env_args: Mapping[str, Argument] | None = None,
    cfg: object = None,
    max_steps: int | None = None,
    instructions: Mapping[str, str] | None = None,
    end_at_success: bool = True,
    needs: Iterable[str] | None = None,
    format: Literal["raw", "lerobot"] = "raw",  # noqa: A002 - as policies say it
    limits: Limits | None = None,
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    copy: bool = True,
    **source: Unpack[SourceKeywords],
) -> dict[str, dict[str, LazyVectorEnv]]:
    """Make the environments of a benchmark, whose envs run in processes of their own.

    One process reads what the benchmark declares, and ends. The processes of an environment start
    when it is first used.

    Args:
        ref: An installed benchmark's name, a local `./directory` or `./file.py`, or
            `owner/repo@<commit>:env.py` on the Hub; or a config of LeRobot's whose `hub_path` names
            it, which is the `cfg` too.
        n_envs: The number of envs in each vector environment.
        use_async_envs: Ignored; accepted for code that calls other libraries' `make_env`. Envs
            always run in parallel.
        hub_cache_dir: Where files from the Hub are kept; None: in EnvHub's cache.
        suites: Names of suites; none: the benchmark's default; `all`: every suite.
        tasks: Names of tasks; none: all tasks of the suites.
        env_args: Arguments of the benchmark's function that makes envs.
        cfg: The argument `cfg` of the file's `make_env`: a mapping, a dataclass or a namespace.
        max_steps: A horizon that replaces the tasks' own.
        instructions: Texts that `task_description` is instead of the benchmark's, by task.
        end_at_success: Whether the first success ends an episode where it does in `evaluate`: in
            tasks that declare it so.
        needs: The parts of observations that you read, such as `agent_pos`; what nobody reads is
            not drawn. None: all.
        format: `lerobot`: observations as the benchmark converts them to LeRobot's names, if it
            does.
        limits: Seconds after which a process that does not answer is ended.
        autoreset_mode: As in Gymnasium.
        copy: Whether to copy observations out of the shared memory. If not, they change with the
            next step.
        **source: How to get the benchmark, and where to run it: `trust_remote_code`, `sandbox`,
            `runtime` and the others of `envhub.options.SourceKeywords`.

    Returns:
        `{suite: {task: VectorEnv}}`. Tasks can be looked up by number too, as LeRobot's are.

    Raises:
        UsageError: The benchmark, suite or task does not exist.
        RuntimeUnavailable: The benchmark's requirements are not available.
        ContractError: The benchmark breaks its contract.
    """
    n_envs = check_whole("n_envs", n_envs, 1, MAX_WORKERS)
    horizon = None if max_steps is None else check_whole("max_steps", max_steps, 1, MAX_HORIZON)
    until_success = check_flag("end_at_success", end_at_success)
    told = check_instructions("instructions", instructions)
    if more := [task for task, texts in told.items() if len(texts) > 1]:
        raise UsageError(f"instructions, {more[0]!r} must be one text, not a list.")
    parts = None if needs is None else check_names("needs", needs)
    check_choice("format", format, ("raw", "lerobot"))
    if parts is not None and format == "lerobot":
        raise UsageError("needs names parts of raw observations: leave it or format out.")
    if isinstance(ref, HubConfig):
        ref, cfg = ref.hub_path, ref if cfg is None else cfg
    options = _source_options("make_env", source)
    given = check_values("env_args", env_args)
    if cfg is not None:
        given["cfg"] = as_config("cfg", cfg)
    with fetching_to(check_path("hub_cache_dir", hub_cache_dir)):
        found = find_source(check_reference(ref), options)
    spec = WorkerSpec(found, given, check_limits(limits), horizon, env_vars=options.env_vars)
    description = describe(spec, options.runtime, locked=options.locked)
    lazy = LazySpec(description, options.runtime)
    benchmark = description.benchmark
    for task_name in told:
        if task_name not in benchmark.tasks():
            raise UnknownName("task", task_name, benchmark.tasks())
    selected = select(benchmark, check_names("suites", suites), check_names("tasks", tasks))
    return {
        suite: Tasks(
            {
                task.name: LazyVectorEnv(
                    lazy,
                    suite,
                    task.name,
                    n_envs,
                    spaces=description.spaces.get(task.name),
                    rules=Rules(
                        description.horizon(task),
                        horizon,
                        task.init_states,
                        instruction=next(iter(told.get(task.name, ())), None),
                        until_success=until_success and task.success == "once",
                        named_success=True,
                    ),
                    needs=parts,
                    converted=format == "lerobot" and benchmark.lerobot is not None,
                    autoreset_mode=autoreset_mode,
                    copy=copy,
                )
                for task in chosen
            }
        )
        for suite, chosen in selected.items()
    }


def evaluate(
    ref: str | Path,
    policy: Policy | str | Path = "random",
    *,
    suites: Iterable[str] = (),
    tasks: Iterable[str] = (),
    episodes: int | None = None,
    seed: int = 0,
    seeding: Seeding | None = None,
    workers: int | Literal["auto"] | None = None,
    max_steps: int | None = None,
    instructions: Mapping[str, str | Sequence[str]] | None = None,
    latency: str | Path | None = None,
    perturb: Mapping[str, float | Mapping[str, str | Sequence[str]]] | None = None,
    env_args: Mapping[str, Argument] | None = None,
    policy_args: Mapping[str, Argument] | None = None,
    policy_python: str | Path | None = None,
    policy_processes: Processes = 1,
    limits: Limits | None = None,
    retries: int = 1,
    max_errors: int = MAX_ERRORS,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[int, int], object] | None = None,
    on_episode: Callable[[EpisodeRecord], object] | None = None,
    baselines: Iterable[str] = (),
    ignore_conventions: bool = False,
    shard: str | None = None,
    log: Iterable[str] = (),
    **source: Unpack[SourceKeywords],
) -> Run:
    """Evaluate a policy on a benchmark, as `envhub eval` does.

    Warns if episodes ended with an error. Can be called from several threads at once.

    Args:
        ref: An installed benchmark's name, a local `./directory` or `./file.py`, or
            `owner/repo@<commit>:env.py` on the Hub.
        policy: A policy object, which runs in this process, or text as for `--policy`.
        suites: Names of suites; none: the benchmark's default; `all`: every suite.
        tasks: Names of tasks, as for `--task`; none: all tasks of the suites.
        episodes: Episodes per task; None: the benchmark's own number.
        seed: The seed that those of the episodes are made of.
        seeding: "task": each task has seeds of its own; "shared": episode k has seed `seed + k` in
            every task, as in other loops. None: as the run that is continued, else "task".
        workers: Worker processes; None or "auto": as many as cores and free memory allow; 0:
            everything in this process.
        max_steps: A horizon that replaces the tasks' own.
        instructions: Texts that policies are told instead of the benchmark's, by task; of a list,
            episode k is told number `k mod n`.
        latency: How long the policy thinks while the simulated world goes on, as `--latency` says
            it: "120ms", "120ms,mode=overlap" or the directory of a run.
        perturb: How the benchmark is changed: strengths by the names of perturbations, as in
            `{"camera": 0.05}`; for some, texts by task.
        env_args: Arguments of the benchmark's function that makes envs.
        policy_args: Arguments of the policy's factory.
        policy_python: An interpreter for the policy's own process, such as
            `policy/.venv/bin/python`; None: this one, or as its file declares.
        policy_processes: Processes of the policy; "auto": one per visible GPU, and at least one.
        limits: Seconds after which a process that does not answer is ended.
        retries: How often an episode that failed is run again before its failure is recorded.
        max_errors: Equal errors in a row, before any episode was played to its end, that stop the
            run.
        out: A new directory for the run; None: one under `runs/`.
        resume: Continue the run in `out` if it asks the same question, or start it there.
        progress: Called with the number of episodes that have a record, and of all: at the start
            and after each episode.
        on_episode: Called with the record of each episode that has ended.
        baselines: Policies that are played in the same episodes afterwards, into `baselines/` of
            the run's directory: `zero`, `random`, or those of the benchmark.
        ignore_conventions: Run a policy whose conventions differ from the benchmark's, and record
            that.
        shard: The share of the episodes that is played here, such as "3/16"; `merge` joins them.
        log: Names of loggers, as for `--log`: "tensorboard", "wandb", "mlflow", "trackio".
        **source: How to get the benchmark, and where to run it: `trust_remote_code`, `sandbox`,
            `runtime` and the others of `envhub.options.SourceKeywords`.

    Returns:
        The run: its directory, `records()` and `summary()`.

    Raises:
        UsageError: Invalid argument; says what to give instead.
        ConventionsDiffer: The policy was made for other conventions than the benchmark has.
        ContractError: The benchmark or the policy breaks its contract.
    """
    observers = Plugins()
    observers.load_loggers(check_names("log", log))
    request = EvalRequest(
        ref=check_reference(ref),
        policy=read_policy(check_policy(policy), check_values("policy_args", policy_args)),
        suites=check_names("suites", suites),
        tasks=check_names("tasks", tasks),
        episodes=None if episodes is None else check_whole("episodes", episodes, 1),
        seed=check_whole("seed", seed, 0, 2**62),
        seeding=None if seeding is None else check_choice("seeding", seeding, get_args(Seeding)),
        workers=check_workers(workers),
        max_steps=None if max_steps is None else check_whole("max_steps", max_steps, 1),
        instructions=check_instructions("instructions", instructions),
        latency=_latency(latency),
        perturb=check_perturbations("perturb", perturb),
        env_args=check_values("env_args", env_args),
        policy_python=_interpreter(policy_python),
        policy_processes=check_processes(policy_processes),
        limits=check_limits(limits),
        retries=check_whole("retries", retries, 0),
        max_errors=check_whole("max_errors", max_errors, 1),
        out=check_path("out", out),
        options=_source_options("evaluate", source),
        baselines=check_names("baselines", baselines),
        ignore_conventions=check_flag("ignore_conventions", ignore_conventions),
        shard=None if shard is None else parse_shard(shard, os.environ),
        observers=observers,
    )
    check_function("progress", progress)
    check_function("on_episode", on_episode)
    watcher = _Callbacks(progress, on_episode)
    if not check_flag("resume", resume):
        run = start_run(request, watcher)
    elif request.out is None:
        raise UsageError("resume needs the run's directory: give out too.")
    else:
        run = continue_run(request, request.out, watcher)
    play_baselines(request, run, lambda _: _Callbacks())
    _warn_of_errors(run, watcher.failed)
    return run


def experiment(
    file: str | Path,
    *,
    out: str | Path | None = None,
    workers: int | Literal["auto"] | None = None,
    resume: bool = False,
    objects: Mapping[str, Policy] | None = None,
    progress: Callable[[str], object] | None = None,
    log: Iterable[str] = (),
    **source: Unpack[SourceKeywords],
) -> Played:
    """Play the experiment that a TOML file describes, as `envhub eval FILE.toml` does.

    Warns of the cells that could not be played.

    Args:
        file: The file; docs/experiments.md says what it may have.
        out: A new directory for its runs; None: one under `runs/`.
        workers: Those of all cells together; None or "auto": as many as cores and free memory
            allow.
        resume: Continue the experiment in `out`, or start it there.
        objects: Policy objects that replace the policies of these names; their cells are played one
            after another, in this process.
        progress: Called with a line when a cell begins or ends.
        log: Names of loggers, as for `--log`.
        **source: How to get the benchmarks, and where to run them: `trust_remote_code`, `sandbox`,
            `runtime` and the others of `envhub.options.SourceKeywords`.

    Returns:
        The `runs` and `failures` of the cells, and their `matrix()`.

    Raises:
        UsageError: The file describes no experiment, or a benchmark does not exist.
        RemoteCodeRefused: Nobody agreed to run the code of a benchmark.
    """
    options = _source_options("experiment", source)
    check_function("progress", progress)
    observers = Plugins()
    observers.load_loggers(check_names("log", log))
    path, directory = check_path("file", file), check_path("out", out)
    if path is None:
        raise UsageError("file must be the path of an experiment's TOML.")
    begun = directory is not None and directory.exists() and any(directory.iterdir())
    if check_flag("resume", resume) and directory is None:
        raise UsageError("resume needs the experiment's directory: give out too.")
    if begun and not resume:
        raise RunDirectoryError(f"{directory} exists and is not empty. Give resume=True too.")
    read_experiment_file(path, Path("runs"))  # says what is wrong before a directory is made
    asked = read_experiment_file(path, directory or new_directory(path.stem))
    given = {name: check_policy(policy) for name, policy in (objects or {}).items()}
    for name in given:
        if name not in asked.question.policies:
            raise UnknownName("policy", name, asked.question.policies, advice="See objects.")
    played = play_experiment(
        asked,
        options,
        _Lines(progress),
        workers=check_workers(workers),
        objects=given,
        observers=observers,
    )
    for cell, error in played.failures.items():
        warnings.warn(f"{cell.name}: {error}", RuntimeWarning, stacklevel=2)
    return played


def replay(
    run: Run | str | Path,
    task: str,
    episode: int,
    *,
    out: str | Path | None = None,
    every: int = 1,
    on_frame: Callable[[Array], None] | None = None,
    benchmark: str | Path | None = None,
    env_args: Mapping[str, Argument] | None = None,
    **source: Unpack[SourceKeywords],
) -> Replay:
    """Play a recorded episode again from its actions, and draw it, as `envhub replay` does.

    Args:
        run: The run, or its directory.
        task: The episode's task.
        episode: The episode's index among the task's.
        out: A file for the video, `.mp4`, or for the last frame, `.png`; None: the run's own
            `videos/<number>.mp4`, or no file if `on_frame` is given.
        every: Steps from one frame to the next.
        on_frame: Called with each frame, an array of height x width x channels.
        benchmark: The benchmark, for a run of somebody else; yours is found by what it says.
        env_args: With `benchmark`: the arguments of its function that makes envs.
        **source: How to get the benchmark, and where to run it: `envhub.options.SourceKeywords`.

    Returns:
        How it went: `identical`, the first `difference` if it was not, and the file's `path`.

    Raises:
        UsageError: There is no such episode, or the benchmark is another one now.
        RuntimeUnavailable: A video is asked for, and PyAV is not installed.
        ContractError: The env draws no picture.
    """
    opened = _open(run)
    record = find_episode(opened, f"{task}:{check_whole('episode', episode, 0)}")
    check_function("on_frame", on_frame)
    return replay_episode(
        opened,
        record,
        _rerun_options("replay", benchmark, env_args, source),
        _Callbacks(),
        out=check_path("out", out),
        every=check_whole("every", every, 1),
        on_frame=on_frame,
    )


def verify(
    run: Run | str | Path,
    *,
    episodes: int | None = SAMPLE,
    tasks: Iterable[str] = (),
    policy: bool | str = False,
    policy_args: Mapping[str, Argument] | None = None,
    policy_python: str | Path | None = None,
    fresh: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    benchmark: str | Path | None = None,
    env_args: Mapping[str, Argument] | None = None,
    **source: Unpack[SourceKeywords],
) -> Verification:
    """Check a run's files against each other, and play its episodes again, as `envhub verify` does.

    Args:
        run: The run, or its directory.
        episodes: How many episodes to play again, chosen by chance; None: all.
        tasks: Only these; none: all.
        policy: Whether to let the run's policy choose the actions again, too; for a run of somebody
            else the policy as text, as for `--policy`, which is compared with what the run says.
        policy_args: With a policy as text: the arguments of its factory.
        policy_python: With a policy as text: an interpreter for its process.
        fresh: Episodes per task that the policy plays on new seeds, to compare the rates.
        seed: Chooses the episodes; None: a new one.
        workers: Worker processes; None: as many as cores and free memory allow.
        benchmark: The benchmark, for a run of somebody else; yours is found by what it says.
        env_args: With `benchmark`: the arguments of its function that makes envs.
        **source: How to get the benchmark, and where to run it: `envhub.options.SourceKeywords`.

    Returns:
        Whether all is as recorded, `ok`, and a verdict per episode, `episodes`.

    Raises:
        RunDirectoryError: The directory has no run, or its benchmark is another one now.
        UsageError: There is no such task.
    """
    request = VerifyRequest(
        None if episodes is None else check_whole("episodes", episodes, 1),
        check_names("tasks", tasks),
        bool(policy) if isinstance(policy, str) else check_flag("policy", policy),
        None if seed is None else check_whole("seed", seed, 0),
        None if fresh is None else check_whole("fresh", fresh, 1),
    )
    directory = run.directory if isinstance(run, Run) else Path(run)
    count = None if workers is None else check_whole("workers", workers, 1)
    rerun_options = _rerun_options("verify", benchmark, env_args, source, count)
    name = policy if isinstance(policy, str) else None
    rerun_options = _with_policy(rerun_options, name, policy_args, policy_python)
    return verify_run(directory, request, rerun_options, _Callbacks())


def explain(
    a: Run | str | Path,
    b: Run | str | Path | None = None,
    *,
    versions: Iterable[str] = (),
    episodes: int = SAMPLE,
    tasks: Iterable[str] = (),
    policy: str | None = None,
    policy_args: Mapping[str, Argument] | None = None,
    policy_python: str | Path | None = None,
    workers: int | None = None,
    benchmark: str | Path | None = None,
    env_args: Mapping[str, Argument] | None = None,
    **source: Unpack[SourceKeywords],
) -> Explanation:
    """Say why two results differ, as `envhub explain` does.

    Args:
        a: The run A, or its directory.
        b: The run B; None: A in other `versions`.
        versions: Of packages of A's runtime, as `mujoco=3.3.7`.
        episodes: How many episodes to play.
        tasks: Only these; none: all.
        policy: The policy of runs of somebody else, as text, as for `--policy`.
        policy_args: With `policy`: the arguments of its factory.
        policy_python: With `policy`: an interpreter for its process.
        workers: Worker processes; None: as many as cores and free memory allow.
        benchmark: The benchmark, for runs of somebody else; yours is found by what they say.
        env_args: With `benchmark`: the arguments of its function that makes envs.
        **source: How to get the benchmark, and where to run it: `envhub.options.SourceKeywords`.

    Returns:
        The `verdict` in a sentence, and the `layers` with what was found in each.

    Raises:
        UsageError: There is no such run or task, or both are runs of different benchmarks.
        RuntimeUnavailable: The versions that were asked for cannot be built.
    """
    asked = parse_versions(check_names("versions", versions))
    if (b is None) == (not asked):
        raise UsageError("Name two runs, a and b, or one and versions, as ['mujoco=3.3.7'].")
    count = check_whole("episodes", episodes, 1)
    request = ExplainRequest(asked, count, check_names("tasks", tasks))
    processes = None if workers is None else check_whole("workers", workers, 1)
    options = _rerun_options("explain", benchmark, env_args, source, processes)
    options = _with_policy(options, policy, policy_args, policy_python)
    first = a.directory if isinstance(a, Run) else Path(a)
    second = b.directory if isinstance(b, Run) else None if b is None else Path(b)
    return explain_runs(first, second, request, options, _Callbacks())


def _with_policy(
    options: RerunOptions,
    policy: str | None,
    policy_args: Mapping[str, Argument] | None,
    policy_python: str | Path | None,
) -> RerunOptions:
    if policy is not None:
        named = read_policy(policy, check_values("policy_args", policy_args))
        return replace(options, policy=named, policy_python=_interpreter(policy_python))
    if policy_args or policy_python is not None:
        raise UsageError("policy_args and policy_python need a policy that is named, as text.")
    return options


def _latency(latency: str | Path | None) -> LatencyRequest | None:
    if latency is None:
        return None
    asked = parse_latency(check_reference(latency, "latency"))
    if len(asked) > 1:
        raise UsageError("evaluate() plays one latency: call it once for each.")
    return asked[0]


def _open(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def _rerun_options(
    caller: str,
    benchmark: str | Path | None,
    env_args: Mapping[str, Argument] | None,
    source: SourceKeywords,
    workers: int | None = None,
) -> RerunOptions:
    named = None if benchmark is None else check_reference(benchmark, "benchmark")
    given = check_values("env_args", env_args)
    return RerunOptions(caller, named, given, workers, _source_options(caller, source))


def _interpreter(policy_python: str | Path | None) -> str | None:
    """Return an interpreter as text; a `Path` names a file, and text may name a command."""
    path = check_path("policy_python", policy_python)
    if isinstance(policy_python, str):
        return policy_python
    return None if path is None else str(path.absolute())


def _source_options(caller: str, given: SourceKeywords) -> SourceOptions:
    options = SourceOptions.of(caller, given, _KEYWORDS.get(caller, ()))
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name == "env_vars":
            options = replace(options, env_vars=_variables(value))
        elif field.name == "sandbox":
            check_choice(field.name, value, get_args(SandboxChoice))
        elif field.name == "runtime":
            check_runtime(value)
        else:
            check_flag(field.name, value)
    return options


_KEYWORDS = {
    function.__name__: tuple(inspect.signature(function).parameters)
    for function in (make_env, evaluate, experiment, explain, replay, verify)
}
"""The parameters of the functions that take the options of a source, too."""


def _variables(env_vars: object) -> dict[str, str]:
    if not isinstance(env_vars, Mapping):
        raise UsageError(f"env_vars must be a mapping of names to texts, found {env_vars!r}.")
    return chosen_variables(env_vars)


def _warn_of_errors(run: Run, failed: list[EpisodeRecord]) -> None:
    if failed:
        first = min(failed, key=lambda record: record.number).error
        assert first is not None
        warnings.warn(
            f"{len(failed)} of {run.planned} episodes ended with an error, the first: "
            f"{first.message}",
            RuntimeWarning,
            stacklevel=3,
        )


class _Lines:
    """Tells the caller of the cells of an experiment."""

    def __init__(self, progress: Callable[[str], object] | None) -> None:
        self._say = progress or (lambda _: None)

    def began(self, cell: Cell, run: Run, engine: Playing, before: int) -> None:
        self._say(f"{cell.name}: {before} of {len(run.run_info.numbers)} episodes")

    def recorded(self, cell: Cell, record: EpisodeRecord) -> None:
        return

    def ended(self, cell: Cell, outcome: Run | EnvHubError) -> None:
        self._say(f"{cell.name}: {'ended' if isinstance(outcome, Run) else outcome}")

    def message(self, cell: Cell | None, text: str) -> None:
        self._say(text if cell is None else f"{cell.name}: {text}")

    def progress(self, cell: Cell | None, text: str) -> None:
        self.message(cell, text)

    def refresh(self) -> bool:
        return False


class _Callbacks:
    """Tells the caller's functions of the progress; warns where an observer fails."""

    def __init__(
        self,
        progress: Callable[[int, int], object] | None = None,
        on_episode: Callable[[EpisodeRecord], object] | None = None,
    ) -> None:
        self._progress = progress
        self._on_episode = on_episode
        self._done = self._total = 0
        self.failed: list[EpisodeRecord] = []
        """The records with an error."""

    def started(
        self, run: Run, plan: Plan, engine: Playing, before: Sequence[EpisodeRecord]
    ) -> None:
        self._done, self._total = len(before), len(run.run_info.numbers)
        self._show()

    def recorded(self, record: EpisodeRecord) -> None:
        self._done += 1
        if record.error is not None:
            self.failed.append(record)
        if self._on_episode is not None:
            self._on_episode(record)
        self._show()

    def refresh(self) -> None:
        return

    def message(self, text: str) -> None:
        return

    def progress(self, text: str) -> None:
        return

    def warning(self, problem: PluginError) -> None:
        warnings.warn(str(problem), stacklevel=2)

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)
