"""Evaluate robot policies on benchmarks that live anywhere.

Importing this package imports nothing: names are looked up when they are first used. A worker in a
sandbox is started by a process that has imported this, and would wait for `typing` alone 10 ms.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envhub_lerobot.program import load_lerobot_policy as load_lerobot_policy

    from envhub.api import evaluate as evaluate
    from envhub.api import experiment as experiment
    from envhub.api import explain as explain
    from envhub.api import make_env as make_env
    from envhub.api import replay as replay
    from envhub.api import verify as verify
    from envhub.declarations import Asset as Asset
    from envhub.declarations import Benchmark as Benchmark
    from envhub.declarations import Perturbation as Perturbation
    from envhub.declarations import Task as Task
    from envhub.errors import EnvHubError as EnvHubError
    from envhub.errors import RunDirectoryError as RunDirectoryError
    from envhub.errors import UsageError as UsageError
    from envhub.hookspecs import hookimpl as hookimpl
    from envhub.options import Limits as Limits
    from envhub.records import EpisodeRecord as EpisodeRecord
    from envhub.results.compare import Comparison as Comparison
    from envhub.results.compare import compare as compare
    from envhub.results.merge import merge_runs as merge_runs
    from envhub.results.report.page import report as report
    from envhub.results.run import Run as Run
    from envhub.results.run import open_run as open_run
    from envhub.results.summary import Summary as Summary
    from envhub.vector.close_envs import close_envs as close_envs
    from envhub.wire.normalize import normalize as normalize
    from envhub.wire.policy_contract import Context as Context
    from envhub.wire.policy_contract import Policy as Policy

__version__ = "0.1.0"

_HOMES = {
    "Asset": "envhub.declarations",
    "Benchmark": "envhub.declarations",
    "Comparison": "envhub.results.compare",
    "Context": "envhub.wire.policy_contract",
    "EnvHubError": "envhub.errors",
    "EpisodeRecord": "envhub.records",
    "Limits": "envhub.options",
    "Perturbation": "envhub.declarations",
    "Policy": "envhub.wire.policy_contract",
    "Run": "envhub.results.run",
    "RunDirectoryError": "envhub.errors",
    "Summary": "envhub.results.summary",
    "Task": "envhub.declarations",
    "UsageError": "envhub.errors",
    "close_envs": "envhub.vector.close_envs",
    "compare": "envhub.results.compare",
    "evaluate": "envhub.api",
    "experiment": "envhub.api",
    "explain": "envhub.api",
    "hookimpl": "envhub.hookspecs",
    "load_lerobot_policy": "envhub.policies.lerobot",
    "make_env": "envhub.api",
    "merge_runs": "envhub.results.merge",
    "normalize": "envhub.wire.normalize",
    "open_run": "envhub.results.run",
    "replay": "envhub.api",
    "report": "envhub.results.report.page",
    "verify": "envhub.api",
}

__all__ = [
    "Asset", "Benchmark", "Comparison", "Context", "EnvHubError", "EpisodeRecord", "Limits",
    "Perturbation", "Policy", "Run", "RunDirectoryError", "Summary", "Task", "UsageError",
    "__version__", "close_envs", "compare", "evaluate", "experiment", "explain", "hookimpl",
    "load_lerobot_policy", "make_env", "normalize", "open_run", "replay", "report", "verify",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'envhub' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
