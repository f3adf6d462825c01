"""The first half of an evaluation: load the benchmark, plan the episodes, find the policy.

The second half, `evaluation.run.play`, plays any subset of the plan's episodes: all of them, those
missing in a resumed run, or the share of one machine among many.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from envhub.declarations import Benchmark
from envhub.errors import ContractError, UnknownName, UsageError
from envhub.evaluation.describe import describe_run
from envhub.evaluation.job import Job
from envhub.evaluation.latency import plan_latency
from envhub.evaluation.perturbations import effective, find_perturbations, plan_perturbations
from envhub.evaluation.plan import Plan, make_plan, select
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.host.loading import LoadedWorker, start_loaded_worker
from envhub.host.waiting import close_workers
from envhub.machine import resources
from envhub.machine.gpus import policy_devices
from envhub.offline import Missing, is_offline
from envhub.options import Reporter
from envhub.policies.find import find_policy
from envhub.policies.interpreter import AskedInterpreter, PolicyRuntime
from envhub.policies.kinds import BUILTIN, Builtin, InProgram, OfBenchmark, PolicyKind, no_process
from envhub.policies.provider import Wanted
from envhub.records import Episode
from envhub.results.require import check_names
from envhub.run_info import RunInfo
from envhub.seeding import DEFAULT_SEEDING
from envhub.types import HERE, Source, WorkerSpec, confinement_of


@dataclass(frozen=True, slots=True)
class Prepared:
    """An evaluation that is ready to be played: plan, policy and a loaded worker."""

    request: EvalRequest
    worker: LoadedWorker
    """Has loaded the benchmark; `play` takes it over."""
    plan: Plan
    policy: PolicyKind
    policy_runtime: PolicyRuntime | None
    """The interpreter of the policy's processes; None: it has none of its own."""
    policy_devices: tuple[str | None, ...]
    """The GPU of each process of the policy; None: those that the user's variables say."""
    info: RunInfo
    """The content of `run.json`."""

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark that the policy is evaluated on."""
        return self.worker.loaded.benchmark

    def job(
        self,
        episodes: tuple[Episode, ...],
        logs: Path,
        *,
        worked: bool = False,
        first_leaves: Mapping[int, tuple[str, ...] | None] | None = None,
    ) -> Job:
        """Make the job of playing some of the plan's episodes.

        Args:
            episodes: A subset of the plan's episodes.
            logs: Where the output of workers goes.
            worked: Whether another episode was played to its end before.
            first_leaves: The leaves that the resets of episodes fill, by number.
        """
        request, runtime = self.request, self.policy_runtime
        workers, memory_mb = request.workers, self.benchmark.memory_mb
        if workers is None and request.places is not None:
            workers = request.places.most(memory_mb)
        elif workers is None:
            workers = auto_workers(memory_mb, len(episodes))
        return Job(
            spec=self.worker.spec,
            benchmark=self.benchmark,
            plan=self.plan,
            episodes=episodes,
            policy=self.policy,
            workers=workers,
            retries=request.retries,
            max_errors=request.max_errors,
            worked=worked,
            logs=logs,
            policy_interpreter=runtime.interpreter if runtime else HERE,
            ignore_conventions=request.ignore_conventions,
            policy_devices=self.policy_devices,
            batch=request.batch,
            broken=self.worker.broken,
            first_leaves=first_leaves or {},
            share=request.places.share(request.order, memory_mb) if request.places else None,
        )

    def close(self) -> None:
        """End the worker; harmless if `play` took it over."""
        close_workers([self.worker.remote.worker], limit=self.request.limits.close)


def obtain_policy(request: EvalRequest, before: RunInfo | None, watcher: Watcher) -> EvalRequest:
    """Return the request with its policy obtained: with all that it needs on this machine.

    Args:
        request: What is asked for.
        before: What `run.json` says, if the run has begun: what it pinned stays.
        watcher: Receives messages.
    """
    wanted = Wanted(
        private=request.options.private,
        begun=None if before is None else before.policy.provided,
        begun_about={} if before is None else before.policy.about,
        message=watcher.message,
        progress=watcher.progress,
    )
    return replace(request, policy=request.policy.obtain(wanted))


def look_for_policy(
    request: EvalRequest, before: RunInfo | None, watcher: Watcher, missing: Missing
) -> EvalRequest:
    """Obtain the policy, or note what is missing of it where there is no network."""
    found = missing.try_to(lambda: obtain_policy(request, before, watcher))
    if found is None:
        return request
    if is_offline() and not isinstance(found.policy, Builtin | OfBenchmark | InProgram):
        asked = AskedInterpreter(request.policy_python, request.workers == 0, watcher.progress)
        missing.try_to(lambda: found.policy.interpreter(asked))
    return found


def prepare(
    request: EvalRequest,
    source: Source,
    files: Mapping[str, Any],
    logs: Path,
    watcher: Watcher,
    missing: Missing | None = None,
) -> Prepared:
    """Load the benchmark, plan its episodes and find the policy.

    Args:
        request: The evaluation that is requested; its policy is obtained.
        source: The source that its reference names.
        files: The identity of the source, from `sources.fingerprint.identify`.
        logs: Where the output of workers goes.
        watcher: Receives messages.
        missing: What is missing already, where there is no network.

    Raises:
        UsageError: A suite, task or policy does not exist.
        RuntimeUnavailable: The benchmark's requirements are not available.
        ContractError: The benchmark's code is at fault.
    """
    if request.workers == 0 and confinement_of(source) is not None:
        raise UsageError("--workers 0 runs code in this process; code from the Hub needs workers.")
    find_perturbations(request.perturb)  # before what takes long
    options = request.options
    worker = start_loaded_worker(
        WorkerSpec(
            source,
            request.env_args,
            request.limits,
            request.max_steps,
            env_vars=options.env_vars,
            perturb=effective(request.perturb),
        ),
        options.runtime,
        locked=options.locked,
        name="worker 0",
        log=logs / "worker-0.log",
        inline=request.workers == 0,
        missing=missing,
        reporter=Reporter(watcher.message, watcher.progress),
    )
    try:
        plan = _plan(request, worker, watcher)
        policy = find_policy(request.policy, worker.loaded.benchmark)
        _check_baselines(request, worker.loaded.benchmark)
        asked = AskedInterpreter(request.policy_python, request.workers == 0, watcher.progress)
        runtime = policy.interpreter(asked)
        devices = _policy_devices(request, policy, watcher)
        identity = structs.replace(
            policy.identify(),
            batch=request.batch,
            runtime=runtime.identify() if runtime else None,
            processes=list(devices) if runtime else [],
        )
        planned = plan.info(worker.loaded.benchmark.reuse)
        info = describe_run(request, worker, files, planned, identity)
    except BaseException:
        close_workers([worker.remote.worker], limit=request.limits.close)
        raise
    return Prepared(request, worker, plan, policy, runtime, devices, info)


def auto_workers(memory_mb: int, episodes: int) -> int:
    """Return as many workers as cores, free memory and episodes allow."""
    return max(1, min(resources.cores(), resources.memory_mb() // memory_mb, episodes))


def _plan(request: EvalRequest, worker: LoadedWorker, watcher: Watcher) -> Plan:
    benchmark = worker.loaded.benchmark
    chosen = select(benchmark, request.suites, request.tasks)
    check_names(
        request.requirements, {suite: [t.name for t in tasks] for suite, tasks in chosen.items()}
    )
    for name in request.instructions:
        if name not in benchmark.tasks():
            raise UnknownName("task", name, benchmark.tasks(), advice="--instructions names it.")
    perturbations = plan_perturbations(request.perturb, worker.loaded.perturbations)
    if request.instructions and any("instruction" in p.changes for p in perturbations.values()):
        name = next(n for n, p in perturbations.items() if "instruction" in p.changes)
        raise UsageError(f"--instructions and --perturb {name} both word the tasks; omit one.")
    _check_playable({task.name for tasks in chosen.values() for task in tasks}, worker, watcher)
    return make_plan(
        benchmark,
        chosen,
        episodes=request.episodes,
        seed=request.seed,
        seeding=request.seeding or DEFAULT_SEEDING,
        max_steps=request.max_steps,
        instructions=request.instructions,
        latency=plan_latency(request.latency, benchmark),
        perturbations=perturbations,
    )


def _check_playable(tasks: set[str], worker: LoadedWorker, watcher: Watcher) -> None:
    """Refuse tasks without a horizon, and tasks of which none can be made; name those that cannot.

    Raises:
        ContractError: Such a task is among those that were chosen.
    """
    for name in worker.loaded.without_horizon:
        if name in tasks:
            raise ContractError(
                f"Task {name!r} has no horizon: give --max-steps, or set _max_episode_steps on the "
                "env."
            )
    broken = {name: error for name, error in worker.broken.items() if name in tasks}
    if broken and len(broken) == len(tasks):
        raise next(iter(broken.values()))
    for name, error in broken.items():
        watcher.message(
            f"Task {name!r} cannot be made, so its episodes are recorded as errors: {error.problem}"
        )


def _check_baselines(request: EvalRequest, benchmark: Benchmark) -> None:
    """Refuse baselines that do not exist, before hours of playing.

    Raises:
        UnknownName: Neither EnvHub nor the benchmark has such a policy.
    """
    for name in request.baselines:
        if name not in BUILTIN and name not in benchmark.policies:
            raise UnknownName("baseline", name, {*BUILTIN, *benchmark.policies})


def _policy_devices(
    request: EvalRequest, policy: PolicyKind, watcher: Watcher
) -> tuple[str | None, ...]:
    """Choose the GPU of each process of a policy of the user.

    Raises:
        UsageError: Several processes are asked for, and the policy has none of its own.
    """
    if request.policy_processes == 1:
        return (None,)
    if isinstance(policy, Builtin | OfBenchmark | InProgram):
        raise no_process("--policy-processes", policy.where)
    if request.workers == 0:
        raise UsageError(
            "--policy-processes: --workers 0 runs everything in this process. Omit one of them."
        )
    devices = policy_devices(request.policy_processes)
    if len(devices) > 1:
        gpus = [device for device in devices if device is not None]
        where = f", with the GPUs {', '.join(gpus)}" if gpus else ""
        watcher.progress(f"The policy runs in {len(devices)} processes{where}.")
    return devices
