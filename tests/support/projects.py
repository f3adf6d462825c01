"""Projects that `envhub new` makes, built, installed and run as their authors would."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from support.run_tools import Answer, envhub, variables

ODD = {
    "name": "Größe XL  - push_it-to-the-limit: a very long name, longer than any file's",
    "author": 'Zoë "Zed" Müller \\ 李小龙 🤖',
    "description": 'It\'s "hard" \\ 100 % real — really',
    "owner": "some-one",
}
"""Answers with spaces, dashes, quotes, a backslash, and letters beyond ASCII."""


def new(place: Path, *arguments: str, answers: dict[str, str] | None = None) -> Answer:
    """Run `envhub new --no-input` in a directory."""
    given = [word for key, value in (answers or {}).items() for word in ("--set", f"{key}={value}")]
    return envhub("new", *arguments, *given, "--no-input", cwd=place)


def make(place: Path, *arguments: str, answers: dict[str, str] | None = None) -> Path:
    """Make a project below a directory, with the template's own name for it."""
    before = set(place.iterdir())
    done = new(place, *arguments, answers=answers)
    assert done.code == 0, done.err
    [made] = set(place.iterdir()) - before
    return made


def files_of(project: Path) -> set[str]:
    """The paths of all files of a project."""
    return {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}


def run(*argv: object, cwd: Path, **more: str) -> str:
    """Run a program of the author's; returns what it printed."""
    done = subprocess.run(
        list(map(str, argv)), cwd=cwd, env=variables(**more), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(project: Path, into: Path) -> Path:
    """Build its wheel, with the backend that is installed here: no network is used."""
    command = ("wheel", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", into)
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", *command, project, cwd=project)
    [wheel] = into.glob("*.whl")
    return wheel


def install(wheel: Path, place: Path) -> Path:
    """Install a wheel in a new environment that sees the packages of this one; its interpreter."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    [site] = place.glob("lib/python*/site-packages")
    outer = sysconfig.get_paths()["purelib"]
    # After its own packages; the second line runs the .pth files of the other environment.
    (site / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
    target = ("--target", site, "--no-deps", "--no-index", "--quiet")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
    run(*pip, *target, wheel, cwd=place)
    return python


def check_style(project: Path) -> None:
    """Its own linter and formatter pass, with its own settings."""
    ruff = Path(sys.executable).with_name("ruff")
    run(ruff, "check", "--no-cache", ".", cwd=project)
    run(ruff, "format", "--no-cache", "--check", ".", cwd=project)


def check_types(project: Path, cache: Path) -> None:
    """Its own type checker passes, with its own settings; without a cache that takes a minute."""
    run(Path(sys.executable).with_name("mypy"), "--cache-dir", cache, cwd=project)
