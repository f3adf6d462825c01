"""`envhub new`: start a project for a benchmark or a policy."""

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envhub.authoring.templates import (
    Kind,
    Question,
    check_plain,
    check_possible,
    make_project,
    questions,
)
from envhub.cli.options import debug_option, excerpt, local_path, message, timeout_option
from envhub.declarations import MAX_HORIZON
from envhub.errors import UnknownName, UsageError
from envhub.options import Limits

if TYPE_CHECKING:
    from envhub.authoring.wrapping import Facts, Origin

_MAX_ANSWER = 200
_OWN_MODULES = frozenset({"env", "suites", "__init__"})
"""Files of a project that wraps an env; one that is wrapped is called otherwise."""
_RULES = ("terminated", "survived", "none")
"""Answers about success that are not keys of info."""
_TAKEN = frozenset({"core"})
"""Names whose distribution exists: EnvHub's own is envhub-core."""


@click.command("new")
@click.argument("directory", metavar="[DIR]", required=False, callback=local_path)
@click.option(
    "--from",
    "origin",
    metavar="ENV",
    help="Wrap a Gymnasium env: ./file.py, ./file.py:NAME or gym:ID. It is run once, in a worker.",
)
@click.option("--policy", is_flag=True, help="Start a policy instead of a benchmark.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _ctx, _param, texts: _parse(texts),
    help="Answer a question in advance; repeatable.",
)
@click.option("--no-input", is_flag=True, help="Ask nothing: take the defaults.")
@timeout_option
@debug_option
def command(
    directory: Path | None,
    *,
    origin: str | None,
    policy: bool,
    given: dict[str, str],
    no_input: bool,
    limits: Limits,
) -> None:
    """Make the directory DIR with a benchmark that runs at once, to be changed into yours.

    It is a package to install, with an entry point and tests, and a repository for the Hub. DIR
    must not exist; without it, the name that you give decides.

    \b
    Examples:
        envhub new
        envhub new ./my-benchmark --no-input --set author="Ada Lovelace"
        envhub new ./my-benchmark --from ./my_gym_env.py
        envhub new ./cart-pole --from gym:CartPole-v1
        envhub new ./my-policy --policy
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if origin is not None and policy:
        raise UsageError("--from wraps an env into a benchmark: omit --policy.")
    check_possible(directory)
    if directory is not None:
        given = {"name": directory.name.removeprefix("envhub-"), **given}
    if origin is not None:
        place = _wrap(origin, directory, given, limits, no_input=no_input)
        click.echo(f"envhub eval {_shown(place)}")
        return
    kind: Kind = "policy" if policy else "benchmark"
    answers = _answer(questions(kind), given, no_input=no_input)
    _check_name(answers["name"])
    place = make_project(kind, answers, directory)
    message(f"Made {place}.")
    click.echo(_next_step(kind, place))


def _wrap(
    text: str, directory: Path | None, given: dict[str, str], limits: Limits, *, no_input: bool
) -> Path:
    """Run the env once, ask what it does not say, and make the project around it."""
    from envhub.authoring.wrapping import look_at, read_origin  # imports Gymnasium

    origin = read_origin(text)
    asked = questions("wrapper")
    _refuse_unknown(asked, given)
    _check_rules(given)
    facts = look_at(origin, limits, message=message)
    _show(facts)
    found = {
        "name": facts.task,
        "instruction": facts.instruction,
        "success": facts.flags[0] if facts.flags else "none",
        "horizon": None if facts.horizon is None else str(facts.horizon),
    }
    asked = tuple(replace(q, default=found.get(q.key, q.default)) for q in asked)
    answers = _answer(asked, given, no_input=no_input)
    _check_name(answers["name"])
    _check_rules(answers)
    module = _module_name(origin)
    private = {
        "__task": facts.task,
        "__call": facts.call,
        "__module": module,
        "__import": facts.call.partition("(")[0] if module else "",
        "__packages": json.dumps(facts.packages),
        # LeRobot's policies read a state and pictures, which only an observation with keys has.
        "__one_array": "no" if facts.observation.startswith("Dict(") else "yes",
    }
    files = {f"PACKAGE/{module}.py": origin.file.read_bytes()} if origin.file else {}
    place = make_project("wrapper", answers | private, directory, files)
    message(f"Made {place}.")
    return place


def _show(facts: "Facts") -> None:
    shown = {
        "env": facts.call,
        **({"arguments": _tell_arguments(facts)} if facts.arguments else {}),
        "observation": facts.observation,
        "action": facts.action,
        "horizon": facts.horizon or "the env has none",
        "instruction": facts.instruction or "the env has none: it would be its task_description",
        "flags": ", ".join(facts.flags) or "no key of info was true or false",
        "frames": "drawn" if facts.drawn else "render() returns none",
        "packages": ", ".join(facts.packages) or "Gymnasium and numpy",
    }
    for key, value in shown.items():
        message(f"{key:<12} {excerpt(str(value))}")


def _tell_arguments(facts: "Facts") -> str:
    return f"{', '.join(facts.arguments)}; to make tasks of their values, edit suites.py"


def _check_rules(answers: dict[str, str]) -> None:
    success, horizon = answers.get("success", "none"), answers.get("horizon", "1")
    if not success.isidentifier():
        rules = ", ".join(_RULES)
        raise UsageError(
            f"success is {success!r}, which is neither a key of info nor one of {rules}."
        )
    if not re.fullmatch(r"[1-9][0-9]{0,9}", horizon) or int(horizon) > MAX_HORIZON:
        raise UsageError(f"horizon is {horizon!r}; it must be a whole number of steps.")


def _module_name(origin: "Origin") -> str:
    """The module that holds the wrapped file; none for an env that Gymnasium knows."""
    if origin.file is None:
        return ""
    stem = re.sub(r"\W", "_", origin.file.stem, flags=re.ASCII)
    return stem if stem.isidentifier() and stem not in _OWN_MODULES else f"wrapped_{stem}"


def _parse(texts: tuple[str, ...]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r} is not KEY=VALUE; write e.g. --set name=push.")
        if key in parsed:
            raise UsageError(f"--set {key!r} is given twice.")
        parsed[key] = value
    return parsed


def _answer(
    asked: tuple[Question, ...], given: dict[str, str], *, no_input: bool
) -> dict[str, str]:
    _refuse_unknown(asked, given)
    answers = {}
    for question in asked:
        text = given.get(question.key)
        if text is None:
            text = question.default if no_input else _ask(question)
        if text is None:
            raise UsageError(
                f"Nothing was made: the env does not say its {question.key}. Add --set "
                f"{question.key}=..."
            )
        answers[question.key] = _check(question.key, text)
    return answers


def _refuse_unknown(asked: tuple[Question, ...], given: dict[str, str]) -> None:
    keys = [question.key for question in asked]
    for key in given:
        if key not in keys:
            raise UnknownName("answer", key, keys, advice="See envhub new --help.")


def _ask(question: Question) -> str:
    if not sys.stdin.isatty():
        raise UsageError(
            "Nothing was made: there is no terminal to ask at. Add --no-input, and --set "
            f"{question.key}=... for answers that are not the defaults."
        )
    text: str = click.prompt(question.text, default=question.default, err=True)
    return text


def _check(key: str, text: str) -> str:
    if not text.strip() or len(text) > _MAX_ANSWER or not text.isprintable():
        raise UsageError(
            f"The answer to {key!r} must be one line of 1 to {_MAX_ANSWER} characters that can be "
            "seen."
        )
    check_plain(key, text)
    return text.strip()


def _check_name(name: str) -> None:
    if name.lower() in _TAKEN:
        raise UsageError(f"envhub-{name.lower()} is EnvHub's own package: choose another name.")


def _next_step(kind: Kind, place: Path) -> str:
    if kind == "policy":
        return f"envhub eval BENCHMARK --policy {_shown(place / 'policy.py')}"
    return f"envhub eval {_shown(place)} --policy expert"


def _shown(place: Path) -> str:
    return shlex.quote(str(place if place.is_absolute() else f"./{place}"))
