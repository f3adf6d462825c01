"""The controls of a run: policies that show its floor and its ceiling, on the same episodes."""

import re
from dataclasses import dataclass
from pathlib import Path

from envhub.errors import UsageError
from envhub.results.compare import Verdict, compare
from envhub.results.run import Run, open_run
from envhub.results.summary import Line

FOLDER = "controls"
FLOOR = ("zero", "random")
"""Controls that any policy should be better than; others show what is possible."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Control:
    """What another policy did in the same episodes."""

    name: str
    overall: Line
    verdict: Verdict | None
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


def parse_controls(text: str) -> tuple[str, ...]:
    """Parse `zero,random,expert`.

    Raises:
        UsageError: A name is empty, or not that of a policy of EnvHub or of a benchmark.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--controls {text!r} must name zero, random, or policies of the benchmark such as "
                "expert, with commas between them."
            )
    return tuple(dict.fromkeys(names))


def control_directory(run: Path, name: str) -> Path:
    """Return where the control of a run is."""
    return run / FOLDER / name


def control_names(run: Path) -> list[str]:
    """Return the names of the controls below a run's directory."""
    folder = run / FOLDER
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir() if (path / "run.json").is_file())
    return [name for name in names if _NAME.fullmatch(name)]


def read_controls(run: Run) -> list[Control]:
    """Return the controls of a run that have records, the floor first."""
    found = [
        (name, open_run(control_directory(run.directory, name)).keep_records())
        for name in control_names(run.directory)
    ]
    controls = [_control(name, control, run) for name, control in found if control.records()]
    return sorted(controls, key=lambda control: (not control.is_floor, control.name))


def _control(name: str, control: Run, run: Run) -> Control:
    overall = control.summary().overall
    try:
        found = compare(control, run)
    except UsageError as problem:
        return Control(name, overall, None, str(problem))
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    words = f"{100 * found.difference:+.1f} points {interval}, p = {found.p:.3g}"
    return Control(name, overall, found.verdict, words)
