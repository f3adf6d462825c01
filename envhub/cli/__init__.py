"""The command line: the only place that prints and exits. One module per command."""

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import TYPE_CHECKING

import click

from envhub import __version__
from envhub.cli.output import colors, echo_error, explain, show_usage
from envhub.errors import (
    EnvHubError,
    ExitCode,
    RunAborted,
    UnknownName,
    WorkerDied,
    WorkerError,
    WorkerRaised,
    WorkerTimeout,
    printable,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The summaries in `envhub --help`, kept here so that showing them imports no command.
GROUPS = {
    "Evaluate": {
        "eval": "Evaluate a policy on a benchmark.",
        "merge": "Make one run of the shards of several machines.",
        "reproduce": "Repeat a published evaluation, and judge its claims.",
        "serve": "Serve a policy to other programs and machines.",
    },
    "Look at runs": {
        "show": "Print the results of a run.",
        "report": "Write a page about a run: rates, episodes, failures.",
        "runs": "List the runs in a directory.",
        "compare": "Compare runs, episode by episode.",
        "explain": "Say why the results of two runs differ.",
        "replay": "Play a recorded episode again, and save its video.",
        "verify": "Replay recorded episodes and compare them.",
    },
    "Write benchmarks and policies": {
        "new": "Start a project for a benchmark or a policy.",
        "try": "Run one random episode and save a picture of its last frame.",
        "check": "Check whether a benchmark keeps its contract.",
        "info": "Describe a benchmark: suites, tasks, horizons, observations.",
        "list": "List the installed benchmarks, or the tasks of one of them.",
    },
    "Hub": {
        "search": "Find benchmarks on the Hub.",
        "trust": "Review code from the Hub, and agree to run it or lock it.",
        "publish": "Upload a benchmark to the Hub and print the reference to share.",
        "fetch": "Fetch all that an evaluation needs, for machines without a network.",
        "assets": "Fetch, list and update the files of benchmarks from Hub datasets.",
    },
    "This machine": {
        "doctor": "Check this machine and show how to fix problems.",
        "cache": "List and clean what was fetched and built.",
        "runtime": "List, build and remove the interpreters of benchmarks.",
        "completion": "Print the completion script of a shell.",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
_OLD_NAMES = ("lock", "plugins")
"""Of `trust --lock` and `list --check`; they work, and help does not show them."""
# Commands whose names cannot be the names of modules.
_MODULES = {"eval": "evaluate", "try": "try_episode"}


class _Commands(click.Group):
    """Import each command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in _OLD_NAMES:
            return None
        module = import_module(f"envhub.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        if ctx.resilient_parsing:  # a shell asks what it may complete
            from envhub.cli.completion import add_completions

            add_completions(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        # Click's own imports every command.
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        named = [item for item in COMMANDS.items() if item[0].startswith(incomplete)]
        return [CompletionItem(name, help=summary) for name, summary in named]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click does not know the commands, so its own message would suggest no close matches.
        known = {*COMMANDS, *_OLD_NAMES}
        if args[0] not in known and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise UnknownName("command", args[0], COMMANDS, advice="See envhub --help.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="envhub")
def group() -> None:
    """Evaluate robot policies on local, installed and Hub benchmarks.

    \b
    Examples:
        envhub info ./my_env
        envhub eval ./my_env --policy ./policy.py --episodes 50
        envhub doctor
    """  # noqa: D301 - click reads the backspace as "do not rewrap"


def main() -> None:
    """Run the command line; the one place that turns errors into exit codes."""
    debug = "--debug" in sys.argv[1:]
    _restart_without_workers(sys.argv[1:])
    if isinstance(sys.stdout, TextIOWrapper):  # None if a caller has closed it
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # foreign texts on a terminal without UTF-8
    try:
        code = group.main(prog_name="envhub", standalone_mode=False, color=colors())
    except click.exceptions.Abort:
        code = ExitCode.INTERRUPTED
    except click.ClickException as exc:
        show_usage(exc)
        code = ExitCode.USAGE
    except EnvHubError as exc:
        echo_error(printable(_trace(exc) if debug else f"envhub: {exc}{_advise(exc)}"))
        code = exc.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = ExitCode.FOUND
    except OSError as exc:
        explained = explain(exc)
        if explained is None or debug:
            raise
        text, code = explained
        echo_error(printable(f"envhub: {text}"))
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _restart_without_workers(arguments: list[str]) -> None:
    """With --workers 0, begin anew with the variables of workers that numpy reads when it starts.

    So an episode computes the same in this process as in a worker. A debugger is left alone.
    """
    spelled = "--workers=0" in arguments or ("--workers", "0") in pairwise(arguments)
    if arguments[:1] not in (["eval"], ["check"]) or not spelled or sys.gettrace() is not None:
        return
    from envhub.process import restart
    from envhub.sandbox.variables import kernel_variables

    missing = {name: v for name, v in kernel_variables().items() if name not in os.environ}
    if missing:
        restart(missing)


def _advise(error: EnvHubError) -> str:
    """Return advice, on a line of its own, for an error whose text has none."""
    match error:
        case WorkerRaised(contract=True):
            return ""
        case RunAborted(__cause__=WorkerError(hint=str(hint))) if hint:
            return ""
        case WorkerError(hint=str(hint)) if hint:
            return ""
        case RunAborted(__cause__=WorkerRaised(contract=False)):
            return "\n--debug shows the traceback."
        case WorkerRaised(kind="ModuleNotFoundError"):
            if "# /// script" in error.message or " to requirements.txt." in error.message:
                return "\n--debug shows the traceback."
            return "\nInstall the missing package next to envhub; --debug shows the traceback."
        case WorkerRaised():
            return "\n--debug shows the traceback."
        case WorkerTimeout():
            return "\nRaise the limit with --timeout."
        case WorkerDied():
            return "\nRun its code with python, without EnvHub, to see why."
    return ""


def _trace(error: EnvHubError) -> str:
    """Return the host's traceback, after the worker's if there is one."""
    import traceback

    in_host = "".join(traceback.format_exception(error)).rstrip()
    raised = error.__cause__ if isinstance(error, RunAborted) else error
    in_worker = raised.traceback if isinstance(raised, WorkerRaised) else ""
    return f"In the worker:\n{in_worker}\nIn the host:\n{in_host}" if in_worker else in_host
