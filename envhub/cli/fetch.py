"""`envhub fetch`: bring all that an evaluation needs into the cache."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from envhub.cli.options import (
    debug_option,
    env_arg_option,
    json_option,
    policy_options,
    source_options,
)
from envhub.cli.progress import make_watcher
from envhub.errors import printable
from envhub.evaluation.prepare import obtain_policy, prepare
from envhub.evaluation.request import EvalRequest
from envhub.files import cache_home
from envhub.options import Argument, PolicyOptions, SourceOptions
from envhub.policies.find import read_policy
from envhub.run_info import RunInfo
from envhub.sources.find import find_source
from envhub.sources.fingerprint import identify


@click.command("fetch")
@click.argument("ref")
@click.option("--policy", show_default="random", help="The policy of the evaluation to come.")
@policy_options
@click.option("--quiet", is_flag=True, help="Show no progress.")
@source_options
@env_arg_option
@json_option
@debug_option
def command(
    ref: str,
    *,
    policy: PolicyOptions,
    quiet: bool,
    options: SourceOptions,
    env_args: dict[str, Argument],
    as_json: bool,
) -> None:
    """Fetch all that an evaluation of REF needs, and play nothing.

    Brought into the cache are the benchmark's files, its runtime and its assets, a policy's
    checkpoint with the models that it names, and the policy's runtime. Then the benchmark is
    loaded once, which shows that nothing is missing: `envhub eval --offline` with the same
    options needs no network.

    \b
    Examples:
        envhub fetch libero
        envhub fetch owner/repo@<commit> --policy lerobot:owner/model@<commit>
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    watcher = make_watcher(quiet=quiet)
    source = find_source(ref, options, message=watcher.message)
    request = EvalRequest(
        ref=ref,
        policy=read_policy(policy.name or "random", policy.args),
        policy_python=policy.python,
        env_args=env_args,
        options=options,
    )
    request = obtain_policy(request, None, watcher)
    with tempfile.TemporaryDirectory(prefix="envhub-fetch-") as place:
        prepared = prepare(request, source, identify(source), Path(place), watcher)
        prepared.close()
    watcher.finish()
    facts = _facts(prepared.info)
    if as_json:
        click.echo(json.dumps({"cache": str(cache_home()), **facts}, indent=2))
        return
    for name, value in facts.items():
        click.echo(printable(f"{name}: {_shown(value)}"))
    click.echo(printable(f"All is in {cache_home()}: envhub eval --offline needs no network."))


def _facts(info: RunInfo) -> dict[str, Any]:
    """What is there now, by what it is."""
    benchmark, policy = info.benchmark, info.policy
    provided = None if policy.provided is None else policy.provided.details
    return {
        "benchmark": benchmark.ref,
        "runtime": info.runtime.key or "this interpreter",
        "assets": dict(benchmark.asset_sources or benchmark.assets),
        "policy": {"ref": policy.ref, **({} if provided is None else provided)},
        "policy's runtime": None
        if policy.runtime is None
        else policy.runtime.key or policy.runtime.path or "this interpreter",
    }


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items() if each) or "none"
    return "none" if value is None else str(value)
