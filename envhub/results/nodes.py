"""Which node of a cluster played which episode: noted before each record, told in `run.json`.

    logs/nodes.jsonl   {"name": "gpu-3", "envhub": "0.1.0", "machine": {...}}
                       {"node": 0, "number": 17}

The first kind of line introduces a node, which the second kind counts from 0. The file is data of
the run's directory: it says who played, and nothing follows from it.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from envhub.files import open_regular, write_whole
from envhub.records import Count
from envhub.run_info import MachineInfo, PartInfo, RunInfo, to_rows

_MOST = 2**26
"""Bytes of the file; a million episodes have fewer."""


class NodeLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node, as `run.json` is to name it."""

    name: str
    envhub: str
    machine: MachineInfo


class _PlayedLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Count
    number: Count


class NodeLog:
    """The file, to which lines are added."""

    def __init__(self, logs: Path) -> None:
        """Open the file, which a run that is resumed has already."""
        lines = _read(_place(logs))
        self._nodes = [line for line in lines if isinstance(line, NodeLine)]
        _write(logs, lines)  # without a torn last line
        self._file = _place(logs).open("ab", buffering=0)

    def add(self, node: NodeLine, number: int) -> None:
        """Note that a node has played an episode, before its record is written."""
        if node not in self._nodes:
            self._nodes.append(node)
            self._file.write(_encode(node))
        self._file.write(_encode(_PlayedLine(node=self._nodes.index(node), number=number)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def forget_played(logs: Path, numbers: Iterable[int]) -> None:
    """Forget who played episodes that are played again."""
    lines = _read(_place(logs))
    again = set(numbers)
    left = [each for each in lines if isinstance(each, NodeLine) or each.number not in again]
    if len(left) < len(lines):
        _write(logs, left)


def with_nodes(info: RunInfo, logs: Path, recorded: Iterable[int]) -> RunInfo:
    """Return the content of `run.json` with the nodes that played, if a cluster did.

    Args:
        info: The content.
        logs: The directory of the run's logs.
        recorded: The numbers of the episodes that have a record.
    """
    lines = _read(_place(logs))
    nodes = [line for line in lines if isinstance(line, NodeLine)]
    counted = set(recorded)
    players = {
        line.number: line.node
        for line in lines
        if isinstance(line, _PlayedLine) and line.node < len(nodes) and line.number in counted
    }
    if not players:
        return info
    parts, machines = _without(info.parts, players), list(info.machines)
    for index, node in enumerate(nodes):
        numbers = [number for number, player in players.items() if player == index]
        if numbers:
            if node.machine not in machines:
                machines.append(node.machine)
            parts.append(
                PartInfo(
                    name=node.name,
                    created=info.created,
                    envhub=node.envhub,
                    machine=machines.index(node.machine),
                    numbers=to_rows(numbers),
                )
            )
    return replace(info, parts=parts, machines=machines)


def _without(parts: Iterable[PartInfo], players: Iterable[int]) -> list[PartInfo]:
    """Return the parts without the episodes that nodes played."""
    taken = set(players)
    left = []
    for part in parts:
        numbers = {n for first, last in part.numbers for n in range(first, last + 1)} - taken
        if numbers:
            left.append(replace(part, numbers=to_rows(numbers)))
    return left


def _place(logs: Path) -> Path:
    return logs / "nodes.jsonl"


def _encode(line: NodeLine | _PlayedLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _write(logs: Path, lines: Iterable[NodeLine | _PlayedLine]) -> None:
    write_whole(_place(logs), b"".join(map(_encode, lines)), durable=False)


def _read(path: Path) -> list[NodeLine | _PlayedLine]:
    """Return the lines; those after one that is none of them, as a torn one, are left out."""
    lines: list[NodeLine | _PlayedLine] = []
    try:
        with open_regular(path, most=_MOST) as file:
            content = file.read(_MOST)
    except FileNotFoundError:
        return lines
    for text in content.splitlines():
        try:
            if text.startswith(b'{"node"'):
                lines.append(msgspec.json.decode(text, type=_PlayedLine))
            else:
                lines.append(msgspec.json.decode(text, type=NodeLine))
        except ValueError:
            break
    return lines
