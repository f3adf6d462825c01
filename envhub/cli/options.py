"""Options that several commands share, and how they are parsed."""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envhub.cli.output import echo_error
from envhub.config import read_setting
from envhub.errors import UsageError, printable
from envhub.offline import VARIABLE
from envhub.options import Argument, Limits, PolicyOptions, Reporter, SourceOptions
from envhub.values import MAX_DEPTH, find_value_problem

if TYPE_CHECKING:
    from envhub.results.require import Requirement
    from envhub.types import Source

Command = Callable[..., Any]

COLUMNS = 160
"""What a foreign text may fill: two lines of a terminal."""
SPACE_COLUMNS = 800
"""What a space may fill; that of a robot with many cameras is long."""


class RenamedOption(click.Option):
    """An option that help and errors call by its first name; the others are names of before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old_names = self.opts[1:]
        self.opts = self.opts[:1]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser know the names of before, too."""
        self.opts += self.old_names
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = self.opts[: -len(self.old_names)]


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups; others come last."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The names of options, by the title of their group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups."""
        left = {
            opt: record
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx)) is not None
            for opt in param.opts[-1:]
        }
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([left.pop(name) for name in names if name in left])
        with formatter.section("Other options"):
            formatter.write_dl(list(left.values()))


class WholeNumber(click.IntRange):
    """Whole numbers in a range; click's own errors would call `x` no valid integer range."""

    name = "whole number"


def local_path(
    _ctx: click.Context, param: click.Parameter, value: str | Path | None
) -> Path | None:
    """Turn the text of an option into a path: `~` is expanded, and an empty text is refused."""
    if value is None or isinstance(value, Path):
        return value
    if not value.strip():  # which Python takes for this directory
        name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        raise UsageError(f"{name.strip('[]')} is empty: name a path.")
    if "\0" in value:
        raise UsageError(f"{value!r} is not a path.")
    from envhub.files import expand_home  # commands must start fast

    return expand_home(value)


def runs_directory() -> Path:
    """Where new runs are made, if --out does not say."""
    return Path(read_setting("out").value)


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def debug_option(command: Command) -> Command:
    """Add `--debug`; `envhub.cli.main` reads it too, for errors that end a command."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_note_debug, help="Show tracebacks."
    )(command)


def debugging() -> bool:
    """Whether the command that runs was given `--debug`."""
    return bool(click.get_current_context().meta.get(_DEBUG))


def _note_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    context.meta[_DEBUG] = value


_DEBUG = "envhub.debug"


def _go_offline(given: bool) -> None:  # noqa: FBT001
    if given:
        os.environ[VARIABLE] = "1"


def source_options(command: Command) -> Command:
    """Add the options about code from the Hub, which the command gets as one value, `options`."""

    @wraps(command)
    def with_options(*args: Any, **params: Any) -> Any:
        names = [field.name for field in fields(SourceOptions)]
        options = SourceOptions(**{name: params.pop(name) for name in names})
        return command(*args, options=options, **params)

    wrapped: Command = with_options
    for option in reversed(_SOURCE_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def policy_options(command: Command) -> Command:
    """Add the options about a policy that the command names, and gets as one value, `policy`."""

    @wraps(command)
    def with_policy(
        *args: Any,
        policy: str | None,
        policy_args: dict[str, Argument],
        policy_python: str | None,
        **params: Any,
    ) -> Any:
        return command(*args, policy=PolicyOptions(policy, policy_args, policy_python), **params)

    wrapped = click.option(
        "--policy-python",
        metavar="PATH",
        show_default="this one, or as the policy's file declares",
        help="Interpreter of the policy's process, such as policy/.venv/bin/python.",
    )(with_policy)
    return click.option(
        "--policy-arg",
        "policy_args",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _ctx, _param, texts: parse_args("--policy-arg", texts),
        help="Argument for the policy's factory; JSON if it parses, else text. Repeatable.",
    )(wrapped)


def rerun_options(command: Command) -> Command:
    """Add the options of commands that run a recorded run's code again, as one value, `options`."""

    @wraps(command)
    def with_rerun_options(
        *args: Any,
        benchmark: str | None,
        env_args: dict[str, Argument],
        workers: int | None,
        options: SourceOptions,
        **params: Any,
    ) -> Any:
        from envhub.evaluation.rerun import RerunOptions  # commands must start fast

        if env_args and benchmark is None:
            raise UsageError("--env-arg needs --benchmark: without it the run says what to make.")
        name = str(click.get_current_context().info_name)
        rerun = RerunOptions(name, benchmark, env_args, workers, options)
        return command(*args, options=rerun, **params)

    wrapped: Command = source_options(with_rerun_options)
    wrapped = env_arg_option(wrapped)
    wrapped = click.option(
        "--workers",
        type=WholeNumber(min=1, max=4096),
        default=lambda: {"auto": None}.get(workers := read_setting("workers").value, workers),
        show_default="as many as cores and free memory allow",
        help="Worker processes.",
    )(wrapped)
    return click.option(
        "--benchmark",
        metavar="REF",
        help="The benchmark, for a run of somebody else; for yours, the run says it.",
    )(wrapped)


