"""Playing the controls of a run: other policies, in the same episodes."""

from collections.abc import Callable
from dataclasses import replace

from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.run import continue_run
from envhub.policies.find import read_policy
from envhub.results.controls import control_directory
from envhub.results.run import Run


def play_controls(
    request: EvalRequest, run: Run, watcher_of: Callable[[str], Watcher]
) -> list[Run]:
    """Play each control that was asked for, into a run below the run's directory.

    A control that was played before stays as it is, and one that was interrupted is continued.

    Args:
        request: The request that the run was made with.
        run: The run.
        watcher_of: Makes the receiver of a control's progress.
    """
    played: list[Run] = []
    for name in request.controls:
        directory = control_directory(run.directory, name)
        control = replace(
            request,
            policy=read_policy(name),
            policy_python=None,
            policy_processes=1,
            seeding=run.run_info.plan.seeding,
            controls=(),
            out=directory,
        )
        played.append(continue_run(control, directory, watcher_of(name)))
    return played
