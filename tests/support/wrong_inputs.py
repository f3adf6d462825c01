"""A directory full of things that are not what a command expects, and the command in this process.

Starting a process for each of several hundred inputs would take minutes.
"""

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envhub import evaluate
from envhub.cli import main
from envhub.results.journal import write_json
from support.manifests import write_run
from support.run_json import MANIFEST, changed, without
from support.run_tools import WALK, WALKERS, Answer

RECORD = {
    "suite": "short",
    "task": "near",
    "episode": 0,
    "seed": 0,
    "init_state": None,
    "status": "ok",
    "success": True,
    "success_step": 1,
    "end": "success",
    "return": 1.0,
    "steps": 1,
    "out_of_bounds": 0,
    "trace": "sha256:0",
    "seconds": 0.1,
    "attempts": 1,
    "error": None,
}

# The content of `run.json` in directories of that name.
MANIFESTS: dict[str, Any] = {
    "list": [],
    "format2": {**MANIFEST, "format": 3},
    "formattext": {**MANIFEST, "format": "1"},
    "noformat": without("format"),
    "noplan": without("plan"),
    "planlist": changed("plan", []),
    "notasks": changed("plan.tasks", {}),
    "seedtext": changed("plan.seed", "0"),
    "refint": changed("benchmark.ref", 5),
    "names": changed("plan.suites", {"\x1b[2J": ["near"]}),
    "nopolicy": without("policy.ref"),
    "badtime": changed("created", "yesterday"),
    "fewepisodes": changed("plan.episodes", 0),
}
# The same, as text.
TEXTS = {"notjson": "{", "emptyfile": "", "nul": "\0", "deep": "[" * 100_000}
# The lines of `episodes.jsonl` in directories of that name.
RECORDS: dict[str, Any] = {
    "badrecord": {**RECORD, "success": "yes"},
    "otherrecord": {**RECORD, "task": "back"},
    "seedrecord": {**RECORD, "seed": 9},
    "shortrecord": {"task": "near"},
    "notrecord": [],
}


def make_workspace(place: Path) -> None:
    """Fill a directory: a benchmark, a policy and a run that are right, and much that is not."""
    shutil.copytree(WALK, place / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(WALKERS, place / "policy.py")
    (place / "empty").mkdir()
    (place / "full").mkdir()
    (place / "full" / "notes.txt").write_text("mine\n")
    (place / "file.txt").write_text("just text\n")
    texts = {"neer": {"neer": "go"}, "list": ["go"], "empty": {}, "number": {"near": 3}}
    for name, content in texts.items():
        (place / f"told-{name}.json").write_text(json.dumps(content))
    (place / "told-twice.json").write_text('{"near": "go", "near": "stay"}')
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to("loop")
    _make_bad_benchmarks(place)
    _make_bad_runs(place)
    evaluate(
        str(place / "bench"),
        "zero",
        tasks="near",
        episodes=2,
        workers=0,
        out=place / "ok",
    )
    shutil.copytree(place / "ok", place / "edited")
    info = json.loads((place / "edited" / "run.json").read_text())
    write_json(place / "edited" / "run.json", {**info, "retries": 9})


def _make_bad_benchmarks(place: Path) -> None:
    texts = {
        "syntax": "def broken(:\n",
        "raises": "raise OSError('no GPU here')\n",
        "noenv": "x = 1\n",
        "missing": "import no_such_package\n",
    }
    for name, text in texts.items():
        (place / name).mkdir()
        (place / name / "env.py").write_text(text)
    (place / "latin.py").write_bytes(b"# caf\xe9\n")
    (place / "null.py").write_bytes(b"x = 1\0\n")
    with (place / "big.py").open("wb") as file:
        file.truncate(3 * 2**30)  # of holes: it takes no space


def _make_bad_runs(place: Path) -> None:
    for name, content in MANIFESTS.items():
        (place / name).mkdir()
        write_json(place / name / "run.json", content)
    for name, text in TEXTS.items():
        (place / name).mkdir()
        (place / name / "run.json").write_text(text)
    for name, content in RECORDS.items():
        (place / name).mkdir()
        write_json(place / name / "run.json", MANIFEST)
        (place / name / "episodes.jsonl").write_text(json.dumps(content) + "\n")
    for name in ("fiforun", "dirrun", "fiforecords", "dirrecords", "binaryrecords"):
        (place / name).mkdir()
    os.mkfifo(place / "fiforun" / "run.json")
    (place / "dirrun" / "run.json").mkdir()
    for name in ("fiforecords", "dirrecords", "binaryrecords"):
        write_json(place / name / "run.json", MANIFEST)
    os.mkfifo(place / "fiforecords" / "episodes.jsonl")
    (place / "dirrecords" / "episodes.jsonl").mkdir()
    (place / "binaryrecords" / "episodes.jsonl").write_bytes(b"\xff\xfe\n")
    write_run(place / "other", near="10", far="01")
    (place / "broken").mkdir()
    shutil.copytree(place / "noplan", place / "broken" / "noplan")


def run_here(arguments: Sequence[str]) -> Answer:
    """Run the command in this process. An exception that is no exit is the caller's to see."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    before = sys.argv
    sys.argv = ["envhub", *arguments]
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            main()
    except SystemExit as exc:
        code = exc.code
    finally:
        sys.argv = before
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return Answer(int(code or 0), out, err)
