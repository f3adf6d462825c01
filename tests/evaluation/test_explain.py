"""Why two results differ: four changes here, and all of them in the soak."""

import json
import platform
import shutil
import signal

import pytest
from support.commands import envhub as run_command
from support.commands import refused
from support.explaining import CASES, EXPLAINED, POLICY, check, evaluate, explain, findings
from support.forgery import change_manifest
from support.replays import copy_recorded
from support.run_tools import start
from support.wheels import make_wheel

import envhub
from envhub.errors import RuntimeUnavailable, UnknownName, UsageError
from envhub.options import SourceOptions
from envhub.results.run import open_run
from envhub.results.seal import key_path

HERE = SourceOptions(runtime="here")


def test_one_change_each(tmp_path):
    a = evaluate(tmp_path / "a")
    copy_recorded(a, tmp_path / "copy")
    check(explain(a.directory, tmp_path / "copy"), CASES["nothing"])
    for name in ("n_action_steps", "seed"):
        b = evaluate(tmp_path / name, CASES[name].change)
        check(explain(a.directory, b.directory, episodes=2), CASES[name])
    said = envhub.explain(a, b.directory, episodes=2, workers=1)
    assert said.verdict == explain(a.directory, b.directory, episodes=2).verdict
    with pytest.raises(UsageError, match="Name two runs, a and b, or one and versions"):
        envhub.explain(a)
    with pytest.raises(UsageError, match="takes NAME=VERSION, as in mujoco="):
        envhub.explain(a, versions=["mujoco"])
    with pytest.raises(UsageError, match="need a policy that is named"):
        envhub.explain(a, b, policy_args={"turn": True})


@pytest.fixture
def versions(real_runtimes, only_index, tmp_path):
    """An index that has two versions of what stands for a simulator."""
    index = tmp_path / "index"
    shutil.copytree(real_runtimes, index)
    for version in ("3.3.0", "3.3.7"):
        make_wheel(index, "isaacsim", version)
    only_index(index)


@pytest.mark.usefixtures("versions")
def test_other_versions(tmp_path):
    a = evaluate(tmp_path / "a", runtime="auto", episodes=1)
    assert a.run_info.runtime.packages["isaacsim"] == "3.3.0"
    found = explain(a.directory, versions={"isaacsim": "3.3.7"})
    newer = tmp_path / "newer"
    shutil.copytree(EXPLAINED, newer)
    text = (newer / "env.py").read_text()
    (newer / "env.py").write_text(text.replace("isaacsim==3.3.0", "isaacsim==3.3.7"))
    b = evaluate(tmp_path / "b", runtime="auto", episodes=1, ref=newer)
    for each in (found, explain(a.directory, b.directory)):
        assert findings(each) == {
            "question": "same",
            "versions": "differs",
            "first observation": "differs",
            "physics": "differs",
            "policy": "same",
            "luck": "same" if each.b else "not checked",
        }
        assert each.verdict.startswith(
            "Pictures differ in on_floor: up to 40 levels darker with isaacsim 3.3.7; and the "
            "physics part: "
        ), each.verdict
        assert {p.task: p.finding for p in each.pictures} == {"floor": "differs", "table": "same"}
        table, floor = ([d for d in each.divergences if d.task == t] for t in ("table", "floor"))
        assert {d.finding for d in table} == {"same to rounding"}
        assert {d.whose for d in table} == ({"A", "B"} if each.b else {"A"})
        first = floor[0]
        assert (first.finding, first.leaf) == ("differs", "place[0]")
        assert first.first < first.apart  # rounding until the contact
        assert 0.009 < first.by < 0.011
    assert "isaacsim==3.3.7 --hash=sha256:" in found.pins
    again = "run: envhub explain RUN --versions isaacsim=9.9"
    with pytest.raises(RuntimeUnavailable, match=again):
        explain(a.directory, versions={"isaacsim": "9.9"})
    with pytest.raises(UnknownName, match="No package is called 'mujocco'"):
        explain(a.directory, versions={"mujocco": "3.3.7"})


