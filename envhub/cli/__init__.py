"""The command line: the only place that prints and exits. One module a command."""

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from envhub import __version__
from envhub.errors import (
    EnvHubError,
    ExitCode,
    UnknownName,
    WorkerDied,
    WorkerRaised,
    WorkerTimeout,
    printable,
)

# The line that `envhub --help` shows, here so that it imports no command.
COMMANDS = {
    "doctor": "Say what this machine has, and what to type where something is wrong.",
    "eval": "Evaluate a policy on a benchmark.",
    "info": "Say what a benchmark is: suites, tasks, horizons, observations.",
    "list": "List the installed benchmarks, or the tasks of one.",
    "lock": "Write down exactly which bytes a Hub reference means.",
    "plugins": "Show the installed plugins and whether each can be used.",
    "publish": "Put a benchmark on the Hub, and print the reference to share.",
    "runtime": "List, build and remove the interpreters that were built for benchmarks.",
    "search": "Find benchmarks on the Hub.",
    "trust": "Look at code of the Hub, and agree to run it at one commit.",
    "try": "Run one random episode of a benchmark, and keep a picture of its last frame.",
}
# Where a command's name is none for a module.
_MODULES = {"eval": "evaluate", "try": "try_episode"}


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"envhub.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Commands are not known to click, so that its own message would offer no close ones.
        if args[0] not in COMMANDS and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise UnknownName("command", args[0], COMMANDS, advice="See envhub --help.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envhub")
def group() -> None:
    """Evaluate robot policies on benchmarks that live anywhere.

    \b
    Examples:
        envhub info ./my_env
        envhub eval ./my_env --policy ./policy.py --episodes 50
        envhub doctor
    """  # noqa: D301 - click takes the backspace as "do not rewrap"


def main() -> None:
    """Run the command line; the one place that turns errors into exit codes."""
    debug = "--debug" in sys.argv[1:]
    if isinstance(sys.stdout, TextIOWrapper):  # None where a caller has closed it
        sys.stdout.reconfigure(errors="backslashreplace")  # texts are foreign, terminals not UTF-8
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.Abort:
        code = ExitCode.INTERRUPTED
    except click.ClickException as exc:
        exc.show()
        code = ExitCode.USAGE
    except EnvHubError as exc:
        click.echo(printable(_trace(exc) if debug else f"envhub: {exc}{_advise(exc)}"), err=True)
        code = exc.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = ExitCode.FOUND
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _advise(error: EnvHubError) -> str:
    """What to do about an error whose own text cannot tell, in a line of its own."""
    match error:
        case WorkerRaised(contract=True):
            return ""
        case WorkerRaised(kind="ModuleNotFoundError"):
            if "# /// script" in error.message:
                return "\n--debug shows the traceback."
            return "\nInstall what it imports beside envhub; --debug shows the traceback."
        case WorkerRaised():
            return "\n--debug shows the traceback."
        case WorkerTimeout():
            return "\n--timeout raises the limit."
        case WorkerDied():
            return "\nRun its code with python, without EnvHub, to see why."
    return ""


def _trace(error: EnvHubError) -> str:
    """The traceback here, after the one in the worker if there was one."""
    import traceback

    here = "".join(traceback.format_exception(error)).rstrip()
    inside = error.traceback if isinstance(error, WorkerRaised) else ""
    return f"In the worker:\n{inside}\nHere:\n{here}" if inside else here
