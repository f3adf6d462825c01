"""Completion in shells: what the command line offers behind the cursor, and `envhub completion`.

Nothing foreign is executed for a completion. Names of benchmarks and policies are read from the
metadata of installed packages; suites, tasks and the policies of a benchmark come from an installed
plugin's declaration, in a process of its own. A directory's code and the Hub are never asked.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class, split_arg_string

from envhub.declarations import Benchmark
from envhub.discovery import entry_points, find, installed
from envhub.errors import EnvHubError

VARIABLE = "_ENVHUB_COMPLETE"
"""Set by the shells' functions; click then completes instead of running a command."""
_LINES = {
    "bash": 'eval "$(envhub completion bash)"',
    "zsh": 'eval "$(envhub completion zsh)"',
    "fish": "envhub completion fish | source",
}
_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_LINES)))
def command(*, shell: str) -> None:
    """Print what SHELL needs to complete commands, options and names.

    \b
    Example, in ~/.bashrc, ~/.zshrc and ~/.config/fish/config.fish:
        eval "$(envhub completion bash)"
        eval "$(envhub completion zsh)"
        envhub completion fish | source
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    completion = get_completion_class(shell)
    assert completion is not None
    root = click.get_current_context().find_root().command
    script = completion(root, {}, "envhub", VARIABLE).source()
    click.echo(f"# In {_FILES[shell]}: {_LINES[shell]}\n{script}")


def add_completions(command: click.Command) -> None:
    """Let the parameters of a command complete what they mean, by their names."""
    for param in command.params:
        complete = _of(param)
        if complete is not None:
            param._custom_shell_complete = complete


def _of(param: click.Parameter) -> Complete | None:
    if isinstance(param, click.Argument):
        if param.metavar in ("RUN", "[RUN2]", "A B"):
            return _runs
        return _references if param.name == "ref" else None
    return {"suites": _suites, "tasks": _tasks, "policy": _policies, "resume": _runs}.get(
        param.name or ""
    )


def _references(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    if text.startswith((".", "/", "~")) or "/" in text:
        return [CompletionItem(text, type="file")]
    return _beginning(text, (plugin.name for plugin in installed()))


def _runs(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    above, _, _ = text.rpartition("/")
    folder = Path(above or ("/" if text.startswith("/") else ".")).expanduser()
    prefix = f"{above}/" if "/" in text else ""
    if not prefix and Path("runs").is_dir() and "runs".startswith(text):
        folder, prefix, text = Path("runs"), "runs/", "runs/"
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir()]
    runs = [f"{prefix}{path.name}" for path in found if (path / "run.json").is_file()]
    deeper = [f"{prefix}{path.name}/" for path in found if not (path / "run.json").is_file()]
    return _beginning(text, runs) or _beginning(text, deeper)


def _policies(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    if text.startswith((".", "/", "~")) or "/" in text:
        return [CompletionItem(text, type="file")]
    benchmark = _benchmark()
    declared = benchmark.policies if benchmark else ()
    named = (point.name for point in entry_points("envhub.policies"))
    schemes = (f"{point.name}:" for point in entry_points("envhub.policy_providers"))
    return _beginning(text, {"random", "zero", *declared, *named, *schemes})


def _suites(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    benchmark = _benchmark()
    return _last_of_list(text, ("all", *benchmark.suites) if benchmark else ())


def _tasks(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    benchmark = _benchmark()
    return _last_of_list(text, benchmark.tasks() if benchmark else ())


def _benchmark() -> Benchmark | None:
    """Return the declaration of the installed plugin that REF names; None for anything else."""
    # Click gives no arguments to a line that ends in an option without its value.
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    names = {plugin.name for plugin in installed()}
    name = next((word for word in words[2:] if word in names), None)
    if name is None:
        return None
    from envhub.host.loading import describe  # slow to import
    from envhub.options import Limits
    from envhub.types import PluginSource, WorkerSpec

    try:
        spec = WorkerSpec(PluginSource(find(name).name), {}, Limits(start=5.0), alone=True)
        return describe(spec, "here").benchmark
    except EnvHubError:  # a completion has nowhere to say why: the command will
        return None


def _last_of_list(text: str, names: Iterable[str]) -> list[CompletionItem]:
    """Complete the last name of `a,b`."""
    before, comma, last = text.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{name}") for name in sorted(names) if name.startswith(last)
    ]


def _beginning(text: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(text)]
