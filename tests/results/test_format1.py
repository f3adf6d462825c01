"""Runs that 0.1.0 wrote are read, shown, compared, verified and continued.

The formulas of format 1 stand here once more, so that a change of ours shows.
"""

import hashlib
import hmac
import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.paths import ASSETS
from support.run_tools import envhub as command

import envhub
from envhub import open_run
from envhub.errors import RunDirectoryError, UsageError
from envhub.results.comparable import check_same
from envhub.results.format1 import hash_protocol, upgrade, with_keys_of_today
from envhub.results.journal import write_json
from envhub.results.seal import is_sealed, key_path
from envhub.types import Interpreter

RUNS = ASSETS / "runs_format1"
NAMES = ("steer", "random", "zero", "env_arg", "errors", "interrupted")
KEY = (RUNS / "run.key").read_text()


def canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def protocol(info: dict) -> str:
    """As 0.1.0 hashed it."""
    benchmark, plan = info["benchmark"], info["plan"]
    assets = benchmark["assets"]
    declared = {key: benchmark[key] for key in ("conventions", "lerobot_conventions")}
    relevant = {
        "source": [benchmark["kind"], benchmark["name"], benchmark["files"]],
        "env_args": {k: v for k, v in benchmark["env_args"].items() if k not in assets},
        **({"assets": assets} if assets else {}),
        **{key: value for key, value in declared.items() if value},
        "plugins": benchmark["plugins"],
        "plan": {key: plan[key] for key in ("tasks", "seed", "episodes", "reuse")},
        "packages": info["runtime"]["packages"],
    }
    return f"sha256:{hashlib.sha256(canonical(relevant).encode()).hexdigest()}"


def sealed(info: dict) -> dict:
    """As 0.1.0 sealed it."""
    rest = {key: value for key, value in info.items() if key != "seal"}
    text = b"envhub run.json 1\n" + canonical(rest).encode()
    mac = hmac.new(bytes.fromhex(KEY.strip()), text, hashlib.sha256).hexdigest()
    return {**rest, "seal": f"hmac-sha256:{mac}"}


