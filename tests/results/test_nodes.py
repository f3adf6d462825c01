"""Which node played which episode: noted in a file, told in `run.json`."""

from pathlib import Path

from msgspec.structs import replace
from support.run_json import MANIFEST

from envhub.results.nodes import NodeLine, NodeLog, forget_played, with_nodes
from envhub.results.schema import parse_run
from envhub.run_info import MachineInfo, PartInfo

INFO = parse_run(MANIFEST, Path("run"))


def node(name: str, cpu: str) -> NodeLine:
    machine = MachineInfo(
        arch="x86_64", cpu=cpu, flags=[], libc=None, openblas=None, gl=None, gl_devices=[]
    )
    return NodeLine(name=name, envhub="0.1.0", machine=machine)


ONE, TWO = node("one", "a"), node("two", "b")


def note(logs: Path, *played: tuple[NodeLine, int]) -> None:
    log = NodeLog(logs)
    for player, number in played:
        log.add(player, number)
    log.close()


def parts(info) -> dict[str, list[tuple[int, int]]]:
    return {part.name: part.numbers for part in info.parts}


def test_parts_are_of_those_who_played_last_and_of_what_is_recorded(tmp_path: Path):
    note(tmp_path, (ONE, 0), (TWO, 1), (ONE, 2), (ONE, 3))
    note(tmp_path, (TWO, 2))  # by a driver that went on
    found = with_nodes(INFO, tmp_path, {0, 1, 2})
    assert parts(found) == {"one": [(0, 0)], "two": [(1, 2)]}
    assert [found.machines[part.machine].cpu for part in found.parts] == ["a", "b"]
    assert with_nodes(found, tmp_path, {0, 1, 2}) == found


def test_a_run_without_nodes_stays_as_it_is(tmp_path: Path):
    assert with_nodes(INFO, tmp_path, {0, 1}) is INFO
    note(tmp_path, (ONE, 0))
    forget_played(tmp_path, {0})
    assert with_nodes(INFO, tmp_path, {0}) is INFO


def test_what_was_played_before_on_another_machine_stays(tmp_path: Path):
    machine = node("", "old").machine
    part = PartInfo(name="", created=INFO.created, envhub="0.1.0", machine=0, numbers=[(0, 3)])
    before = replace(INFO, parts=[part], machines=[machine])
    note(tmp_path, (ONE, 1))
    found = with_nodes(before, tmp_path, {0, 1, 2, 3})
    assert parts(found) == {"": [(0, 0), (2, 3)], "one": [(1, 1)]}


def test_a_torn_line_and_what_follows_it_do_not_count(tmp_path: Path):
    note(tmp_path, (ONE, 0), (ONE, 1))
    path = tmp_path / "nodes.jsonl"
    path.write_bytes(path.read_bytes()[:-4])
    assert parts(with_nodes(INFO, tmp_path, {0, 1})) == {"one": [(0, 0)]}
    note(tmp_path, (TWO, 1))
    assert parts(with_nodes(INFO, tmp_path, {0, 1})) == {"one": [(0, 0)], "two": [(1, 1)]}


def test_lines_that_somebody_else_wrote_are_left_out(tmp_path: Path):
    (tmp_path / "nodes.jsonl").write_text('{"node": 7, "number": 0}\n[1]\n')
    assert with_nodes(INFO, tmp_path, {0}) is INFO
