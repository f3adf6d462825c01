"""What `run.json` is to say of an evaluation: its request, code, packages and machine."""

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import convert
from msgspec.structs import replace

import envhub
from envhub.discovery import chosen
from envhub.evaluation.perturbations import foresee_perturbations
from envhub.evaluation.request import EvalRequest
from envhub.host.loading import LoadedWorker
from envhub.machine.facts import describe_host
from envhub.machine.gpus import used_devices
from envhub.run_info import (
    WORKER,
    BenchmarkInfo,
    MachineInfo,
    PlanInfo,
    PolicyInfo,
    ProtectionInfo,
    RunInfo,
    RuntimeInfo,
)
from envhub.types import FileSource, WorkerSpec


def describe_run(
    request: EvalRequest,
    worker: LoadedWorker,
    files: Mapping[str, Any],
    plan: PlanInfo,
    policy: PolicyInfo,
) -> RunInfo:
    """Return the content of `run.json` for an evaluation that is ready to be played.

    Args:
        request: What is asked for.
        worker: Has loaded the benchmark.
        files: The benchmark's identity, from `sources.fingerprint.identify`.
        plan: The episodes.
        policy: The policy.
    """
    spec, loaded = worker.spec, worker.loaded
    return RunInfo.begin(
        benchmark=_describe_benchmark(request.ref, worker, files),
        plan=plan,
        policy=policy,
        runtime=RuntimeInfo(
            kind="isolated" if spec.interpreter.kind == "isolated" else "here",
            key=spec.interpreter.key,
            worker=WORKER,
            python=loaded.python,
            packages=dict(loaded.packages),
            unmet=list(spec.interpreter.unmet),
        ),
        machine=_describe_machine(loaded.machine, {**os.environ, **spec.env_vars}),
        protection=_describe_protection(spec, inline=request.workers == 0),
        limits=spec.limits,
        retries=request.retries,
        ignore_conventions=request.ignore_conventions,
        shard=request.shard,
    )


def foresee(request: EvalRequest, files: Mapping[str, Any], before: RunInfo) -> RunInfo:
    """Return what `run.json` will say, as far as that is known before any code is executed.

    Args:
        request: What is asked for; its policy is obtained.
        files: The benchmark's identity, from `sources.fingerprint.identify`.
        before: What it says. What is not known yet is as it was.
    """
    benchmark = replace(
        before.benchmark,
        kind=files["kind"],
        files=dict(files["files"]),
        env_args=dict(request.env_args),
        env_vars=sorted(request.options.env_vars),
        env_var_hashes=hash_variables(request.options.env_vars),
        plugins=list(chosen() or ()),
    )
    episodes = before.plan.episodes if request.episodes is None else request.episodes
    told = {t: list(texts) for t, texts in request.instructions.items() if t in before.plan.tasks}
    # How many steps a latency is follows from the benchmark, which is not loaded yet.
    latency = None if request.latency is None else before.plan.latency
    plan = replace(
        before.plan,
        latency=latency,
        perturbations=foresee_perturbations(request.perturb, before.plan.perturbations),
        seed=request.seed,
        seeding=before.plan.seeding if request.seeding is None else request.seeding,
        max_steps=request.max_steps,
        episodes=episodes,
        instructions=told,
    )
    # The interpreter is not known yet.
    policy = replace(request.policy.identify(), runtime=before.policy.runtime)
    return replace(
        before,
        envhub=envhub.__version__,
        benchmark=benchmark,
        plan=plan,
        policy=policy,
        runtime=replace(before.runtime, worker=WORKER),
        shard=request.shard,
    )


def hash_variables(env_vars: Mapping[str, str]) -> dict[str, str]:
    """Return what `run.json` says of the values of `--env-var`: the same for every user.

    A value may be a secret and `run.json` is shown to others, so each guess must cost something.
    """
    return {name: _hash_variable(name, env_vars[name]) for name in sorted(env_vars)}


@cache
def _hash_variable(name: str, value: str) -> str:
    """Take about a tenth of a second and 32 MiB; `docs/runs.md` states the parameters."""
    digest = hashlib.scrypt(
        value.encode(errors="surrogateescape"),
        salt=f"envhub --env-var {name}".encode(),
        n=2**15,
        r=8,
        p=1,
        maxmem=2**26,
        dklen=16,
    )
    return f"scrypt:{digest.hex()}"


def _describe_benchmark(ref: str, worker: LoadedWorker, files: Mapping[str, Any]) -> BenchmarkInfo:
    spec, benchmark = worker.spec, worker.loaded.benchmark
    source = spec.source
    return BenchmarkInfo(
        ref=_pinned_reference(ref, spec),
        path=f"{source.directory}/{source.file}" if isinstance(source, FileSource) else None,
        name=benchmark.name,
        **files,
        env_args=dict(spec.env_args),
        env_vars=sorted(spec.env_vars),
        env_var_hashes=hash_variables(spec.env_vars),
        assets={asset.name: asset.digest for asset in spec.assets},
        asset_sources={asset.name: asset.source for asset in spec.assets if asset.source},
        plugins=list(chosen() or ()),
        conventions=dict(benchmark.known_conventions),
        lerobot_conventions=dict(benchmark.lerobot_conventions),
    )


def _pinned_reference(ref: str, spec: WorkerSpec) -> str:
    """Return the reference to exactly this source."""
    source = spec.source
    if isinstance(source, FileSource) and source.origin is not None:
        return f"{source.origin.repo}@{source.origin.commit}:{source.file}"
    return ref


def _describe_protection(spec: WorkerSpec, *, inline: bool) -> ProtectionInfo:
    """Describe how the benchmark's code was confined."""
    confinement = spec.confinement
    return ProtectionInfo(
        process=not inline,
        sandbox=confinement.sandbox if confinement else "none",
        network=confinement.network if confinement else True,
        memory_mb=confinement.memory_mb if confinement else None,
    )


def _describe_machine(of_workers: Mapping[str, str], variables: Mapping[str, str]) -> MachineInfo:
    known: dict[str, Any] = {"openblas": None, "gl": None, **of_workers}
    devices = used_devices(known["gl"], variables)
    return convert({**describe_host(), **known, "gl_devices": devices}, MachineInfo)
