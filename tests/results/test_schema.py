"""What `run.json` must have: whatever is missing or of another type is answered with a sentence."""

import json
import os
import re
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pytest
from support.forgery import load_arrays
from support.paths import DOCS
from support.run_json import MANIFEST, changed, places, without
from support.run_tools import WALK, WALKERS

from envhub import evaluate, open_run
from envhub.errors import RunDirectoryError
from envhub.records import EpisodeRecord
from envhub.results.journal import write_json
from envhub.results.schema import parse_run
from envhub.results.summary import Line
from envhub.run_info import Info, RunInfo

OPTIONAL = {
    *(
        f"benchmark.{name}"
        for name in ("package", "repo", "commit", "endpoint", "proof", "consent", "env_var_hashes")
    ),
    *(f"policy.{name}" for name in ("path", "sha256", "imports", "args", "files", "provided")),
    *("plan.latency", "plan.perturbations"),
    *(f"policy.{name}" for name in ("batch", "placement", "about", "latency", "outliers")),
    *(f"policy.{name}" for name in ("runtime", "processes")),
    *(f"plan.tasks.{name}.description" for name in ("near", "far")),
    *(f"conventions.{name}" for name in ("benchmark", "policy", "overridden")),
    *("plan.dimensions", "plan.part"),
    "plan.seeding",
    *("plan.instructions", "policy.instructions", "reproducible", "shard", "parts", "machines"),
}
# What the user, the benchmark or the policy names: any key may be there, or none.
NAMED = re.compile(
    r"benchmark\.(files|env_args)\.|policy\.(args|files)\.|runtime\.packages\.|plan\.suites\.short"
)
OTHERS = (None, True, -1, 1.5, "", "\x1b[2J", [], [[]], {}, {"a": {}})


def refusal(manifest: dict) -> str | None:
    """What is said of a manifest, in one line; None if it is accepted."""
    try:
        parse_run(manifest, Path("run"))
    except RunDirectoryError as exc:
        said = str(exc)
    else:
        return None
    assert "\n" not in said
    assert said.startswith("run/run.json is damaged, or of another version of EnvHub: ")
    assert said.endswith(". Restore the file, or start a new run in another directory.")
    return said


def test_a_whole_one_is_accepted():
    assert refusal(MANIFEST) is None
    assert refusal({**MANIFEST, "later": 1}) is None  # of a newer version, with the same format


@pytest.mark.parametrize("field", places(MANIFEST))
def test_a_field_that_is_missing(field):
    said = refusal(without(field))
    if field in OPTIONAL or NAMED.match(field):
        assert said is None
        return
    assert said is not None
    last = field.rpartition(".")[2]
    assert last in said or "name other tasks" in said or "plan.suites" in said


@pytest.mark.parametrize("field", places(MANIFEST))
def test_a_field_of_another_type(field):
    """Values of every JSON type: those of the field's own type may pass, others never."""
    refused = [value for value in OTHERS if refusal(changed(field, value))]
    own = {type(value) for value in OTHERS if value not in refused}
    if field != "benchmark.env_args.size":
        assert len(own) <= 3, f"{field} is accepted as {own}"
        assert {"a": {}} in refused or field in ("benchmark.env_args", "policy.args")
        assert [[]] in refused


def test_it_says_which_field_and_what_was_found():
    assert "limits.step: Expected `float`, got `str`." in str(refusal(changed("limits.step", "")))
    assert "Object missing required field `limits`." in str(refusal(without("limits")))
    said = str(refusal(changed("plan.suites", {"\x1b[2J": ["near"]})))
    assert "\x1b" not in said


def test_a_run_is_opened_only_if_it_is_whole(tmp_path):
    write_json(tmp_path / "run.json", without("policy.ref"))
    with pytest.raises(RunDirectoryError, match="missing required field `ref`"):
        open_run(tmp_path)


RECORD = {
    "suite": "short",
    "task": "near",
    "episode": 0,
    "seed": 0,
    "init_state": None,
    "status": "env_error",
    "success": None,
    "success_step": None,
    "end": "error",
    "return": 0.0,
    "steps": 0,
    "out_of_bounds": 0,
    "trace": "sha256:0",
    "seconds": 0.5,
    "attempts": 1,
    "error": {"where": "env", "type": "OSError", "message": "no", "step": 0},
}