_SOURCE_OPTIONS = (
    click.option(
        "--trust-remote-code", is_flag=True, help="Agree to run REF's code at this commit."
    ),
    click.option(
        "--allow-unpinned", is_flag=True, help="With --trust-remote-code: accept a branch too."
    ),
    click.option(
        "--offline",
        is_flag=True,
        expose_value=False,
        callback=lambda _ctx, _param, given: _go_offline(given),
        help="Ask nothing of a network, and say at once what is not on this machine.",
    ),
    click.option("--private", is_flag=True, help="Use your token to read a private repository."),
    click.option("--locked", is_flag=True, help="Refuse anything that differs from envhub.lock."),
    click.option(
        "--sandbox",
        type=click.Choice(["auto", "bubblewrap", "landlock", "none"]),
        default="auto",
        help="Sandbox that confines code from the Hub.",
    ),
    click.option(
        "--sandbox-allow-network", is_flag=True, help="Let code from the Hub use the network."
    ),
    click.option(
        "--runtime",
        metavar="auto|here|isolated|NAME",
        default="auto",
        help="here: this interpreter; isolated: one built with REF's requirements; auto: here if "
        "they are installed, else isolated; NAME: another runtime that a plugin comes with.",
    ),
    click.option(
        "--env-var",
        "env_vars",
        multiple=True,
        metavar="NAME[=VALUE]",
        callback=lambda _ctx, _param, texts: parse_env_vars(texts),
        help="Environment variable that REF's code sees; without a value, yours. Repeatable.",
    ),
)


def get_source(ref: str, options: SourceOptions) -> "Source":
    """Find the source of a reference; messages go to standard error."""
    from envhub.sources.find import find_source

    return find_source(ref, options, message=message, on_progress=show_download)


def show_download(done: int, total: int, size: int, total_size: int) -> None:
    """Show the progress of a large download, if standard error is a terminal."""
    if total_size > 2**20 and sys.stderr.isatty():
        end = "\n" if done == total else ""
        text = f"\rfetching {done}/{total} files, {size / 2**20:.0f}/{total_size / 2**20:.0f} MB"
        echo_error(text + end, end="")


def message(text: str) -> None:
    """Print a line on standard error."""
    echo_error(printable(text))


TERMINAL = Reporter(message, message)


def env_arg_option(command: Command) -> Command:
    """Add `--env-arg KEY=VALUE`, repeatable."""
    return click.option(
        "--env-arg",
        "env_args",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _ctx, _param, texts: parse_args("--env-arg", texts),
        help="Argument for the benchmark's envs; JSON if it parses, else text. Repeatable.",
    )(command)


def timeout_option(command: Command) -> Command:
    """Add `--timeout start=300,...`."""
    return _timeout_option(command, ("start", "reset", "step"))


def policy_timeout_option(command: Command) -> Command:
    """Add `--timeout` to a command that runs a policy, which has a limit of its own."""
    return _timeout_option(command, ("start", "reset", "step", "act"))


def parse_args(option: str, texts: tuple[str, ...]) -> dict[str, Argument]:
    """Parse `("a=1", "b=x")` to `{"a": 1, "b": "x"}`."""
    parsed: dict[str, Argument] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"{option} {text!r} is not KEY=VALUE; write e.g. {option} size=256.")
        if key in parsed:
            raise UsageError(f"{option} {key!r} is given twice.")
        parsed[key] = _parse_value(option, key, value)
    return parsed


