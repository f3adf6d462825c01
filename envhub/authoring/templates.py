"""Find the templates, and make a project of one.

They are plain cookiecutters without hooks, in `templates/` of a checkout and inside the installed
package; cookiecutter itself gives the same project. It is imported here only, when it is needed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import envhub
from envhub.errors import UsageError
from envhub.files import discard_tree, staged_tree

Kind = Literal["benchmark", "policy", "wrapper"]

_PACKAGE = Path(envhub.__file__).parent
_PLACES = (_PACKAGE / "templates", _PACKAGE.parent / "templates")
"""In an installed package, in a checkout."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a template."""

    key: str
    text: str
    default: str | None
    """None: there is none, so that it must be answered."""


def find_template(kind: Kind) -> Path:
    """Return the directory of a template.

    Raises:
        UsageError: This installation has no templates.
    """
    for place in _PLACES:
        if (place / kind / "cookiecutter.json").is_file():
            return place / kind
    raise UsageError(f"This installation of EnvHub has no template {kind!r}: install it again.")


def questions(kind: Kind) -> tuple[Question, ...]:
    """Return the questions of a template, in order."""
    declared = json.loads((find_template(kind) / "cookiecutter.json").read_text(encoding="utf-8"))
    texts = declared["__prompts__"]
    return tuple(
        Question(key, texts[key], default)
        for key, default in declared.items()
        if not key.startswith("_")
    )


def make_project(
    kind: Kind,
    answers: Mapping[str, str],
    directory: Path | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Make a new directory with a project; it is there whole or not at all.

    Args:
        kind: The template.
        answers: To its questions; the others keep their defaults.
        directory: The directory to make; None: one below this one, with the template's own name.
        files: More files of the project, by their paths; `PACKAGE` stands for its package.

    Returns:
        The directory.

    Raises:
        UsageError: The directory exists, cannot be made, cookiecutter is not installed, or an
            answer would be executed.
    """
    cookiecutter = check_possible(directory)
    for key, text in answers.items():  # some are what the code of an env says
        check_plain(key, text)
    parent = Path() if directory is None else directory.parent
    try:
        with staged_tree(parent, ".envhub-new-") as staged:
            project = _render(cookiecutter, find_template(kind), answers, staged)
            for compiled in [*project.rglob("__pycache__")]:  # pip compiles an installed template
                discard_tree(compiled)
            _add(project, files or {})
            place = directory or parent / project.name
            _refuse_existing(place)
            project.rename(place)
    except OSError as exc:
        raise UsageError(f"Nothing was made: {parent} cannot be written: {exc.strerror}.") from exc
    return place


def check_possible(directory: Path | None) -> Any:
    """Say at once what would keep a project from being made; return cookiecutter's modules.

    Raises:
        UsageError: As `make_project`.
    """
    if directory is not None:
        _refuse_existing(directory)
        if not directory.parent.is_dir():
            raise UsageError(f"{directory.parent} is not a directory: make it first.")
    return _import_cookiecutter()


def check_plain(key: str, text: str) -> None:
    """Refuse an answer with the signs that templates are written with: it would be executed.

    Raises:
        UsageError: It has them.
    """
    if any(sign in text for sign in ("{{", "{%", "{#")):
        what = key.lstrip("_")
        raise UsageError(f"The answer to {what!r} must not have two braces, or {{% or {{# in it.")


def _refuse_existing(place: Path) -> None:
    if place.is_symlink() or place.exists():
        raise UsageError(f"{place} exists: name a directory that does not.")


def _import_cookiecutter() -> Any:
    try:
        from cookiecutter import generate, prompt
    except ModuleNotFoundError as exc:
        raise UsageError(
            "envhub new needs cookiecutter, which is not installed: pip install cookiecutter"
        ) from exc
    return generate, prompt


def _render(cookiecutter: Any, template: Path, answers: Mapping[str, str], into: Path) -> Path:
    """Render a template. Unlike cookiecutter's command it touches nothing in the user's home."""
    generate, prompt = cookiecutter
    declared = str(template / "cookiecutter.json")
    context = generate.generate_context(context_file=declared, extra_context=dict(answers))
    context["cookiecutter"] = prompt.prompt_for_config(context, no_input=True)
    made = generate.generate_files(
        repo_dir=str(template), context=context, output_dir=str(into), accept_hooks=False
    )
    return Path(made)


def _add(project: Path, files: Mapping[str, bytes]) -> None:
    package = next((path.parent.name for path in project.glob("*/__init__.py")), "")
    for name, content in files.items():
        path = project / name.replace("PACKAGE", package, 1)
        path.write_bytes(content)
