"""Env files as people publish them: each gives the same records here and from the Hub.

`tests/assets/published/` has one directory per shape, written for these tests.
"""

import json
import shutil
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.notes import bring_notes
from support.paths import ASSETS
from support.published import publish, same
from support.run_tools import envhub

from envhub import evaluate
from envhub.errors import WorkerRaised
from envhub.records import EpisodeRecord

PLACE = ASSETS / "published"


@dataclass(frozen=True)
class Shape:
    """What an evaluation of a shape must show."""

    tasks: dict[str, int]
    """The horizon of each task."""
    env_args: dict[str, Any] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    """Tasks whose episodes fail."""
    policy: str = "random"
    successes: int | None = None
    """None if it depends on the actions."""


SHAPES = {
    "broken_task": Shape(
        {f"drawer-{number}": 4 + number for number in range(6)}, broken=("drawer-3",)
    ),
    "dataclass_cfg": Shape(
        {"reach": 7},
        {"steps": 7, "goal": {"position": [0.5, -0.5], "radius": 99.0}},
        successes=2,
    ),
    "dict_cfg": Shape({"line": 9}, {"size": 4, "rewards": [-0.5, 2.0], "limits": {"steps": 9}}),
    "download_at_import": Shape({"scene": 11}),
    "global_randomness": Shape({"global_randomness": 10}),
    "instruction_after_reset": Shape(
        {"0": 5}, policy=f"{PLACE}/instruction_after_reset/policy.py", successes=2
    ),
    "lerobot_names": Shape({"lerobot_names": 5}),
    "methods_as_attributes": Shape({"methods_as_attributes": 6}),
    "numbered_tasks": Shape({"short.0": 4, "short.1": 5, "long.0": 6, "long.1": 7, "2": 8}),
    "one_element": Shape({"pole": 6}),
    "positional_cfg": Shape({"positional_cfg": 3}, {"steps": 3}),
    "relative_assets": Shape({"relative_assets": 8}),
    "requirements_txt": Shape({"requirements_txt": 7}),
    "same_step_vector": Shape({"same_step_vector": 12}),
}


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return local_hub


@contextmanager
def scene_server():
    """A server on loopback with the scene of `download_at_import`; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"steps": 11}).encode())

        def log_message(self, *args):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/scene.json"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def directory_of(tmp_path):
    """Gives the directory of a shape; that of `download_at_import` is a copy with the address."""
    with scene_server() as address:

        def directory_of(name):
            if name != "download_at_import":
                return PLACE / name
            copy = shutil.copytree(PLACE / name, tmp_path / name)
            (copy / "address.txt").write_text(address)
            return copy

        yield directory_of


def outcome(record: EpisodeRecord) -> dict[str, Any]:
    """What must be equal; the text of an error names the worker, which may differ."""
    error = record.error and (record.error.where, record.error.type, record.error.step)
    return same(record) | {"error": error}


def warns_of_errors(shape: Shape):
    return pytest.warns(RuntimeWarning, match="ended with") if shape.broken else nullcontext()


def test_every_shape_is_tested():
    assert {path.name for path in PLACE.iterdir()} == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_records_are_equal_here_and_from_the_hub(hub, directory_of, name):
    shape, directory = SHAPES[name], directory_of(name)
    common = {"policy": shape.policy, "env_args": shape.env_args, "episodes": 2}
    ref = publish(hub, directory, f"me/{name}")
    network = name == "download_at_import"
    with warns_of_errors(shape):
        here = evaluate(str(directory), out="here", workers=0, **common)
    with warns_of_errors(shape):
        there = evaluate(
            ref,
            **common,
            out="there",
            workers=1,
            trust_remote_code=True,
            sandbox_allow_network=network,
        )
    assert [outcome(record) for record in here.records()] == [outcome(r) for r in there.records()]
    plan = here.info["plan"]["tasks"]
    horizons = {task: facts["horizon"] for task, facts in plan.items() if task not in shape.broken}
    assert horizons == {t: steps for t, steps in shape.tasks.items() if t not in shape.broken}
    assert len(here.records()) == 2 * len(shape.tasks)
    for record in here.records():
        assert record.status == ("env_error" if record.task in shape.broken else "ok")
        assert record.steps <= shape.tasks[record.task]
    if shape.successes is not None:
        assert sum(record.success is True for record in here.records()) == shape.successes


def test_a_download_is_refused_without_the_network(hub, directory_of):
    ref = publish(hub, directory_of("download_at_import"))
    with pytest.raises(WorkerRaised, match="URLError"):
        evaluate(ref, out="there", workers=1, episodes=1, trust_remote_code=True)


def traces(out: Path) -> list[str]:
    lines = (out / "episodes.jsonl").read_text().splitlines()
    return [json.loads(line)["trace"] for line in lines]


def test_lists_and_mappings_of_the_command_line_are_recorded_and_resumed(tmp_path):
    out = tmp_path / "run"
    args = ("--env-arg", "rewards=[-0.5, 2.0]", "--env-arg", 'limits={"steps": 9}')
    command = ("eval", "./published/dict_cfg", "--episodes", 3, "--workers", 0, "--out", out)
    done = envhub(*command, *args)
    assert done.code == 0, done.err
    text, before = (out / "episodes.jsonl").read_text(), traces(out)
    assert json.loads((out / "run.json").read_text())["benchmark"]["env_args"] == {
        "rewards": [-0.5, 2.0],
        "limits": {"steps": 9},
    }
    (out / "episodes.jsonl").write_text(text[: text.index("\n") + 1])
    again = envhub("eval", "--resume", out)
    assert again.code == 0, again.err
    assert traces(out) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["steps=many"], "cfg.steps must be int, found 'many'."),
        (
            ["steps=3", "size=3"],
            "cfg (Config) has no field 'size'; its fields are steps,",
        ),
        (["steps=3", 'goal={"x": 1}'], "cfg.goal (Goal) has no field 'x'; its fields are position"),
    ],
)
def test_wrong_arguments_end_with_one_sentence(arguments, message):
    given = [part for text in arguments for part in ("--env-arg", text)]
    answer = envhub("info", "./published/dataclass_cfg", *given)
    assert answer.code == 4
    assert message in answer.err
    assert "Traceback" not in answer.err
