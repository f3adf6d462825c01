"""The content of run.json as types, and what two of them must agree in."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.run_json import MANIFEST, changed, info_of, places, without

import envhub
from envhub.errors import RunDirectoryError, UsageError
from envhub.options import Limits
from envhub.results.comparable import check_comparable, check_same
from envhub.run_info import (
    ConventionsInfo,
    LatencyInfo,
    PolicyRuntimeInfo,
    ProvidedInfo,
    RunInfo,
    agreeing,
    counts,
    hash_protocol,
)

FORMER_PROTOCOL = "sha256:67cfeef33e4b35147d9b99273b31d5ef390e56c7144fe9755bda920102590cca"
"""Of the manifest without its seeding, computed by the version of before."""
LATENCY = LatencyInfo(calls=3, p50=0.1, p95=0.2, counts={"9": 3})
OTHER = {str: "another", int: 77, float: 7.5, dict: {"other": "sha256:9"}, list: ["other"]}
OTHER_OF = {
    # Compared in the tasks that two runs have in common.
    "plan.instructions": {"elsewhere": ["Go."]},
    "plan.dimensions": {"long": ["short", "distance"]},
    "plan.latency": {
        "mode": "wait",
        "seconds": 0.1,
        "hz": 20.0,
        "steps": [[2, 1]],
        "hold": [],
        "keeps": "none",
    },
    "plan.perturbations": {
        "camera": {
            "strength": 0.1,
            "version": "1",
            "package": "p 1",
            "code": "sha256:9",
            "changes": ["pictures"],
        }
    },
    "benchmark.kind": "plugin",
    "plan.reuse": "rebuild",
    "plan.seeding": "task",
    "plan.max_steps": 9,
    "runtime.key": "k",
    "policy.kind": "object",
    "policy.sha256": "cd",
    "policy.path": None,
    "shard": {"index": 1, "of": 2},
}


def test_it_is_read_as_it_is_written():
    assert info_of().to_json() == MANIFEST


def question(purpose: str) -> set[str]:
    return {item.path for item in agreeing(info_of(), purpose)}


def test_what_must_agree():
    compared = {
        *("benchmark.name", "benchmark.files", "benchmark.env_args", "benchmark.assets"),
        *("benchmark.plugins", "benchmark.conventions", "benchmark.lerobot_conventions"),
        "benchmark.env_var_hashes",
        *("plan.seed", "plan.seeding", "plan.reuse", "plan.latency", "runtime.packages"),
        "plan.perturbations",
    }
    protocol = compared | {"benchmark.kind", "plan.episodes", "plan.instructions", "plan.tasks"}
    assert question("compare") == compared
    assert question("protocol") == protocol
    assert question("resume") == protocol | {
        *("benchmark.env_vars", "plan.suites", "plan.max_steps", "runtime.key", "shard"),
        "plan.dimensions",
        *(f"policy.{name}" for name in ("kind", "ref", "sha256", "imports", "args", "files")),
    }


@pytest.mark.parametrize("path", sorted(question("resume") - {"plan.suites", "plan.tasks"}))
def test_each_field_is_asked_for_what_it_says(path):
    """A change of a field is seen for exactly those purposes that its declaration names."""
    found = MANIFEST
    for key in path.split("."):
        found = found[key]
    value = OTHER_OF.get(path, OTHER[type(found)] if found is not None else None)
    if path == "policy.ref":  # a file is known by its function
        value, path = None, "policy.path"
    other = info_of(changed(path, value))
    purposes = {p for p in ("compare", "protocol") if path in question(p)}
    with pytest.raises(RunDirectoryError, match="was begun with"):
        check_same(info_of(), other, Path("run"))
    assert (hash_protocol(other) != hash_protocol(info_of())) == ("protocol" in purposes)
    if "compare" in purposes:
        with pytest.raises(UsageError, match="The runs differ in"):
            check_comparable(info_of(), other)
    else:
        check_comparable(info_of(), other)


def test_instructions_are_recorded_and_follow_from_the_code():
    """So that runs from before they were recorded are continued, and compared with later ones."""
    before, now = info_of(without("plan.tasks.near.description")), info_of()
    assert now.plan.tasks["near"].description == "Go near."
    check_same(before, now, Path("run"))
    check_comparable(before, now)
    assert hash_protocol(before) == hash_protocol(now)


def test_prose_and_tests_do_not_count():
    prose = "README.md readme LICENSE LICENSE-MIT.txt pkg/NOTICE CITATION.cff pyproject.toml"
    tests = "tests/test_env.py pkg/tests/data.npz conftest.py tox.ini .github/workflows/ci.yml"
    assert [path for path in f"{prose} {tests}".split() if counts(path)] == []
    code = "env.py test_env.py readme.py readme.npz scene.xml notes.md license_plates/1.txt"
    assert [path for path in code.split() if not counts(path)] == []
    edited = info_of(
        changed("benchmark.files", {**MANIFEST["benchmark"]["files"], "README.md": "sha256:8"})
    )
    check_same(info_of(), edited, Path("run"))
    check_comparable(info_of(), edited)
    assert hash_protocol(edited) == hash_protocol(info_of())
    assert hash_protocol(edited, every_file=True) != hash_protocol(info_of(), every_file=True)


def test_assets_count_by_their_content_not_by_their_place():
    def placed(path: str) -> RunInfo:
        info = info_of()
        benchmark = replace(
            info.benchmark, env_args={"meshes": path}, assets={"meshes": "sha256:5"}
        )
        return replace(info, benchmark=benchmark)

    check_comparable(placed("/here"), placed("/there"))
    assert hash_protocol(placed("/here")) == hash_protocol(placed("/there"))
    with pytest.raises(RunDirectoryError, match="The --env-arg meshes that"):
        check_same(placed("/here"), placed("/there"), Path("run"))


def test_a_provided_policy_is_known_by_its_files():
    def provided(**files: str) -> RunInfo:
        info = info_of()
        said = ProvidedInfo(scheme="lerobot", package="p", version="1", files=files)
        policy = replace(info.policy, kind="provided", path=None, provided=said)
        return replace(info, policy=policy)

    check_same(provided(a="sha256:1"), provided(a="sha256:1"), Path("run"))
    with pytest.raises(RunDirectoryError, match="The file of the policy a that run was begun with"):
        check_same(provided(a="sha256:1"), provided(a="sha256:2"), Path("run"))
    with pytest.raises(
        RunDirectoryError, match=r"The policy that run was .* now it is one of lerob"
    ):
        check_same(info_of(), provided(a="sha256:1"), Path("run"))


def test_a_provided_policy_without_files_is_known_by_its_reference():
    said = ProvidedInfo(scheme="ws", package="envhub-ws", version="1")
    info = info_of()

    def served(place):
        policy = replace(info.policy, kind="provided", ref=place, path=place, provided=said)
        return replace(info, policy=policy)

    check_same(served("ws:a:80"), served("ws:a:80"), Path("run"))
    with pytest.raises(RunDirectoryError, match=r"The policy that run was begun with is ws:a:80, "):
        check_same(served("ws:a:80"), served("ws:b:80"), Path("run"))


def test_a_policys_interpreter_is_compared_if_both_have_one():
    def on(**changes: object) -> RunInfo:
        given = {"kind": "here", "key": None, "path": None, "python": "3.11.7", "packages": {}}
        runtime = PolicyRuntimeInfo(**(given | changes))
        return replace(info_of(), policy=replace(info_of().policy, runtime=runtime))

    check_same(info_of(), on(), Path("run"))
    check_same(on(path="/usr/bin/python"), on(), Path("run"))
    for changes in ({"kind": "named"}, {"key": "k"}, {"python": "3.12"}, {"packages": {"a": "1"}}):
        with pytest.raises(RunDirectoryError):
            check_same(on(), on(**changes), Path("run"))


def begin() -> RunInfo:
    info = info_of()
    parts = ("benchmark", "plan", "policy", "runtime", "machine", "protection", "retries")
    return RunInfo.begin(limits=Limits(), **{name: getattr(info, name) for name in parts})


def test_a_run_begins_is_continued_and_finished():
    info = begin()
    assert (info.format, info.envhub, info.seal) == (2, envhub.__version__, None)
    assert info.protocol == hash_protocol(info)
    own = dict.fromkeys((*info.plan.tasks, "another"), "Go on.")
    told = {"batch": 4, "placement": "process", "about": {"device": "cpu"}, "instructions": own}
    agreed = ConventionsInfo(ignore=False, policy={"images": "upright"})
    done = info.finished(
        **told, latency=LATENCY, outliers=[], conventions=agreed, reproducible=False
    )
    assert not done.reproducible
    assert (done.policy.batch, done.policy.latency, done.conventions) == (4, LATENCY, agreed)
    assert done.policy.instructions == dict.fromkeys(info.plan.tasks, "Go on.")
    assert done.protocol == info.protocol  # what a provider tells its policy belongs to the policy

    before = replace(done, created="2026-01-01T12:00:00+00:00", envhub="0.0.9")
    again = replace(begin(), conventions=ConventionsInfo(ignore=True)).continued(before)
    assert (again.created, again.envhub) == ("2026-01-01T12:00:00+00:00", "0.0.9")
    assert (again.policy, again.conventions) == (done.policy, replace(agreed, ignore=True))


def test_a_field_that_says_nothing_changes_no_hash():
    """So that a later version can add one."""
    info = info_of(changed("benchmark.conventions", {"images": "upright"}))
    assert hash_protocol(info) != hash_protocol(info_of())
    said = [item.path for item in agreeing(info_of(), "protocol") if item.value in ({}, [], None)]
    assert "benchmark.conventions" in said


def test_a_run_from_before_there_was_a_choice_of_seeds_keeps_its_protocol():
    """The digest of a content as it was written then, computed by the formula of then."""
    old = without("plan.seeding")
    assert "seeds_of" not in old["plan"]["tasks"]["near"]
    assert info_of(old).plan.seeding == "shared"
    assert hash_protocol(info_of(old)) == hash_protocol(info_of()) == FORMER_PROTOCOL
    own = changed("plan.tasks.near.seeds_of", "far")
    assert info_of(own).to_json()["plan"]["tasks"]["near"]["seeds_of"] == "far"
    assert hash_protocol(info_of(own)) != FORMER_PROTOCOL


def test_a_time_that_is_none():
    with pytest.raises(RunDirectoryError, match="created is not a time"):
        info_of(changed("created", "2026-13-01"))


def test_the_manifest_of_the_tests_is_whole():
    assert set(places(MANIFEST)) >= set(places(begin().to_json())) - {"benchmark.env_args.size"}
