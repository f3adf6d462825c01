"""`envhub publish`: upload a benchmark to the Hub."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from envhub.cli.options import (
    TERMINAL,
    debug_option,
    env_arg_option,
    escaped,
    excerpt,
    message,
    timeout_option,
)
from envhub.declarations import Benchmark
from envhub.errors import UsageError
from envhub.host.loading import LazySpec, describe
from envhub.options import Argument, Limits
from envhub.refs import HubRef, PathRef, parse
from envhub.scratch import scratch_directory, temporary_directory
from envhub.sources.find import locate
from envhub.sources.hub import TAG, Hub, endpoint
from envhub.sources.publish import Selection, copy_published
from envhub.text import pluralize
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv

_NAMED = 5


@click.command("publish")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("repo", metavar="OWNER/REPO")
@click.option("--private", is_flag=True, help="Make the repository private.")
@click.option(
    "--include",
    multiple=True,
    metavar="FILE",
    help="Publish a hidden file, or one that looks like a secret. Repeatable.",
)
@click.option(
    "--message",
    "commit_message",
    metavar="TEXT",
    default="Publish with envhub",
    show_default=True,
    help="The message of the commit.",
)
@click.option("--tag", metavar="NAME", help="Tag the commit, as v1.0; the tag must be new.")
@click.option("--yes", is_flag=True, help="Upload without asking.")
@env_arg_option
@timeout_option
@debug_option
def command(
    directory: Path,
    repo: str,
    *,
    private: bool,
    include: tuple[str, ...],
    commit_message: str,
    tag: str | None,
    yes: bool,
    env_args: dict[str, Argument],
    limits: Limits,
) -> None:
    """Upload DIRECTORY as the model repository OWNER/REPO and print the reference to share.

    The env.py is loaded first, from a copy of the files that will be uploaded, and an env of each
    suite is made and reset, to see that they are a benchmark that works without the files that
    stay here. Then the files are listed, and you are asked. Links that lead out of the
    directory and files that look like secrets are refused. The repository gets the tag envhub, so
    that `envhub search` finds it.

    \b
    Examples:
        envhub publish ./my_env me/my-env
        envhub publish ./my_env me/my-env --yes
        envhub publish ./my_env me/my-env --include tests/token.txt
        envhub publish ./my_env me/my-env --message "Harder goals" --tag v2
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    ref = parse(repo)
    if not isinstance(ref, HubRef) or ref.revision is not None:
        raise UsageError(f"{repo} is not of the form OWNER/REPO.")
    if tag is not None:
        parse(f"{repo}@{tag}")  # so that people can write it
    if not commit_message.strip():
        raise UsageError("--message is empty: say what the commit changes.")
    locate(PathRef(f"{directory.resolve()}"))
    with scratch_directory() as place:
        folder = place / "upload"
        selection = copy_published(directory, folder, include)
        _show_left_out(selection)
        copy = place / "check" / (directory.resolve().name or "env")
        _copy_to_check(folder, copy)
        _hide_from_imports(directory.resolve())
        benchmark = _check(copy, env_args, limits)
        _write_card(folder / "README.md", benchmark)
        _confirm(folder, selection, f"{endpoint()}/{ref.repo_id}", private=private, yes=yes)
        hub = Hub(private=True)
        commit = hub.publish(
            ref.repo_id, folder, private=private, ignore=[], message=commit_message, tag=tag
        )
    message(
        f"{pluralize(len(benchmark.tasks()), 'task')} published at {hub.endpoint}/{ref.repo_id}"
    )
    click.echo(str(HubRef(ref.owner, ref.repo, commit)))


def _copy_to_check(folder: Path, copy: Path) -> None:
    """Make another copy, because code may write beside itself. It has the directory's name."""
    try:
        shutil.copytree(folder, copy)
    except OSError as exc:  # one for each file, or one
        reason = exc.strerror or str(exc.args[0][0][2]).partition(":")[0]
        raise UsageError(
            f"Nothing was uploaded: a copy of the files cannot be made in {temporary_directory()}: "
            f"{reason}. Set TMPDIR to a directory that has the space and can be written to."
        ) from exc


