"""`--log wandb`: a run of Weights & Biases; `WANDB_MODE`, `WANDB_PROJECT` ... say where.

Without an API key, or with EnvHub's `--offline`, it is written to `RUN/wandb/`, for `wandb sync`.
"""

import os
from pathlib import Path
from typing import Any

import wandb

from envhub import hookimpl
from envhub.offline import is_offline
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.summary import Summary
from envhub_loggers.content import PROJECT, group_of, id_of, identity, name_of
from envhub_loggers.log import Log

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # to its makers
_SECONDS = 30
"""That its server may take to answer."""


class _Board:
    def __init__(self, run: Run) -> None:
        mode = _mode()
        # The server continues a run by its id; two runs of an id in files would replace each other.
        again: dict[str, Any] = {"id": id_of(run), "resume": "allow"} if mode == "online" else {}
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=os.environ.get("WANDB_NAME") or name_of(run),
            group=os.environ.get("WANDB_RUN_GROUP") or group_of(run),
            dir=os.environ.get("WANDB_DIR") or str(run.directory),
            mode=mode,
            config={"run": identity(run.run_info)},
            reinit="create_new",  # cells of an experiment are played at the same time
            settings=wandb.Settings(
                silent=True, console="off", init_timeout=_SECONDS, x_disable_stats=True
            ),
            **again,
        )
        self._run.define_metric("episodes")
        self._run.define_metric("*", step_metric="episodes")

    def log(self, step: int, values: dict[str, float]) -> None:
        self._run.log({"episodes": step, **values})

    def conclude(self, step: int, values: dict[str, float]) -> None:
        self._run.summary.update(values)

    def show(self, step: int, name: str, video: Path) -> None:
        self._run.log({"episodes": step, f"failures/{name}": wandb.Video(str(video), format="mp4")})

    def close(self, *, complete: bool) -> None:
        self._run.finish(exit_code=0 if complete else 1)


def _mode() -> Any:
    if is_offline():
        return "offline"
    chosen = os.environ.get("WANDB_MODE")
    if chosen:
        return chosen
    return "online" if wandb.login(prompt=False, verify=False) else "offline"


_log = Log(_Board)


@hookimpl
def envhub_run_started(run: Run) -> None:
    """Note the run."""
    _log.started(run)


@hookimpl
def envhub_episode_finished(run: Run, record: EpisodeRecord) -> None:
    """Log the episode."""
    _log.recorded(run, record)


@hookimpl
def envhub_run_finished(run: Run, summary: Summary) -> None:
    """Log the results."""
    _log.finished(run, summary)