def read(tmp_path: Path, record: object) -> str | None:
    """What is said of a run with this record; None if it is read."""
    write_json(tmp_path / "run.json", MANIFEST)
    (tmp_path / "episodes.jsonl").write_text(json.dumps(record) + "\n")
    try:
        open_run(tmp_path).summary()
    except RunDirectoryError as exc:
        said = str(exc)
    else:
        return None
    begin = f"{tmp_path}/episodes.jsonl, line 1, is not a record of this run: "
    assert said.startswith(begin)
    assert said.endswith(". Delete the line; --resume then runs the episode again.")
    assert "\n" not in said
    return said.removeprefix(begin)


def test_a_record_of_the_plan(tmp_path):
    assert read(tmp_path, RECORD) is None
    assert read(tmp_path, {**RECORD, "later": 1}) is None


@pytest.mark.parametrize("field", places(RECORD))
def test_a_record_without_a_field(tmp_path, field):
    said = read(tmp_path, without(field, RECORD))
    assert said is not None
    assert field.rpartition(".")[2] in said


@pytest.mark.parametrize("field", places(RECORD))
def test_a_record_with_another_type(tmp_path, field):
    refused = [value for value in OTHERS if read(tmp_path, changed(field, value, RECORD))]
    assert [[]] in refused
    assert {"a": {}} in refused
    assert len(refused) >= 6


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "it is not a JSON object"),
        (5, "it is not a JSON object"),
        ({**RECORD, "task": "else"}, "episode 0 of task 'else' is not in the plan"),
        ({**RECORD, "episode": 2}, "episode 2 of task 'near' is not in the plan"),
        ({**RECORD, "episode": -1}, "episode: Expected `int` >= 0"),
        ({**RECORD, "seed": 1}, "its seed is 1, and the plan's is 0"),
        ({**RECORD, "suite": "long"}, "its suite is 'long', and the plan's is 'short'"),
        ({**RECORD, "return": "x"}, "return: Expected `float`, got `str`"),
    ],
)
def test_a_record_of_something_else(tmp_path, record, said):
    assert said in str(read(tmp_path, record))


@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl"])
@pytest.mark.parametrize("make", ["fifo", "directory"])
def test_what_is_no_file_is_not_waited_for(tmp_path, name, make):
    write_json(tmp_path / "run.json", MANIFEST)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name) if make == "fifo" else (tmp_path / name).mkdir()
    with pytest.raises(RunDirectoryError, match=f"{name} cannot be read: "):
        open_run(tmp_path).records()


# docs/runs.md against the schema, and against what is written


def documented(title: str) -> dict[str, str]:
    """The type of each field, by its dotted name, in the table of a section of docs/runs.md."""
    name = "rates.md" if title == "Rates" else "runs.md"
    page = (DOCS / name).read_text(encoding="utf-8")
    section = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE
    )
    assert section
    table = section[1].partition("| field | type | meaning |\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE))


PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}


def words(annotation: Any) -> str:
    """The type of a field in the words of the docs."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return words(arguments[0])
    if origin is Literal:
        return words(type(arguments[0]))
    if origin in (UnionType, Union):
        kinds = dict.fromkeys(words(part) for part in arguments if part is not NoneType)
        return " or ".join((*kinds, *(["null"] if NoneType in arguments else [])))
    if origin in (list, tuple):
        return "list"
    return PLAIN.get(annotation, "object")


def declared(kind: Any, above: str = "") -> dict[str, str]:
    """The type of each field of a struct or dataclass, and of those below it."""
    found = {}
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        dotted = f"{above}{name.rstrip('_')}"
        found[dotted] = words(annotation)
        while get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        if dotted in ("parts", "machines", "shard"):
            continue  # their rows say what they hold
        args = get_args(annotation)
        for part in (annotation, *args, *(inner for arg in args for inner in get_args(arg))):
            if is_dataclass(part) or (isinstance(part, type) and issubclass(part, Info)):
                key = "name" if dotted == "plan.perturbations" else "task"
                below = f"{dotted}.<{key}>" if get_origin(annotation) is dict else dotted
                found |= {below: "object"} if below != dotted else {}
                found |= declared(part, f"{below}.")
    return found


def written(content: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The values of a written file by the names of the docs."""
    found = {}
    for key, value in content.items():
        name = f"{above}{'<task>' if above == 'plan.tasks.' else key}"
        found[name] = value
        if isinstance(value, dict) and name not in NAMED_BY_OTHERS:
            found |= written(value, f"{name}.")
    return found


