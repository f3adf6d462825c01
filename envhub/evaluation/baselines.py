"""Playing the baselines of a run: other policies, in the same episodes."""

from collections.abc import Callable
from dataclasses import replace

from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.run import continue_run
from envhub.policies.find import read_policy
from envhub.results.baselines import baseline_directory
from envhub.results.run import Run


def play_baselines(
    request: EvalRequest, run: Run, watcher_of: Callable[[str], Watcher]
) -> list[Run]:
    """Play each baseline that was asked for, into a run below the run's directory.

    A baseline that was played before stays as it is, and one that was interrupted is continued.

    Args:
        request: The request that the run was made with.
        run: The run.
        watcher_of: Makes the receiver of a baseline's progress.
    """
    played: list[Run] = []
    for name in request.baselines:
        directory = baseline_directory(run.directory, name)
        baseline = replace(
            request,
            policy=read_policy(name),
            policy_python=None,
            policy_processes=1,
            seeding=run.run_info.plan.seeding,
            baselines=(),
            videos_follow=False,
            out=directory,
        )
        played.append(continue_run(baseline, directory, watcher_of(name)))
    return played