def _hide_from_imports(directory: Path) -> None:
    """Take the directory, its parents and its folders out of PYTHONPATH: workers use the copy."""
    listed = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    places = {part: Path(part).resolve() for part in listed}
    kept = [
        part
        for part, place in places.items()
        if not directory.is_relative_to(place) and not place.is_relative_to(directory)
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)


def _check(copy: Path, env_args: dict[str, Argument], limits: Limits) -> Benchmark:
    """Load the benchmark, and make and reset an env of the first task of each suite."""
    spec = WorkerSpec(locate(PathRef(str(copy))), env_args, limits, horizon=1)
    described = describe(spec, "auto", reporter=TERMINAL)
    lazy = LazySpec(described, "auto")
    for suite, tasks in described.benchmark.suites.items():
        options = {"init_state": 0} if tasks[0].init_states else None
        with LazyVectorEnv(lazy, suite, tasks[0].name, 1) as env:
            env.reset(seed=0, options=options)
    return described.benchmark


def _show_left_out(selection: Selection) -> None:
    for reason, paths in selection.left_out.items():
        more = f" and {len(paths) - _NAMED} more" if paths[_NAMED:] else ""
        named = ", ".join(map(escaped, paths[:_NAMED]))
        message(f"Left out, because {reason}: {named}{more}.")


def _confirm(folder: Path, selection: Selection, place: str, *, private: bool, yes: bool) -> None:
    """List what will be uploaded, and ask."""
    notes = {"README.md": "written by envhub", **selection.published}
    sizes = {path: (folder / path).stat().st_size for path in sorted(notes)}
    message(f"To upload to {place}, which is {'private' if private else 'public'} if it is new:")
    for path, size in sizes.items():
        message(f"  {size:>11,}  {path}{f'  ({notes[path]})' if notes[path] else ''}")
    many = pluralize(len(sizes), "file")
    message(f"  {sum(sizes.values()):>11,}  bytes in {many}")
    if yes:
        return
    if not sys.stdin.isatty():
        line = shlex.join(["envhub", *sys.argv[1:], "--yes"])
        raise UsageError(
            "Nothing was uploaded: there is no terminal to ask at. If these are the files to "
            f"upload:\n  {line}"
        )
    if not click.confirm("Upload these files?", default=False, err=True):
        raise UsageError("Nothing was uploaded: you said no.")


def _write_card(path: Path, benchmark: Benchmark) -> None:
    """Write a README with the tag, or add the tag to the README that exists."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else _card(benchmark)
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError("Nothing was uploaded: README.md is not a file in UTF-8.") from exc
    head, rest = _front_matter(text)
    if TAG not in [line.strip(" -\"'") for line in head]:
        head = _with_tag(head)
    path.write_text("\n".join(["---", *head, "---", rest.lstrip("\n")]), encoding="utf-8")


def _front_matter(text: str) -> tuple[list[str], str]:
    lines = text.splitlines()
    if lines[:1] == ["---"] and "---" in lines[1:]:
        end = lines.index("---", 1)
        return lines[1:end], "\n".join(lines[end + 1 :]) + "\n"
    return [], text


def _with_tag(head: list[str]) -> list[str]:
    for index, line in enumerate(head):
        if line.rstrip() == "tags:":
            return [*head[: index + 1], f"- {TAG}", *head[index + 1 :]]
    return [*head, "tags:", f"- {TAG}"]


def _card(benchmark: Benchmark) -> str:
    rows = "\n".join(
        f"| {suite} | {len(tasks)} | {excerpt(tasks[0].description).replace('|', '&#124;')} |"
        for suite, tasks in benchmark.suites.items()
    )
    return (
        f"# {benchmark.name}\n\nA benchmark for EnvHub.\n\n"
        f"| suite | tasks | first task |\n|---|---|---|\n{rows}\n"
    )
