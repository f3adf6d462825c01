"""Run directories that somebody has changed: each by a number, so that each can be made again."""

import json
import os
import random
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

DEEP = "@DEEP@"
"""Stands for lists within each other, of which Python can write fewer than it can be given."""

ODD: tuple[Any, ...] = (
    *(float("nan"), float("inf"), float("-inf"), 1e308, -1.5, -1, 0, 1, 2**63, 2**64, 10**400),
    *(None, True, False, [], {}, [[]], {"": None}, [None], [1, "a"], ["a", "a"], {"a": {"a": {}}}),
    *("", " ", "\ud800", "\udc80", "\x00", "\x1b[2J", "a" * 100_000, "\u202e", "é", ".."),
    *("0001-01-01T00:00:00+00:00", "0001-01-01", "9999-12-31T23:59:59-12:00", "2026-01-01"),
    *(["a"] * 10_000, {str(n): n for n in range(10_000)}, DEEP, [DEEP], {"a": DEEP}),
)
"""Values that no run has there, and some that one may have."""


def mutate(base: Path, place: Path, number: int) -> str:
    """Copy a run and change one to three things in it; returns what was changed."""
    draw = random.Random(number)
    shutil.copytree(base, place)
    return "; ".join(draw.choice(CHANGES)(place, draw) for _ in range(draw.choice((1, 1, 1, 2, 3))))


def change_run(place: Path, draw: random.Random) -> str:
    return _change_json(place / "run.json", draw)


def change_summary(place: Path, draw: random.Random) -> str:
    return _change_json(place / "summary.json", draw)


def change_record(place: Path, draw: random.Random) -> str:
    """Change a field of a line, or add the changed line to the others."""
    path = place / "episodes.jsonl"
    if not (lines := _lines(path)):
        return "no records"
    index = draw.randrange(len(lines))
    try:
        content = json.loads(lines[index])
        said = _change(content, draw)
        line = _text(content, draw)
    except (ValueError, RecursionError):  # of an earlier change
        return "no record"
    lines[index : index + draw.randrange(2)] = [line] * draw.choice((1, 1, 1000))
    _write(path, "\n".join(lines) + "\n")
    return f"line {index}: {said}"


def change_bytes(place: Path, draw: random.Random) -> str:
    """Cut, extend or overwrite a file."""
    path = _some_file(place, draw)
    if path is None:
        return "no file"
    data = bytearray(path.read_bytes())
    kind = draw.choice(("cut", "flip", "more", "zeros", "double", "empty", "lines"))
    match kind:
        case "cut":
            del data[draw.randrange(len(data) + 1) :]
        case "flip":
            for _ in range(draw.choice((1, 1, 5))):
                if data:
                    data[draw.randrange(len(data))] = draw.randrange(256)
        case "more":
            data += draw.randbytes(draw.choice((1, 100, 100_000)))
        case "zeros":
            data = bytearray(draw.choice((10, 5_000_000))) + b"\n"
        case "double":
            data += bytes(data)
        case "empty":
            data.clear()
        case "lines":
            data += b"\n" * 1_000_000
    path.write_bytes(data)
    return f"{kind} {path.name}"


def change_kind(place: Path, draw: random.Random) -> str:
    """Put something else than a file in a file's place, or a file without an end."""
    path = _some_file(place, draw)
    if path is None:
        return "no file"
    kind = draw.choice(("sparse", "large", "pipe", "itself", "zero", "folder", "gone"))
    if kind in ("sparse", "large"):
        os.truncate(path, 2**40 if kind == "sparse" else 50 * 2**20)
        return f"{kind} {path.name}"
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "itself":
            path.symlink_to(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
    return f"{kind} {path.name}"


def add_baselines(place: Path, draw: random.Random) -> str:
    """Put the run, as it is, among its own baselines."""
    baseline = place / "baselines" / draw.choice(("zero", "expert", "a"))
    if baseline.exists() or not (place / "run.json").is_file():
        return "no control"
    baseline.mkdir(parents=True)
    for name in ("run.json", "episodes.jsonl"):
        path = place / name
        if path.is_file() and path.stat().st_size < 2**24:
            shutil.copy(path, baseline / name)
    return f"baseline {baseline.name}; {change_run(baseline, draw)}"


CHANGES: tuple[Callable[[Path, random.Random], str], ...] = (
    *(change_run,) * 6,
    *(change_record,) * 4,
    *(change_bytes,) * 3,
    *(change_kind,) * 2,
    change_summary,
    add_baselines,
)


def _some_file(place: Path, draw: random.Random) -> Path | None:
    names = ("run.json", "episodes.jsonl", "summary.json", "actions/0.npy", "actions/1.npy")
    files = [place / name for name in names]
    files = [p for p in files if p.is_file() and p.stat().st_size < 2**24]
    return draw.choice(files) if files else None


def _lines(path: Path) -> list[str]:
    if not path.is_file() or path.stat().st_size > 2**24:
        return []
    return path.read_text(errors="replace").splitlines()


def _change_json(path: Path, draw: random.Random) -> str:
    """Change a value anywhere in a file, or several."""
    if not path.is_file() or path.stat().st_size > 2**24:
        return f"no {path.name}"
    try:
        content = json.loads(path.read_bytes())
        said = [_change(content, draw) for _ in range(draw.choice((1, 1, 1, 4)))]
        _write(path, _text(content, draw))
    except (ValueError, RecursionError):  # of an earlier change
        return f"no {path.name}"
    return f"{path.name}: {', '.join(said)}"


def _change(content: Any, draw: random.Random) -> str:
    """Change, remove or rename something within a list or an object; returns what."""
    parts = _parts(content)
    if not parts:
        return "nothing"
    part, key = draw.choice(parts)
    odd = deepcopy(draw.choice(ODD))
    kind = draw.choice(("set",) * 6 + ("remove", "rename", "add"))
    if kind == "remove":
        del part[key]
    elif kind == "rename" and isinstance(part, dict):
        part[draw.choice(("", "\ud800", "a" * 1000, "é", "1"))] = part.pop(key)
    elif kind == "add" and isinstance(part, list):
        part.append(odd)
    else:
        part[key] = odd
    return f"{kind} {str(key)[:40]} {repr(odd)[:40]}"


def _parts(content: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: a list or an object, and the key there."""
    if isinstance(content, dict):
        here = list(content)
    elif isinstance(content, list):
        here = list(range(len(content)))
    else:
        return []
    below = [place for key in here for place in _parts(content[key])]
    return [*((content, key) for key in here), *below]


def _text(content: Any, draw: random.Random) -> str:
    depth = draw.choice((17, 70, 300, 800, 960, 100_000))
    deep = draw.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
    return json.dumps(content).replace(f'"{DEEP}"', deep)


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode(errors="replace"))
