"""The baselines of a run: policies that show its floor and its ceiling, on the same episodes."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envhub.errors import UsageError
from envhub.results.run import Run, open_run
from envhub.results.summary import Line

if TYPE_CHECKING:  # most runs have no baselines
    from envhub.results.compare import Verdict

FOLDERS = ("baselines", "controls")
"""The folder of baselines in a run's directory, and its name before; both are read."""
FLOOR = ("zero", "random")
"""Baselines that any policy should be better than; others show what is possible."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What another policy did in the same episodes."""

    name: str
    overall: Line
    verdict: "Verdict | None"
    """What the run's policy is shown to be, compared with it; None if they cannot be compared."""
    words: str
    """How much the run's policy differs from it; or why they cannot be compared."""

    @property
    def is_floor(self) -> bool:
        """Whether any policy should be better."""
        return self.name in FLOOR

    @property
    def warning(self) -> str | None:
        """What must be said of a policy that is not above its floor."""
        if not self.is_floor or self.verdict in ("better", None):
            return None
        shown = "is worse than" if self.verdict == "worse" else "is not shown to be better than"
        return f"The policy {shown} {self.name} actions: {self.words}."


def parse_baselines(text: str) -> tuple[str, ...]:
    """Parse `zero,random,expert`.

    Raises:
        UsageError: A name is empty, or not that of a policy of EnvHub or of a benchmark.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--baselines {text!r} must name zero, random, or policies of the benchmark such "
                "as expert, with commas between them."
            )
    return tuple(dict.fromkeys(names))


def baseline_directory(run: Path, name: str) -> Path:
    """Return where the baseline of a run is, or would be."""
    places = [run / folder / name for folder in FOLDERS]
    return next((place for place in places if place.is_dir()), places[0])


def baseline_names(run: Path) -> list[str]:
    """Return the names of the baselines below a run's directory."""
    folders = [run / folder for folder in FOLDERS if (run / folder).is_dir()]
    paths = [path for folder in folders for path in folder.iterdir()]
    names = {path.name for path in paths if (path / "run.json").is_file()}
    return sorted(name for name in names if _NAME.fullmatch(name))


def read_baselines(run: Run) -> list[Baseline]:
    """Return the baselines of a run that have records, the floor first."""
    found = [
        (name, open_run(baseline_directory(run.directory, name)).keep_records())
        for name in baseline_names(run.directory)
    ]
    baselines = [_baseline(name, baseline, run) for name, baseline in found if baseline.records()]
    return sorted(baselines, key=lambda baseline: (not baseline.is_floor, baseline.name))


def _baseline(name: str, baseline: Run, run: Run) -> Baseline:
    from envhub.results.compare import compare

    overall = baseline.summary().overall
    try:
        found = compare(baseline, run)
    except UsageError as problem:
        return Baseline(name, overall, None, str(problem))
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    words = f"{100 * found.difference:+.1f} points {interval}, p = {found.p:.3g}"
    return Baseline(name, overall, found.verdict, words)