@pytest.fixture
def key():
    """The key that the runs were sealed with."""
    key_path().parent.mkdir(parents=True, exist_ok=True)
    key_path().write_text(KEY)
    key_path().chmod(0o600)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A new run of the same benchmark, with the seeds of then."""
    question = {"suites": ["far"], "episodes": 2, "workers": 1, "seeding": "shared"}
    out = tmp_path_factory.mktemp("new") / "run"
    return envhub.evaluate(RUNS / "reach", RUNS / "steer.py", out=out, **question)


@pytest.fixture
def adopt(tmp_path, key, here):
    """Copies a run as if it had been begun here, with the packages that are here."""
    code = tmp_path / "code"
    shutil.copytree(RUNS, code, ignore=shutil.ignore_patterns(*NAMES, "__pycache__"))

    def adopt(name: str) -> Path:
        place = shutil.copytree(RUNS / name, tmp_path / name)
        info = json.loads((place / "run.json").read_text())
        info["benchmark"]["path"] = str(code / "reach/env.py")
        info["runtime"] |= {key: here.info["runtime"][key] for key in ("packages", "python")}
        policy, runtime = info["policy"], here.info["policy"]["runtime"]
        policy["directory"] = str(code)
        if policy["path"]:
            policy["path"] = policy["path"].replace("/tmp/envhub-format1", str(code))
            policy["runtime"] |= {key: runtime[key] for key in ("packages", "python")}
        info["protocol"] = protocol(info)
        write_json(place / "run.json", sealed(info))
        return place

    return adopt


def traces(directory: Path) -> dict[tuple[str, int], str]:
    return {(one.task, one.episode): one.trace for one in open_run(directory).records()}


@pytest.mark.parametrize("name", NAMES)
def test_what_0_1_0_wrote_is_read(name, key):
    run = open_run(RUNS / name)
    assert run.info == json.loads((RUNS / name / "run.json").read_text())
    assert run.info["protocol"] == protocol(run.info)
    assert is_sealed(run.info)
    assert run.info == sealed(run.info)
    info = run.run_info
    assert info.format == 1
    assert hash_protocol(info) == info.protocol
    assert info.policy.kind == ("builtin" if name in ("random", "zero") else "file")
    assert info.runtime.worker == 1
    assert run.summary().overall.n == (2 if name == "interrupted" else 4)
    shown = command("show", RUNS / name)
    assert (shown.code, f"protocol {info.protocol[7:19]}" in shown.out) == (0, True)


def test_a_changed_one_is_not_obeyed(adopt):
    place = adopt("interrupted")
    info = json.loads((place / "run.json").read_text())
    write_json(place / "run.json", {**info, "retries": 2})
    answer = command("eval", "--resume", place)
    assert (answer.code, "does not carry your seal" in answer.err) == (2, True)


def test_it_is_verified_by_its_own_hash(adopt):
    for name in ("steer", "errors", "env_arg"):
        found = envhub.verify(adopt(name))
        assert (found.ok, found.problems) == (True, ())
        assert {each.verdict for each in found.episodes} <= {"identical", "not checked"}
    place = adopt("random")
    info = json.loads((place / "run.json").read_text())
    write_json(place / "run.json", sealed({**info, "protocol": "sha256:1"}))
    assert envhub.verify(place).problems == (
        "The protocol in run.json is not the hash of what it stands for.",
    )


def test_it_is_compared_with_others_and_with_new_runs(adopt, here):
    assert envhub.compare(RUNS / "random", RUNS / "steer").difference == 1.0
    assert here.run_info.format == 2
    assert envhub.compare(adopt("interrupted"), here).difference == 0.0
    with pytest.raises(UsageError, match=r"--env-arg \(size none, 32\); and in --seed"):
        envhub.compare(RUNS / "steer", RUNS / "env_arg")


@pytest.mark.parametrize("how", ["resume", "continue"])
def test_it_is_continued_and_written_in_the_format_of_today(adopt, here, tmp_path, how):
    place, code = adopt("interrupted"), tmp_path / "code"
    begun, before = open_run(place).info, traces(place)
    if how == "resume":
        answer = command("eval", "--resume", place, "--workers", "1")
    else:
        words = ("--suite", "far", "--episodes", "2", "--workers", "1", "--out", place)
        ref, policy = code / "reach", code / "steer.py"
        answer = command("eval", ref, "--policy", policy, *words, "--continue")
    assert answer.code == 0, answer.err
    run = open_run(place)
    assert before.items() < traces(place).items()
    assert run.complete
    info = run.run_info
    assert (info.format, info.envhub, info.created) == (2, "0.1.0", begun["created"])
    assert info.protocol != begun["protocol"]
    assert is_sealed(run.info)
    assert info.policy.latency.calls > begun["policy"]["latency"]["calls"]
    assert envhub.verify(place).ok
    assert traces(here.directory) == traces(place)


def test_a_finished_one_is_shown_and_stays_as_it_is(adopt):
    place = adopt("zero")
    before = (place / "run.json").read_bytes()
    assert command("eval", "--resume", place).code == 0
    assert (place / "run.json").read_bytes() == before


def test_another_question_is_refused(adopt, tmp_path):
    place, code = adopt("interrupted"), tmp_path / "code"
    words = ("--suite", "far", "--episodes", "2", "--out", place, "--continue")
    answer = command("eval", code / "reach", "--policy", code / "faulty.py", *words)
    assert (answer.code, "The policy's file that" in answer.err) == (2, True)
    answer = command("eval", code / "reach", "--policy", code / "steer.py", "--seed", "1", *words)
    assert (answer.code, "The --seed that" in answer.err) == (2, True)


# What the kept runs do not have


def content(**policy: object) -> dict:
    info = json.loads((RUNS / "zero" / "run.json").read_text())
    return {**info, "policy": {**info["policy"], **policy}}


CHECKPOINT = {
    "repo": "user/arm",
    "commit": "0" * 40,
    "files": {"config.json": "sha256:1"},
    "models": {"maker/vlm": {"repo": "maker/vlm", "commit": "1" * 40, "files": {"a": "sha256:2"}}},
}


def test_a_checkpoint_is_a_provided_policy():
    policy = upgrade(content(ref="lerobot:x", checkpoint=CHECKPOINT)).policy
    assert policy.kind == "provided"
    provided = policy.provided
    assert (provided.scheme, provided.package, provided.version) == ("lerobot", "envhub", "0.1.0")
    assert provided.files == {"config.json": "sha256:1", "maker/vlm/a": "sha256:2"}
    assert (provided.details["repo"], provided.details["commit"]) == ("user/arm", "0" * 40)
    assert provided.details["models"] == CHECKPOINT["models"]


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ({"ref": "expert"}, "benchmark"),
        ({"ref": "package.module:make"}, "module"),
        ({"kind": "object", "ref": "Still"}, "object"),
        ({"kind": "object", "ref": "Still", "checkpoint": CHECKPOINT}, "object"),
    ],
)
def test_kinds_of_policies(policy, kind):
    assert upgrade(content(**policy)).policy.kind == kind


def test_fields_that_came_later_have_their_defaults():
    early = content()
    for name in ("machine", "conventions", "seal"):
        del early[name]
    for name in ("env_vars", "assets", "asset_sources", "conventions", "lerobot_conventions"):
        del early["benchmark"][name]
    for name in ("checkpoint", "about", "latency", "outliers", "runtime", "processes"):
        del early["policy"][name]
    info = upgrade(early)
    assert (info.machine, info.seal, info.benchmark.env_vars) == (None, None, [])
    assert hash_protocol(info) == info.protocol


@pytest.mark.parametrize("wrong", [5, [], "x", {"files": 3}, {"files": {"a": 1}}, {"models": 1}])
def test_a_checkpoint_that_is_none(tmp_path, wrong):
    write_json(tmp_path / "run.json", content(checkpoint=wrong))
    with pytest.raises(RunDirectoryError, match=r"run\.json is damaged, or .*policy\.provided"):
        open_run(tmp_path)


def test_the_keys_of_0_1_0_are_those_of_the_same_runtimes_now():
    now = Interpreter("isolated", "python", "new", former_key="old")
    runtime = {"key": "old", "path": None, "python": "3", "packages": {}}
    old = content(runtime={"kind": "isolated", **runtime})
    old["runtime"] |= {"kind": "isolated", "key": "old"}
    info = upgrade(old)
    same = with_keys_of_today(info, now, now)
    assert (same.runtime.key, same.policy.runtime.key) == ("new", "new")
    other = Interpreter("isolated", "python", "new", former_key="another")
    assert with_keys_of_today(info, other, other) == info
    assert with_keys_of_today(replace(info, format=2), now, now).runtime.key == "old"


def test_an_upgrade_is_no_other_question_but_other_workers_are():
    info = upgrade(content())
    check_same(info, replace(info, envhub="0.2.0"), Path("run"))
    workers = replace(info.runtime, worker=2)
    with pytest.raises(RunDirectoryError) as caught:
        check_same(info, replace(info, envhub="0.9.0", runtime=workers), Path("run"))
    assert str(caught.value) == (
        "run was begun with EnvHub 0.1.0, whose workers play episodes otherwise than those of "
        "EnvHub 0.9.0. Continue it with EnvHub 0.1.0, or start a new run in another directory."
    )
