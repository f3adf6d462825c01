"""`--cluster`: the nodes that play an evaluation."""

from importlib import util
from typing import Any

import click

from envhub.errors import ExitCode, printable
from envhub.evaluation.request import Player
from envhub.policies.providers import missing_plugin

_PLUGIN = "envhub-cluster"


def find_player(address: str) -> Player:
    """Connect to the cluster that the user names.

    Raises:
        UsageError: Its plugin is not installed, or it cannot be reached.
    """
    _check_installed()
    from envhub_cluster.driver import Cluster  # brings Ray

    return Cluster(address)


def show_nodes(context: click.Context, address: str, *, as_json: bool) -> None:
    """Show the nodes of a cluster, and what keeps any of them from playing."""
    _check_installed()
    from envhub_cluster.probe import as_text, probe_cluster

    found = probe_cluster(address)
    click.echo(_as_json(found) if as_json else printable(as_text(found)))
    if not _can_play(found):
        context.exit(ExitCode.FOUND)


def _as_json(found: list[dict[str, Any]]) -> str:
    import json

    return json.dumps({"ok": _can_play(found), "nodes": found}, indent=2)


def _can_play(found: list[dict[str, Any]]) -> bool:
    return bool(found) and not any(node["problems"] for node in found)


def _check_installed() -> None:
    if util.find_spec("envhub_cluster") is None:
        raise missing_plugin("--cluster", _PLUGIN)
