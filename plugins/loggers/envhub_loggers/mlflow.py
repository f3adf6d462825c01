"""`--log mlflow`: a run in `MLFLOW_TRACKING_URI`, else in `.mlflow/` beside the run's directory."""

import logging
import os
import re
import time
from pathlib import Path

from envhub import hookimpl
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.summary import Summary
from envhub_loggers.content import PROJECT, group_of, id_of, identity, name_of
from envhub_loggers.log import Log

# They are read when it is imported. Its own limits are minutes, in which no episode would be
# recorded; and it would tell its makers that it was used.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of its tables
_FOLDER = ".mlflow"
_ID = "envhub.run"
_MOST_PARAM = 6000
"""Characters of a parameter."""
_MOST_VALUES = 500
"""That may be sent at once."""
_ODD = re.compile(r"[^A-Za-z0-9_\-. /]")


class _Board:
    def __init__(self, run: Run) -> None:
        uri, artifacts = _places(run)
        self._client = MlflowClient(tracking_uri=uri)
        experiment = _experiment(self._client, artifacts)
        self._run = self._find(experiment, id_of(run)) or self._begin(experiment, run)

    def _find(self, experiment: str, name: str) -> str | None:
        """Return the run of before, if this one is resumed."""
        found = self._client.search_runs([experiment], f"tags.`{_ID}` = '{name}'", max_results=1)
        if not found:
            return None
        self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    def _begin(self, experiment: str, run: Run) -> str:
        tags = {_ID: id_of(run), "envhub.directory": str(run.directory.absolute())}
        if (group := group_of(run)) is not None:
            tags["envhub.group"] = group
        begun = self._client.create_run(experiment, run_name=name_of(run), tags=tags).info.run_id
        about = [Param(key, text[:_MOST_PARAM]) for key, text in identity(run.run_info).items()]
        self._client.log_batch(begun, params=about)
        return str(begun)

    def log(self, step: int, values: dict[str, float]) -> None:
        now = int(1000 * time.time())
        metrics = [Metric(_key(name), value, now, step) for name, value in values.items()]
        for first in range(0, len(metrics), _MOST_VALUES):
            self._client.log_batch(self._run, metrics=metrics[first : first + _MOST_VALUES])

    def conclude(self, step: int, values: dict[str, float]) -> None:
        self.log(step, values)

    def show(self, step: int, name: str, video: Path) -> None:
        self._client.log_artifact(self._run, str(video), f"failures/{_key(name)}")
        self._client.log_batch(self._run, tags=[RunTag(f"envhub.video.{_key(name)}", video.name)])

    def close(self, *, complete: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if complete else "KILLED")


def _places(run: Run) -> tuple[str | None, str | None]:
    """Return where runs and files are logged; None: as MLflow's own settings say.

    Not where MLflow would put them, in the working directory: that may be a benchmark's, whose
    files are part of what is evaluated. Hidden files are not.
    """
    if os.environ.get("MLFLOW_TRACKING_URI"):
        return None, None
    place = run.directory.absolute().parent / _FOLDER
    place.mkdir(exist_ok=True)
    return f"sqlite:///{place}/mlflow.db", (place / "artifacts").as_uri()


def _experiment(client: MlflowClient, artifacts: str | None) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    return str(client.create_experiment(name, artifact_location=artifacts))


def _key(name: str) -> str:
    """Return a name as MLflow allows it."""
    return _ODD.sub(lambda found: f"_x{ord(found[0]):x}_", name)


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