def test_runs_of_others_and_of_another_python(tmp_path):
    a = evaluate(tmp_path / "a")
    b = copy_recorded(a, tmp_path / "b")
    change_manifest(b.directory, lambda content: content["runtime"].update(python="3.99.1"))
    found = explain(a.directory, b.directory)  # what B recorded stands for what cannot be played
    assert findings(found)["first observation"] == findings(found)["physics"] == "same"
    assert found.verdict.endswith("(Python 3.99.1), without an effect here."), found.verdict
    change_manifest(a.directory, lambda content: content["runtime"].update(python="3.98.2"))
    layer = explain(a.directory, b.directory).layers[2]
    why = "not checked, because A ran on Python 3.98.2 and this EnvHub runs on"
    assert layer.text.startswith(why)
    assert layer.command == f"python3.98 -m envhub explain {a.directory} {b.directory}"
    here = platform.python_version()
    change_manifest(a.directory, lambda content: content["runtime"].update(python=here))
    key_path().unlink()
    found = explain(a.directory, b.directory)
    assert findings(found)["first observation"] == "not checked"
    layer = found.layers[2]
    assert "does not carry your seal" in layer.words
    assert layer.command == f"envhub explain {a.directory} {b.directory} --benchmark REF --policy P"
    change_manifest(b.directory, lambda content: content["plan"].update(seed=5))
    shutil.copytree(a.directory, tmp_path / "theirs")
    other = open_run(tmp_path / "theirs")
    again = explain(a.directory, other.directory, benchmark=str(EXPLAINED), source=HERE)
    assert findings(again)["physics"] == "same"


def test_what_is_printed_and_written(tmp_path):
    a = evaluate(tmp_path / "a", episodes=1)
    b = evaluate(tmp_path / "b", CASES["env argument"].change, episodes=1)
    done = run_command("explain", "a", "b", "--out", "page", cwd=tmp_path, COLUMNS="80")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("The runs were asked different questions: --env-arg (friction")
    assert [line[:10] for line in lines if line[:1].isdigit()] == [
        "1 question", "2 versions", "3 first ob", "4 physics:", "5 policy: ", "6 luck: no",
    ]  # fmt: skip
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "page/explanation.html"
    content = json.loads((tmp_path / "page" / "explanation.json").read_text())
    assert content["verdict"].startswith(lines[0])
    again = run_command("explain", "a", "b", "--out", "page", "--json", cwd=tmp_path)
    assert json.loads(again.out)["layers"] == content["layers"]
    assert "Traceback" not in again.err
    assert {a.directory.name, b.directory.name, "page"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "Name two runs, A and B, or one and --versions NAME=VERSION."),
        (["a", "b", "--versions", "x=1"], "Name two runs, A and B, or one and --versions"),
        (["a", "--versions", "isaacsim"], "--versions takes NAME=VERSION, as in mujoco=3.3.7"),
        (["a", "--versions", "x=1,x=2"], "--versions names x twice"),
        (["a", "b", "--policy-arg", "x=1"], "--policy-arg and --policy-python need --policy P"),
        (["nothing", "b"], "nothing is not a run: it has no run.json."),
        (["a", "b", "--task", "flor"], "No task is called 'flor'. Did you mean 'floor'?"),
        (["a", "b", "--out", "full"], "full holds something else than an explanation."),
    ],
)
def test_bad_input(words, said, bad):
    refused(run_command("explain", *words, cwd=bad), 2, said)


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    place = tmp_path_factory.mktemp("bad")
    run = evaluate(place / "a", episodes=1)
    shutil.copytree(run.directory, place / "b")
    (place / "full").mkdir()
    (place / "full" / "notes.txt").write_text("mine")
    return place


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    evaluate(tmp_path / "a", {"env_args": {"size": 16}}, episodes=3)
    evaluate(tmp_path / "b", CASES["seed"].change, episodes=3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = start("explain", "a", "b", cwd=tmp_path, TMPDIR=str(scratch))
    for line in command.stderr:
        if "Playing" in line:
            break
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert (command.returncode, "Traceback" in said) == (130, False), said
    assert [path.name for path in scratch.iterdir()] == []
    assert not (tmp_path / "explained").exists()


def test_a_policy_that_has_changed_is_said(tmp_path):
    policy = tmp_path / "policy.py"
    shutil.copy(POLICY, policy)
    a = evaluate(tmp_path / "a", policy=str(policy), episodes=1)
    b = evaluate(tmp_path / "b", CASES["seed"].change, policy=str(policy), episodes=1)
    policy.write_text(policy.read_text() + "\n# changed\n")
    layer = explain(a.directory, b.directory).layers[4]
    assert (layer.finding, layer.words) == (
        "not checked",
        "the policy of A is another one now: its policy's file has changed",
    )