NAMED_BY_OTHERS = {
    *("benchmark.files", "benchmark.env_args", "plan.suites", "policy.args", "policy.files"),
    *("runtime.packages", "policy.runtime.packages", "policy.provided.files", "policy.about"),
    *("policy.latency.counts", "benchmark.env_var_hashes"),
}
ONLY_PROVIDED = {
    f"policy.provided.{name}" for name in ("scheme", "package", "version", "files", "details")
}
ONLY_OUTLIERS = {
    f"policy.outliers.{name}" for name in ("task", "feature", "index", "value", "statistics")
}


def has_type(value: object, described: str) -> bool:
    kinds = {"text": str, "integer": int, "number": (int, float), "boolean": bool}
    kinds |= {"object": dict, "list": list, "null": NoneType}
    return any(
        isinstance(value, kinds[word]) and (word == "boolean" or not isinstance(value, bool))
        for word in described.split(" or ")
    )


ONLY_LATE = tuple(name for name in declared(RunInfo) if name.startswith("plan.latency."))
ONLY_PERTURBED = tuple(n for n in declared(RunInfo) if n.startswith("plan.perturbations."))


def compare(content: dict[str, Any], described: dict[str, str], *absent: str) -> None:
    """Check that a file has every documented field, no other, and each of its type."""
    values = written(content)
    assert set(values) == set(described) - set(absent)
    for name, value in values.items():
        assert has_type(value, described[name]), (name, value, described[name])


def test_run_json_is_documented():
    """What lies in a shard, a part or a machine of theirs is told in one row."""
    fields = declared(RunInfo)
    told = {name for name in fields if name.startswith(("shard.", "parts.", "machines."))}
    assert documented("run.json") == {name: fields[name] for name in fields if name not in told}
    text = (DOCS / "runs.md").read_text(encoding="utf-8")
    for name in told:
        above, _, last = name.partition(".")
        [row] = re.findall(rf"^\| `{above}` \|.*$", text, re.MULTILINE)
        assert f"`{last}`" in row or "each as `machine`" in row, name


def test_a_record_is_documented():
    fields = declared(EpisodeRecord)
    del fields["number"]
    assert documented("A record") == fields


def test_the_summary_is_documented():
    assert documented("Rates") == declared(Line)


def test_what_a_run_writes_is_what_is_documented(tmp_path):
    """A policy that raises once, so that a record has an error."""
    out = tmp_path / "run"
    question = {"tasks": "near", "episodes": 2, "retries": 0, "workers": 0}
    with pytest.warns(RuntimeWarning, match="1 of 2 episodes ended with an error"):
        evaluate(str(WALK), f"{WALKERS}:fails", **question, out=out)
    manifest = json.loads((out / "run.json").read_text())
    absent = (*ONLY_PROVIDED, *ONLY_OUTLIERS, *ONLY_LATE, *ONLY_PERTURBED)
    absent += ("plan.tasks.<task>.seeds_of",)
    compare(manifest, documented("run.json"), *absent)
    records = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert {record["status"] for record in records} == {"ok", "policy_error"}
    for record in records:
        below = [name for name in documented("A record") if "." in name]
        unsaid = (
            "description",
            "first_leaves",
            "calls",
            "held",
            "end_state",
            *(() if record["error"] else below),
        )
        compare(record, documented("A record"), *unsaid)
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary) == ["tasks", "suites", "overall"]
    for line in (*summary["tasks"], *summary["suites"], summary["overall"]):
        compare(line, documented("Rates"))


def test_the_files_of_a_run_are_documented(tmp_path):
    out = tmp_path / "run"
    evaluate(str(WALK), "zero", tasks="near", episodes=1, workers=1, out=out)
    page = (DOCS / "runs.md").read_text(encoding="utf-8")
    (arrays,) = re.findall(r"^\| `actions/<number>\.npy` \| (.*) \|$", page, re.MULTILINE)
    _, steps = load_arrays(out, 0)
    assert steps.dtype.names == tuple(re.findall(r"`(\w+)`", arrays))
    for path in out.iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        assert f"| `{name}" in page or name == ".lock", name
