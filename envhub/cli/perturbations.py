"""`--perturb`: reading it, and the list of what is installed."""

import json
import math
from collections.abc import Sequence

import click

from envhub.cli.options import read_texts
from envhub.cli.output import echo_sentence
from envhub.errors import UsageError, printable
from envhub.evaluation.perturbations import Strength, list_perturbations

_EXAMPLE = "write --perturb camera=0.05, --perturb camera=0,0.02,0.05 or --perturb list"


def parse_perturb(texts: Sequence[str]) -> dict[str, tuple[Strength, ...]] | None:
    """Return the strengths of each perturbation; None: `list` was asked for.

    Raises:
        UsageError: A text is something else, or a name or strength is given twice.
    """
    if "list" in texts:
        return None
    found: dict[str, tuple[Strength, ...]] = {}
    for text in texts:
        name, equals, said = (part.strip() for part in text.partition("="))
        if not name or not equals or not said:
            raise UsageError(f"--perturb needs a name and a strength, found {text!r}: {_EXAMPLE}.")
        if name in found:
            raise UsageError(f"--perturb names {name} twice; write {name}=0,0.05 for several.")
        found[name] = _strengths(name, said)
    return found


def show_perturbations(*, as_json: bool) -> None:
    """Print the installed perturbations, with what each does and needs."""
    every = list_perturbations()
    if as_json:
        rows = [
            {
                "name": one.name,
                "description": one.description,
                "most": one.most,
                "texts": one.texts,
                "changes": list(one.changes),
                "needs": list(one.needs),
                "version": one.version,
                "package": f"{plugin.distribution} {plugin.version}",
            }
            for plugin, one in every
        ]
        click.echo(json.dumps({"perturbations": rows}, indent=2))
        return
    if not every:
        echo_sentence(
            "No perturbations are installed. In a clone of EnvHub, run: pip install "
            "./plugins/perturbations"
        )
    for plugin, one in every:
        strengths = f"0 to {one.most:g}{', or FILE' if one.texts else ''}"
        needs = f"; needs an env with {' and '.join(one.needs)}" if one.needs else ""
        source = f"{plugin.distribution} {plugin.version}"
        rest = printable(f"={strengths}  ({source})")
        click.echo(f"{click.style(printable(one.name), bold=True)}{rest}")
        echo_sentence(printable(f"    {one.description}{needs}."))


def _strengths(name: str, said: str) -> tuple[Strength, ...]:
    parts = said.split(",")
    try:
        numbers = tuple(float(part) for part in parts)
    except ValueError:
        return (read_texts(f"--perturb {name}", said),)
    if not all(0 <= number < math.inf for number in numbers):
        raise UsageError(f"--perturb {name}: a strength is a number from 0 on, found {said!r}.")
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"--perturb {name} names a strength twice: {said!r}.")
    return numbers