def parse_env_vars(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `("A=1", "B")` to `{"A": "1", "B": <its value in this process>}`."""
    parsed: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name in parsed:
            raise UsageError(f"--env-var {name} is given twice.")
        parsed[name] = value if equals else None
    if not parsed:
        return {}
    from envhub.sandbox.variables import chosen_variables

    return chosen_variables(parsed)


def parse_limits(text: str | None, known: tuple[str, ...]) -> Limits:
    """Parse `start=300,step=60`; limits that are not named keep their defaults."""
    limits: dict[str, float] = {}
    if text is None:
        return Limits()
    if not text.strip(", "):
        raise UsageError("--timeout is empty: write e.g. --timeout start=300,step=60.")
    for part in filter(None, text.split(",")):
        name, equals, number = part.partition("=")
        name, number = (name.strip(), number) if equals else ("start", part)
        if name not in known:
            raise UsageError(f"--timeout has no phase {name!r}. Available: {', '.join(known)}.")
        try:
            limits[name] = float(number)
        except ValueError:
            raise UsageError(
                f"--timeout {part!r}: {number!r} is not a number of seconds."
            ) from None
        if not 0 < limits[name] < float("inf"):
            raise UsageError(f"--timeout {part!r}: a limit must be a positive number of seconds.")
    return Limits(**limits)


def one_line(text: str) -> str:
    """Make foreign text fit into a line of output: no control characters, no line ends."""
    return printable(text.replace("\n", " ").replace("\t", " "))


def excerpt(text: str, columns: int = COLUMNS) -> str:
    """Foreign text of any length as one line; where it is cut, its length is said."""
    line = one_line(text[: columns + 1])
    width = 0
    for index, character in enumerate(line):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > columns:
            return f"{line[:index]}… ({len(text):,} characters)"
    return line


def escaped(name: str) -> str:
    """A foreign name as one line, with line ends and tabs to be seen."""
    return printable(name).replace("\n", r"\n").replace("\t", r"\t")


def _timeout_option(command: Command, phases: tuple[str, ...]) -> Command:
    defaults = ",".join(f"{phase}={getattr(Limits(), phase):.0f}" for phase in phases)
    return click.option(
        "--timeout",
        "limits",
        metavar="PHASE=SECONDS,...",
        show_default=defaults,
        callback=lambda _ctx, _param, text: parse_limits(text, phases),
        help="Time limit per phase; a bare number is the limit for start.",
    )(command)


def _parse_value(option: str, key: str, text: str) -> Argument:
    try:
        value: Argument = json.loads(text)
    except ValueError:
        value = text
    except RecursionError:
        raise UsageError(f"{option} {key} is nested deeper than {MAX_DEPTH} levels.") from None
    problem = find_value_problem(value)
    if problem is not None:
        raise UsageError(f"{option} {key}: {excerpt(text)} {problem}.")
    return value


instructions_option = click.option(
    "--instructions",
    metavar="FILE",
    callback=lambda _ctx, _param, text: {} if text is None else read_texts("--instructions", text),
    help="JSON file with what policies are told instead of the benchmark's texts: a text, or a "
    "list of texts, by task. envhub info REF --instructions prints one.",
)


def read_texts(option: str, text: str) -> dict[str, tuple[str, ...]]:
    """Read a file with texts by task; of a key that it has twice, the error says so."""
    from envhub.arguments import check_instructions  # commands must start fast
    from envhub.files import expand_home

    name = f"{option} {text}"
    try:
        data = expand_home(text).read_bytes()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"{name} cannot be read: {reason}. Check the path.") from exc
    try:
        content = json.loads(data, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{name} is not JSON: {exc}.") from exc
    return check_instructions(name, content)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {twice!r} twice")
    return found


require_option = click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="'[NAME.]FIELD>=NUMBER'",
    callback=lambda _ctx, _param, texts: _requirements(texts),
    help="End with exit code 1 unless every requirement is met: rate, ci_low, mean_return ... "
    "overall, or of a suite or task; rates are fractions. Repeatable.",
)


def _requirements(texts: tuple[str, ...]) -> "list[Requirement]":
    if not texts:
        return []
    from envhub.results.require import parse_requirement  # commands must start fast

    return [parse_requirement(text) for text in texts]
