"""`envhub info`: describe a benchmark."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click

from envhub.cli.hub_facts import describe_unexecuted, requirements_json, requirements_text
from envhub.cli.options import (
    SPACE_COLUMNS,
    TERMINAL,
    WholeNumber,
    debug_option,
    env_arg_option,
    excerpt,
    get_source,
    json_option,
    message,
    source_options,
    timeout_option,
)
from envhub.cli.remarks import broken_tasks, undescribed_tasks
from envhub.conventions import describe as describe_conventions
from envhub.declarations import MAX_HORIZON
from envhub.errors import ContractError, RemoteCodeRefused
from envhub.host.loading import Description, describe
from envhub.observations import Feature, features
from envhub.options import Argument, Limits, SourceOptions
from envhub.refs import HubRef
from envhub.run_info import counts
from envhub.sources.find import read_reference
from envhub.sources.fingerprint import list_files
from envhub.sources.newest import newer_commit
from envhub.sources.requirements import Requirements, requirements_at
from envhub.text import align, pluralize
from envhub.types import FileSource, Source, WorkerSpec
from envhub.wire.spaces import AnySpace, Spaces

_SHOWN_FILES = 4
_UNDECLARED = "observation  not declared by the plugin; envhub try shows it"


@click.command("info")
@click.argument("ref")
@click.option(
    "--max-steps", type=WholeNumber(min=1, max=MAX_HORIZON), help="Horizon of envs that have none."
)
@click.option(
    "--instructions",
    is_flag=True,
    help="Print what policies are told, by task: JSON that --instructions of eval reads.",
)
@source_options
@json_option
@env_arg_option
@timeout_option
@debug_option
def command(
    ref: str,
    *,
    max_steps: int | None,
    instructions: bool,
    as_json: bool,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Describe the benchmark REF: suites, tasks, horizons, observations, actions.

    Its code is loaded in its own process; an env file also makes the env of its first task there.
    For a Hub repository that you have not agreed to run, only its files and requirements are
    shown.

    \b
    Examples:
        envhub info ./my_env
        envhub info ./my_env --json
        envhub info ./my_env --env-arg size=128
        envhub info ./my_env --instructions > told.json
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    try:
        source = get_source(ref, options)
    except RemoteCodeRefused as refused:
        click.echo(describe_unexecuted(ref, options, as_json=as_json))
        message(str(refused))
        _tell_newer(ref, options)
        return
    described = describe(
        WorkerSpec(source, env_args, limits, max_steps, env_vars=options.env_vars),
        options.runtime,
        locked=options.locked,
        with_spaces=True,
        reporter=TERMINAL,
    )
    spaces = next(iter(described.spaces.values()), None)
    declared = _requirements(source)
    if instructions:
        told = {name: task.description for name, task in described.benchmark.tasks().items()}
        click.echo(json.dumps(told, indent=2))
        return
    files = _files(source)
    if as_json:
        click.echo(_as_json(described, spaces, declared, files))
    else:
        click.echo(_as_text(described, spaces, declared, files))
        for remark in _remarks(described):
            message(remark)
    _tell_newer(ref, options)


def _tell_newer(text: str, options: SourceOptions) -> None:
    """Say when a pinned repository has moved on."""
    ref = read_reference(text)
    if not isinstance(ref, HubRef):
        return
    newer = newer_commit(ref, private=options.private)
    if newer is not None:
        message(
            f"The main branch of {ref.repo_id} is at another commit now. To see what changed, and "
            f"agree: envhub trust {ref.repo_id}@{newer}"
        )


def _remarks(described: Description) -> list[str]:
    tasks = described.benchmark.tasks().values()
    texts = ((t.name, t.description) for t in tasks if t.name not in described.broken)
    return [*broken_tasks(described), *undescribed_tasks(texts, after_reset=False)]


def _requirements(source: Source) -> Requirements | None:
    """Return the requirements of an env file; None for a plugin, whose package has its own."""
    if not isinstance(source, FileSource):
        return None
    return requirements_at(Path(source.directory, source.file), source.file)


class _Files(NamedTuple):
    """The files of a benchmark."""

    counted: list[str]
    """Those that are part of the protocol."""
    not_counted: list[str]

    def __str__(self) -> str:
        but = f"; not {_few(self.not_counted)}" if self.not_counted else ""
        return f"{_few(self.counted)}{but}"


def _few(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN_FILES} more" if len(paths) > _SHOWN_FILES else ""
    return f"{', '.join(map(excerpt, paths[:_SHOWN_FILES]))}{more}"


def _files(source: Source) -> _Files:
    paths = list_files(source)
    return _Files([p for p in paths if counts(p)], [p for p in paths if not counts(p)])


def _as_json(
    described: Description, spaces: Spaces | None, declared: Requirements | None, files: _Files
) -> str:
    rows = [asdict(feature) for feature in _features(spaces[0])] if spaces else None
    action = str(spaces[1]) if spaces else None
    suites = {
        suite: [{**asdict(task), "horizon": described.horizon(task)} for task in tasks]
        for suite, tasks in described.benchmark.suites.items()
    }
    content: dict[str, Any] = {**asdict(described.benchmark), "suites": suites}
    content["files"] = files._asdict()
    content |= {"features": rows, "action": action, "warnings": _remarks(described)}
    if declared is not None:
        content["requirements"] = requirements_json(declared)
    return json.dumps(content, indent=2)


def _as_text(
    described: Description, spaces: Spaces | None, declared: Requirements | None, files: _Files
) -> str:
    benchmark = described.benchmark
    tasks = benchmark.tasks()
    default = benchmark.default or tuple(benchmark.suites)
    episodes = pluralize(benchmark.episodes, "episode")
    facts = {
        "benchmark": benchmark.name,
        "tasks": f"{len(tasks)} in {pluralize(len(benchmark.suites), 'suite')}",
        "default": f"{excerpt(', '.join(default))}; {episodes} per task",
        "policies": excerpt(", ".join(benchmark.policies)),
        "requires": excerpt(requirements_text(declared)) if declared and declared.packages else "",
        "protocol": str(files),
        "control": f"{benchmark.control_hz:g} Hz" if benchmark.control_hz else "",
        "convention": describe_conventions(benchmark.known_conventions),
        "lerobot": describe_conventions(benchmark.lerobot_conventions),
        "action": excerpt(str(spaces[1]), SPACE_COLUMNS) if spaces else "",
    }
    lines = [f"{name:<10} {fact}" for name, fact in facts.items() if fact]
    features = _feature_lines(spaces[0]) if spaces else [_UNDECLARED]
    return "\n".join([*lines, "", *_suite_lines(described), "", *features])


def _suite_lines(described: Description) -> list[str]:
    rows = [("suite", "tasks", "horizon", "first task")]
    for suite, tasks in described.benchmark.suites.items():
        horizons = sorted({described.horizon(task) or 0 for task in tasks} - {0})
        ends = dict.fromkeys(map(str, (*horizons[:1], *horizons[-1:])))
        span = "-".join(ends) or "none"
        first = f"{tasks[0].name}: {excerpt(tasks[0].description)}"
        rows.append((suite, str(len(tasks)), span, first))
    return _table(rows)


def _feature_lines(space: AnySpace) -> list[str]:
    rows = [("observation", "kind", "shape", "as a LeRobot policy sees it")]
    for feature in _features(space):
        shape = "x".join(map(str, feature.shape)) or "1"
        source = excerpt(feature.source) or "(itself)"
        rows.append((source, feature.kind, shape, excerpt(feature.name)))
    return _table(rows) if len(rows) > 1 else [f"observation  {excerpt(str(space), SPACE_COLUMNS)}"]


def _features(space: AnySpace) -> tuple[Feature, ...]:
    """Return the features; none for spaces that LeRobot's format cannot represent."""
    try:
        return features(space)
    except ContractError:
        return ()


def _table(rows: list[tuple[str, str, str, str]]) -> list[str]:
    head, *lines = align(rows)
    return [click.style(head, bold=True), *lines]
