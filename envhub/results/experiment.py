"""An experiment: its cells, and its directory.

experiment.json  what was asked, with this user's seal
failures.json    the cells that could not be played, and why
POLICY-BENCHMARK-seedN/   the run of each cell
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import envhub
from envhub.errors import RunDirectoryError, UsageError
from envhub.files import write_whole
from envhub.results.experiment_file import Question, check_content, parse_experiment
from envhub.results.journal import read_json
from envhub.results.run import Run, open_run
from envhub.results.seal import FIELD, is_sealed, make_seal

NAME = "experiment.json"
FAILURES = "failures.json"
_FORMAT = 1
_MOST = 2**22
"""Bytes of its files."""
_LOCAL = ("./", "../")


@dataclass(frozen=True, slots=True)
class Cell:
    """A policy on a benchmark with a seed."""

    policy: str
    """The name of the row."""
    benchmark: str
    """The name of the column."""
    seed: int
    directory: Path
    """Of its run."""
    options: Mapping[str, Any] = field(compare=False)
    """Those that the experiment sets for it."""

    @property
    def name(self) -> str:
        """The cell, for people."""
        return f"{self.policy} on {self.benchmark}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What an experiment asks, and where its runs are."""

    directory: Path
    base: Path
    """Where relative paths in it begin."""
    question: Question
    content: Mapping[str, Any]
    """The question as plain data."""
    cells: tuple[Cell, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """How it was begun: the sandbox, and the names of `--env-var`."""

    def runs(self) -> dict[Cell, Run]:
        """Return the runs that have begun."""
        return {
            cell: open_run(cell.directory)
            for cell in self.cells
            if (cell.directory / "run.json").exists()
        }

    def failures(self) -> dict[str, str]:
        """Return why cells could not be played, by the names of their directories."""
        try:
            found = read_json(self.directory / FAILURES, _MOST)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise RunDirectoryError(f"{self.directory}/{FAILURES} is damaged: {exc}.") from exc
        if not isinstance(found, dict):
            raise RunDirectoryError(f"{self.directory}/{FAILURES} is damaged: it is no object.")
        return {str(name): str(text) for name, text in found.items()}

    def policy_text(self, cell: Cell) -> str:
        """The text of a cell's `--policy`, from the current directory."""
        return self.local(self.question.policies[cell.policy].policy)

    def ref(self, cell: Cell) -> str:
        """The reference of a cell's benchmark, from the current directory."""
        return self.local(self.question.benchmarks[cell.benchmark].ref)

    def local(self, text: str) -> str:
        """Return a text that may be a relative path, as seen from the current directory."""
        if text not in (".", "..") and not text.startswith(_LOCAL):
            return text
        if self.base == Path.cwd():
            return text
        found = os.path.relpath(self.base / text)
        if found.startswith("../.."):
            return os.path.normpath(self.base / text)
        return found if found.startswith("..") else f"./{found}"

    def command(self, cell: Cell) -> str:
        """Return the command that plays a cell alone, in the experiment's own directory."""
        question, options = self.question, cell.options
        words = ["envhub", "eval", question.benchmarks[cell.benchmark].ref]
        words += ["--policy", question.policies[cell.policy].policy]
        for name in (
            *("episodes", "seeding", "max_steps", "latency", "retries", "max_errors", "runtime"),
        ):
            if name in options:
                words += [f"--{name.replace('_', '-')}", str(options[name])]
        for name in ("policy_python", "policy_processes"):
            if name in options:
                words += [f"--{name.replace('_', '-')}", str(options[name])]
        for name in ("suites", "tasks"):
            if name in options:
                words += [f"--{name[:-1]}", ",".join(options[name])]
        for name in ("perturb", "env_args", "policy_args"):
            for key, value in options.get(name, {}).items():
                texts = name == "perturb" and isinstance(value, dict)
                said = "FILE" if texts else value if isinstance(value, str) else json.dumps(value)
                words += [f"--{name.removesuffix('s').replace('_', '-')}", f"{key}={said}"]
        if "timeout" in options:
            limits = (f"{name}={seconds:g}" for name, seconds in options["timeout"].items())
            words += ["--timeout", ",".join(limits)]
        if "instructions" in options:
            words += ["--instructions", "FILE"]
        if options.get("ignore_conventions"):
            words.append("--ignore-conventions")
        words += ["--seed", str(cell.seed)]
        place = "" if self.base == Path.cwd() else f"cd {shlex.quote(str(self.base))} && "
        return f"{place}{shlex.join(words)}"


def read_experiment_file(path: Path, directory: Path) -> Experiment:
    """Return the experiment that a TOML file describes.

    Args:
        path: The file.
        directory: Where its runs will be.

    Raises:
        UsageError: It cannot be read, or describes no experiment.
    """
    try:
        if path.stat().st_size > _MOST:
            raise UsageError(f"{path} has more than {_MOST:,} bytes: name an experiment's file.")
        text = path.read_text("utf-8")
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not UTF-8: {exc.reason}.") from exc
    question, content = parse_experiment(text, str(path))
    return make_experiment(question, content, directory, path.absolute().parent)


def make_experiment(
    question: Question,
    content: Mapping[str, Any],
    directory: Path,
    base: Path,
    options: Mapping[str, Any] | None = None,
) -> Experiment:
    """Return the experiment of a question, with its cells.

    Raises:
        UsageError: Two cells would have the same directory.
    """
    cells = tuple(
        Cell(
            policy=policy,
            benchmark=benchmark,
            seed=seed,
            directory=directory / _plain(policy, benchmark, seed),
            options=question.of_cell(policy, benchmark),
        )
        for benchmark in question.benchmarks
        for policy in question.policies
        for seed in question.seeds
    )
    known: dict[Path, Cell] = {}
    for cell in cells:
        other = known.setdefault(cell.directory, cell)
        if other is not cell:
            raise UsageError(
                f"{cell.name} and {other.name} would both be in {cell.directory.name}: rename one."
            )
    return Experiment(directory, base, question, content, cells, options or {})


def is_experiment(directory: Path) -> bool:
    """Whether a directory is that of an experiment."""
    return (directory / NAME).is_file()


def open_experiment(directory: str | Path, *, obey: bool = False) -> Experiment:
    """Open the experiment in a directory.

    Args:
        directory: Of the experiment.
        obey: Whether what it says is to be executed; it must then carry this user's seal.

    Raises:
        RunDirectoryError: The directory has none, or a damaged one, or one without the seal.
    """
    place = Path(directory)
    try:
        content = read_json(place / NAME, _MOST)
    except FileNotFoundError:
        raise RunDirectoryError(f"{place} is not an experiment: it has no {NAME}.") from None
    except (OSError, ValueError) as exc:
        raise RunDirectoryError(f"{place}/{NAME} cannot be read: {exc}.") from exc
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise RunDirectoryError(f"{place}/{NAME} has a format that this version does not read.")
    if obey and not is_sealed(content):
        raise RunDirectoryError(
            f"{place}/{NAME} does not carry your seal: somebody else made it, or it was changed, "
            f"so it is not obeyed. Say yourself what to run: envhub eval FILE.toml --out "
            f"{shlex.quote(str(place))} --continue"
        )
    asked, base, options = (content.get(name) for name in ("question", "base", "options"))
    if not isinstance(asked, dict) or not isinstance(base, str) or not isinstance(options, dict):
        raise RunDirectoryError(f"{place}/{NAME} is damaged: it has no question.")
    question = check_content(asked, f"{place}/{NAME}")
    return make_experiment(question, asked, place, Path(base), options)


def write_experiment(experiment: Experiment) -> None:
    """Write what an experiment asks into its directory, with this user's seal.

    Raises:
        RunDirectoryError: It cannot be written.
    """
    content: dict[str, Any] = {
        "format": _FORMAT,
        "envhub": envhub.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": str(experiment.base),
        "question": dict(experiment.content),
        "options": dict(experiment.options),
        "cells": [
            {
                "policy": cell.policy,
                "benchmark": cell.benchmark,
                "seed": cell.seed,
                "directory": cell.directory.name,
                "command": experiment.command(cell),
            }
            for cell in experiment.cells
        ],
    }
    content[FIELD] = make_seal(content)
    _write(experiment.directory / NAME, content)


def write_failures(experiment: Experiment, failures: Mapping[str, str]) -> None:
    """Write which cells could not be played, and why; none: remove what was said before.

    Raises:
        RunDirectoryError: It cannot be written.
    """
    path = experiment.directory / FAILURES
    if failures:
        _write(path, dict(failures))
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as exc:
        raise RunDirectoryError(f"{path} cannot be written: {exc.strerror or exc}.") from exc


def _plain(policy: str, benchmark: str, seed: int) -> str:
    """Return the name of a cell's directory."""
    names = (re.sub(r"[^A-Za-z0-9._]+", "-", name).strip(".-") for name in (policy, benchmark))
    return f"{'-'.join(names)}-seed{seed}"
