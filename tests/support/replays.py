"""Runs to be played again: of `assets/replayed`, whose envs note their states."""

import shutil
from pathlib import Path

import envhub
from envhub import Run, open_run
from envhub.results.journal import read_run, write_json
from envhub.results.seal import seal
from support.paths import ASSETS

REPLAYED = ASSETS / "replayed"
POLICY = f"{REPLAYED / 'policy.py'}"


def make_recorded(out: Path, file: str = "env.py", *, log: Path | None = None, **options) -> Run:
    """Evaluate a policy that looks at everything; with a log, states are noted there."""
    env_args = {"log": str(log)} if log else {}
    options = {"workers": 1, "env_args": env_args, **options}
    return envhub.evaluate(REPLAYED / file, POLICY, out=out, **options)


def copy_recorded(source: Run, out: Path) -> Run:
    """Copy a run that others share, and seal it: the key of every test is another one."""
    shutil.copytree(source.directory, out)
    for path in out.rglob("run.json"):  # those of baselines, too
        manifest = read_run(path.parent)
        del manifest["seal"]
        write_json(path, seal(manifest))
    return open_run(out)


def states(log: Path, record) -> list[str]:
    """The states of an episode, one text each time that it was played, without what was drawn."""
    text = (log / f"{record.task}.{record.seed}").read_text()
    return [line.replace(" drawn", "").strip() for line in text.split("\n")[1:]]


def drawn(log: Path, record) -> list[int]:
    """How often the policy's picture was drawn, each time that the episode was played."""
    text = (log / f"{record.task}.{record.seed}").read_text()
    return [line.count("drawn") for line in text.split("\n")[1:]]
