"""`envhub show`: print a run, as `envhub eval` does at its end."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from msgspec import to_builtins

from envhub.cli.options import debug_option, debugging, json_option, local_path, require_option
from envhub.cli.output import columns, echo_error, encodable
from envhub.errors import ExitCode, printable
from envhub.records import EpisodeError
from envhub.results import dimensions, table
from envhub.results.attestations import Attestation, read_attestations
from envhub.results.baselines import Baseline, read_baselines
from envhub.results.paste import (
    describe_evidence,
    describe_overridden,
    describe_parts,
    describe_told,
    header,
    paste_line,
)
from envhub.results.require import Requirement, failures
from envhub.results.run import Run, open_run
from envhub.results.summary import Summary, to_json
from envhub.text import pluralize


@click.command("show")
@click.argument("directory", metavar="RUN", callback=local_path)
@require_option
@click.option("--toml", is_flag=True, help="Print the run as an experiment's file, to repeat it.")
@json_option
@debug_option
def command(
    directory: Path, *, requirements: Sequence[Requirement], toml: bool, as_json: bool
) -> None:
    """Print the results of a run: the table and the line of `envhub eval`.

    RUN is the run's directory. It is only read, also while another process writes to it.

    \b
    Examples:
        envhub show runs/my_env-20260101-120000
        envhub show result --json
        envhub show result --require 'rate>=0.9' --require 'near.ci_low>=0.8'
        envhub show result --toml > experiment.toml
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if toml:
        from envhub.results.repeat import write_toml

        click.echo(write_toml(open_run(directory).run_info))
        return
    run = open_run(directory).keep_records()
    show_run(run, as_json=as_json)
    check_requirements(requirements, run)


def check_requirements(requirements: Sequence[Requirement], run: Run) -> None:
    """Say which requirements the results do not meet, and end with exit code 1 if there are any."""
    if not requirements:
        return
    said = failures(requirements, run.summary(), *run.cases())
    if not run.complete:
        said.append("The run is not complete.")
    for text in said:
        echo_error(printable(text))
    if said:
        raise SystemExit(ExitCode.FOUND)


def show_run(run: Run, *, as_json: bool) -> None:
    """Print a run's table, its first errors and its line to paste; or all of it as JSON."""
    run = run.keep_records()
    summary = run.summary()
    line = paste_line(run.run_info, summary)
    if as_json:
        content = {
            "run": str(run.directory),
            "complete": run.complete,
            "policy": run.run_info.policy.ref,
            "protocol": run.run_info.protocol,
            "conventions": to_builtins(run.run_info.conventions),
            "instructions": run.run_info.plan.instructions,
            "policy_instructions": run.run_info.policy.instructions,
            "line": line,
            "evidence": describe_evidence(run.run_info, summary),
            **to_json(summary),
            "dimensions": dimensions.to_json(dimensions.compare_dimensions(run)),
            "attestations": [_attestation(each) for each in read_attestations(run.directory)],
            "baselines": [_baseline(baseline) for baseline in read_baselines(run)],
        }
        click.echo(json.dumps(content, indent=2))
        return
    click.echo(printable(header(run.run_info, summary)))
    click.echo(render(summary))
    if changed := dimensions.render(dimensions.compare_dimensions(run), columns()):
        click.echo(encodable(printable(f"\n{changed}")))
    for sentence in describe_evidence(run.run_info, summary):
        click.echo(f"\n{sentence}")
    for text in _first_errors(run):
        echo_error(printable(text))
    if (parts := describe_parts(run.run_info)) is not None:
        click.echo(f"\n{parts}")
    ignored = describe_overridden(run.run_info)
    if ignored is not None:
        click.echo(printable(f"\nConventions were ignored: {ignored}."))
    for told in describe_told(run.run_info):
        click.echo(printable(f"\n{told}"))
    for baseline in read_baselines(run):
        click.echo(printable(f"\n{_describe_baseline(baseline)}"))
    for each in read_attestations(run.directory):
        click.echo(printable(f"\n{each}"))
    click.echo(printable(f"\n{line}\n{run.directory}"))


def _attestation(found: Attestation) -> dict[str, object]:
    said = None if found.said is None else to_builtins(found.said)
    return {"key": found.key, "said": said, "problem": found.problem}


def _baseline(baseline: Baseline) -> dict[str, object]:
    return {
        "name": baseline.name,
        "overall": asdict(baseline.overall),
        "verdict": baseline.verdict,
        "compared": baseline.words,
        "warning": baseline.warning,
    }


def _describe_baseline(baseline: Baseline) -> str:
    line = baseline.overall
    rate = "success is not reported" if line.rate is None else f"{line.rate:.1%}"
    if line.ci_low is not None and line.ci_high is not None:
        rate += f" [{line.ci_low:.1%}, {line.ci_high:.1%}]"
    said = baseline.warning or f"The policy, compared with it: {baseline.words.rstrip('.')}."
    return f"Baseline {baseline.name}: {rate}, {pluralize(line.n, 'episode')}. {said}"


def _first_errors(run: Run) -> list[str]:
    """Describe the first error of each type, with the number of such errors."""
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], EpisodeError] = {}
    for record in run.records():
        if record.error is not None:
            key = (record.status, record.error.type)
            counts[key] = counts.get(key, 0) + 1
            examples.setdefault(key, record.error)
    return [
        f"\n{count}x {status}, the first: {_describe(examples[status, error])}"
        for (status, error), count in counts.items()
    ]


def _describe(error: EpisodeError) -> str:
    trace = error.traceback.rstrip() if error.traceback and debugging() else ""
    return f"{error.message}\n{trace}" if trace else error.message


def render(summary: Summary) -> str:
    """Render the rates with their intervals; the head and the last line stand out.

    As wide as the terminal, or 80 columns without one; in characters that standard output has.
    """
    head, *lines = encodable(table.render(summary, columns())).split("\n")
    last = max(index for index, line in enumerate(lines) if line.startswith("overall"))
    lines[last] = click.style(lines[last], bold=True)
    return "\n".join((click.style(head, bold=True), *lines))
