"""`envhub publish`: upload a benchmark to the Hub."""

import shutil
import tempfile
from pathlib import Path

import click

from envhub.cli.options import debug_option, env_arg_option, message, timeout_option
from envhub.errors import UsageError
from envhub.host.loading import describe
from envhub.refs import HubRef, PathRef, parse
from envhub.sources.fetch import LEFT_OUT, is_left_out
from envhub.sources.find import locate
from envhub.sources.hub import TAG, Hub
from envhub.types import Benchmark, Limits, Value, WorkerSpec

_NAMED = 5
_IGNORED = ["__pycache__/*", "*/__pycache__/*", "*.pyc", ".*", "*/.*", "runs/*"]


@click.command("publish")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("repo", metavar="OWNER/REPO")
@click.option("--private", is_flag=True, help="Make the repository private.")
@env_arg_option
@timeout_option
@debug_option
def command(
    directory: Path,
    repo: str,
    *,
    private: bool,
    env_args: dict[str, Value],
    limits: Limits,
) -> None:
    """Upload DIRECTORY as the model repository OWNER/REPO and print the reference to share.

    Its env.py is loaded first, in its own process, to check that it is a benchmark. The repository
    gets the tag envhub, so that `envhub search` finds it.

    \b
    Examples:
        envhub publish ./my_env me/my-env
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    ref = parse(repo)
    if not isinstance(ref, HubRef) or ref.revision is not None:
        raise UsageError(f"{repo} is not of the form OWNER/REPO.")
    source = locate(PathRef(f"{directory.resolve()}"))
    spec = WorkerSpec(source, env_args, limits, horizon=1)
    benchmark = describe(spec, "auto", message=message, progress=message).benchmark
    with tempfile.TemporaryDirectory(prefix="envhub-publish-") as place:
        folder = Path(place) / "folder"
        shutil.copytree(directory, folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        _write_card(folder / "README.md", benchmark)
        _show_left_out(folder)
        hub = Hub(private=True)
        commit = hub.publish(
            ref.repo_id, folder, private=private, ignore=[*_IGNORED, *LEFT_OUT[:-1]]
        )
    message(f"{len(benchmark.tasks())} tasks published at {hub.endpoint}/{ref.repo_id}")
    click.echo(str(HubRef(ref.owner, ref.repo, commit)))


def _show_left_out(folder: Path) -> None:
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    left_out = sorted(filter(is_left_out, files))
    if left_out:
        more = f" and {len(left_out) - _NAMED} more" if left_out[_NAMED:] else ""
        message(
            f"Not uploaded, since checkpoints and datasets are never fetched with a benchmark: "
            f"{', '.join(left_out[:_NAMED])}{more}."
        )


def _write_card(path: Path, benchmark: Benchmark) -> None:
    """Write a README with the tag, or add the tag to the README that exists."""
    text = path.read_text(encoding="utf-8") if path.exists() else _card(benchmark)
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
        f"| {suite} | {len(tasks)} | {tasks[0].description} |"
        for suite, tasks in benchmark.suites.items()
    )
    return (
        f"# {benchmark.name}\n\nA benchmark for EnvHub.\n\n"
        f"| suite | tasks | first task |\n|---|---|---|\n{rows}\n"
    )
