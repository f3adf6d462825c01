"""Options that several commands share, and how their texts become values."""

import json
from collections.abc import Callable
from typing import Any

import click

from envhub.errors import UsageError, printable
from envhub.types import Limits, Value

Command = Callable[..., Any]


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def debug_option(command: Command) -> Command:
    """`--debug`; read by `envhub.cli.main`, which shows the traceback."""
    text = "Show tracebacks."
    return click.option("--debug", is_flag=True, expose_value=False, help=text)(command)


def env_arg_option(command: Command) -> Command:
    """`--env-arg KEY=VALUE`, repeatable."""
    return click.option(
        "--env-arg",
        "env_args",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _ctx, _param, texts: parse_args("--env-arg", texts),
        help="An argument for the benchmark's env maker; JSON if it parses, else text. Repeatable.",
    )(command)


def timeout_option(command: Command) -> Command:
    """`--timeout start=300,...`."""
    return click.option(
        "--timeout",
        "limits",
        metavar="PHASE=SECONDS,...",
        default="",
        callback=lambda _ctx, _param, text: parse_limits(text),
        help="Limits, e.g. start=300,reset=120,step=60; a bare number is the limit for start.",
    )(command)


def parse_args(option: str, texts: tuple[str, ...]) -> dict[str, Value]:
    """`("a=1", "b=x")` as `{"a": 1, "b": "x"}`."""
    parsed: dict[str, Value] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"{option} {text!r} is not KEY=VALUE; write e.g. {option} size=256.")
        if key in parsed:
            raise UsageError(f"{option} {key!r} is given twice.")
        parsed[key] = _parse_value(option, key, value)
    return parsed


def parse_limits(text: str) -> Limits:
    """`start=300,step=60` as limits; what is not named keeps its default."""
    limits: dict[str, float] = {}
    known = ("start", "reset", "step")
    for part in filter(None, text.split(",")):
        name, equals, number = part.partition("=")
        name, number = (name.strip(), number) if equals else ("start", part)
        if name not in known:
            raise UsageError(f"--timeout knows no {name!r}; there is {', '.join(known)}.")
        try:
            limits[name] = float(number)
        except ValueError:
            raise UsageError(f"--timeout {part!r}: {number!r} is no number of seconds.") from None
        if not 0 < limits[name] < float("inf"):
            raise UsageError(f"--timeout {part!r}: a limit is a positive number of seconds.")
    return Limits(**limits)


def one_line(text: str) -> str:
    """Foreign text as it may stand in a line of output: no control characters, no line ends."""
    return printable(text.replace("\n", " ").replace("\t", " "))


def _parse_value(option: str, key: str, text: str) -> Value:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, bool | int | float | str | None):
        return value
    raise UsageError(f"{option} {key}: {text} is a list or mapping; give a number, text or null.")
