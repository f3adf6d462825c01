"""`--perturb`: what changes a benchmark is recorded, and draws the same wherever it is played."""

import json
import os
import shutil

import pytest
from support import perturbing
from support.forgery import change_manifest, change_record
from support.needs import SANDBOXES
from support.paths import ASSETS
from support.run_tools import ended, start
from support.sources import confined

import envhub
from envhub.errors import ContractError, RunDirectoryError, UsageError
from envhub.evaluation.perturbations import plan_perturbations
from envhub.host.loading import start_loaded_worker
from envhub.host.waiting import close_workers
from envhub.options import Limits
from envhub.results.journal import read_run
from envhub.results.repeat import repeat_command
from envhub.results.schema import parse_run
from envhub.run_info import hash_protocol
from envhub.types import Confinement, FileSource, WorkerSpec
from envhub.wire.messages import Opened

MOVED = ASSETS / "perturbed"
SEE = f"{MOVED / 'policies.py'}:see"
FEEL = f"{MOVED / 'policies.py'}:feel"
ALL = {"shade": 20.0, "speck": 8.0, "shove": 0.5, "jerk": 0.3, "say": 4.0}


@pytest.fixture(autouse=True)
def plugin(tmp_path, monkeypatch):
    """The plugin, installed for this process and those that it starts."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    return perturbing.install(site)


def play(out, perturb, policy=SEE, **options):
    given = {"workers": 1, "episodes": 2, **options}
    run = envhub.evaluate(MOVED, policy, perturb=perturb, out=out, **given)
    assert [r.error for r in run.records()] == [None] * len(run.records())
    return run


def command(*words):
    return ended(start(*words, PYTHONPATH=os.environ["PYTHONPATH"]))


def facts(run):
    return {
        (r.task, r.episode, r.trace, r.first_observation, r.end_state, r.description)
        for r in run.records()
    }


def test_the_same_records_for_any_workers_kills_and_shards(tmp_path):
    whole = play(tmp_path / "one", ALL)
    expected = facts(whole)
    assert len({state for *_, state, _ in expected}) == 4
    assert facts(play(tmp_path / "three", ALL, workers=3)) == expected
    assert facts(play(tmp_path / "inline", dict(reversed(ALL.items())), workers=0)) == expected
    killed = play(tmp_path / "killed", ALL, env_args={"dies": str(tmp_path / "dead")})
    assert facts(killed) == expected
    assert {record.attempts for record in killed.records()} == {1, 2}
    lines = (tmp_path / "one" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "one" / "episodes.jsonl").write_text(lines[2])
    assert facts(play(tmp_path / "one", ALL, resume=True)) == expected
    shards = [play(tmp_path / f"shard{n}", ALL, shard=f"{n}/2") for n in (1, 2)]
    merged = envhub.merge_runs(tmp_path / "merged", [shard.directory for shard in shards])
    assert facts(merged) == expected
    assert merged.run_info.protocol == whole.run_info.protocol


def test_strengths_are_recorded_and_none_is_none(tmp_path):
    none = play(tmp_path / "none", None)
    zero = play(tmp_path / "zero", {"shade": 0})
    weak, strong = (play(tmp_path / f"{s}", {"shade": s}) for s in (5, 20))
    assert facts(none) == facts(zero)
    assert none.run_info.protocol == zero.run_info.protocol
    assert len({run.run_info.protocol for run in (none, weak, strong)}) == 3
    seen = [{r.first_observation for r in run.records()} for run in (none, weak, strong)]
    assert len(set.union(*seen)) == 12
    planned = read_run(weak.directory)["plan"]["perturbations"]
    code = planned["shade"].pop("code")
    assert code.startswith("sha256:")
    assert planned == {
        "shade": {
            "strength": 5.0,
            "version": "3",
            "package": "my-perturbations 1.0",
            "changes": ["pictures"],
        }
    }
    both = ["--json", str(weak.directory), str(strong.directory)]
    refused = command("compare", *both)
    assert refused.code == 2
    assert "The runs differ in --perturb (shade strength 5.0, 20.0)." in refused.err
    across = json.loads(command("compare", *both, "--across", "perturb").out)
    assert across["paired"]
    assert across["across"] == ["Paired across --perturb (shade strength 5.0, 20.0)."]
    both[1] = str(none.directory)
    across = json.loads(command("compare", *both, "--across", "perturb").out)
    assert across["across"] == ["Paired across --perturb (shade none, 20.0)."]


def test_what_changes_pictures_costs_and_changes_nothing_where_none_is_read(tmp_path):
    log = tmp_path / "drawn"
    pictures = {"shade": 20, "speck": 8}
    none = play(tmp_path / "none", None, FEEL, env_args={"log": str(log)})
    changed = play(tmp_path / "changed", pictures, FEEL, env_args={"log": str(log)})
    assert facts(none) == facts(changed)
    assert not log.exists()
    moved = play(tmp_path / "moved", {"shove": 0.5}, FEEL)  # its scene is looked at again
    assert not {row[3] for row in facts(moved)} & {row[3] for row in facts(none)}


def test_words_reach_the_policy_and_the_record(tmp_path):
    none = play(tmp_path / "none", None, FEEL)
    own = f"{MOVED / 'policies.py'}:feel_own_words"
    for name, policy, options in (
        ("file", FEEL, {}),
        ("own", own, {}),
        ("inline", FEEL, {"workers": 0}),
    ):
        run = play(tmp_path / name, {"say": 9}, policy, **options)
        said = [record.description for record in run.records()]
        assert len(set(said)) > 1
        assert all(text.startswith(f"Push the {r.task} one. Now.") for text, r in zip(
            said, run.records(), strict=True
        ))  # fmt: skip
        if name == "file":
            expected = facts(run)
        assert facts(run) == expected
        assert not run.run_info.policy.instructions
    assert {row[2] for row in expected}.isdisjoint(row[2] for row in facts(none))
    texts = {"left": ["One.", "Two.", "Three."]}
    run = play(tmp_path / "texts", {"say": texts}, FEEL, episodes=6)
    said = {task: {r.description for r in run.records() if r.task == task} for task in ALL_TASKS}
    assert said["right"] == {None}
    assert len(said["left"]) > 1
    assert said["left"] <= {*texts["left"]}
    assert envhub.verify(run, episodes=None).verdict == "identical"
    with pytest.raises(UsageError, match="--instructions and --perturb say both word the tasks"):
        play(tmp_path / "both", {"say": 1}, instructions={"left": "Go."})


ALL_TASKS = ("left", "right")


def test_verify_and_resume_need_the_plugin_as_it_was(tmp_path, plugin):
    run = play(tmp_path / "run", ALL, episodes=1)
    assert envhub.verify(run, episodes=None, policy=True).verdict == "identical"
    frames = []
    replayed = envhub.replay(run, "left", 0, on_frame=frames.append)
    assert replayed.identical
    assert len({frame.tobytes() for frame in frames}) == len(frames)
    part = tmp_path / "part"
    shutil.copytree(run.directory, part)
    lines = (part / "episodes.jsonl").read_text().splitlines(keepends=True)
    (part / "episodes.jsonl").write_text(lines[0])
    module = plugin.parent / "my_perturbations.py"
    text = module.read_text()
    module.write_text(f"{text}\n# changed\n")
    resume = ("eval", "--resume", str(part))
    for words in (resume, ("verify", str(run.directory))):
        done = command(*words)
        assert done.code == 2, words
        assert "The --perturb jerk that" in done.err
    module.unlink()
    shutil.rmtree(plugin)
    for words in (resume, ("verify", str(run.directory))):
        done = command(*words)
        assert done.code == 2, words
        assert "The run was perturbed by jerk of my-perturbations 1.0." in done.err
        assert "No installed perturbation is called 'jerk'." in done.err
    perturbing.install(plugin.parent)
    assert command(*resume).code == 0
    assert facts(envhub.open_run(part)) == facts(run)


def test_verify_sees_physics_that_no_reward_shows(tmp_path):
    drift = tmp_path / "drift"
    drift.write_text("0.0")
    run = play(tmp_path / "run", None, FEEL, episodes=1, env_args={"drift": str(drift)})
    assert all(record.end_state for record in run.records())
    change_record(run, 0, end_state=f"sha256:{0:064}")
    verdicts = envhub.verify(run.directory, episodes=None).episodes
    assert [each.verdict for each in verdicts] == ["drifted", "identical"]
    drift.write_text("0.001")
    verdicts = envhub.verify(run, episodes=None).episodes
    assert [each.verdict for each in verdicts] == ["drifted", "drifted"]
    assert {each.reason for each in verdicts} == {
        "its rewards and flags are the same, and it ends in another state of the env"
    }


def test_a_strength_that_is_not_the_one_that_was_played_is_found(tmp_path):
    run = play(tmp_path / "run", {"shade": 20.0}, episodes=1)

    def weaker(info):
        info["plan"]["perturbations"]["shade"]["strength"] = 1.0
        info["protocol"] = hash_protocol(parse_run(info, run.directory))

    change_manifest(run.directory, weaker)
    found = envhub.verify(run.directory, episodes=None)
    assert (found.ok, found.verdict) == (False, "drifted")


def test_a_sweep_plays_each_strength_and_ends_with_a_table_and_a_page(tmp_path):
    words = (
        "eval", str(MOVED), "--policy", SEE, "--episodes", "2", "--workers", "1", "--quiet",
        "--out", str(tmp_path / "all"), "--perturb", "shade=0,5,20", "--perturb", "jerk=0.1",
    )  # fmt: skip
    done = command(*words, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["perturbation"] == "shade"
    assert [row["strength"] for row in found["strengths"]] == [0.0, 5.0, 20.0]
    runs = [envhub.open_run(tmp_path / "all" / f"shade-{s}") for s in ("0", "5", "20")]
    assert [{*run.run_info.plan.perturbations} for run in runs] == [
        {"jerk"}, {"jerk", "shade"}, {"jerk", "shade"},
    ]  # fmt: skip
    page = (tmp_path / "all" / "report.html").read_text()
    assert "Success against shade" in page
    assert "Steps held" not in page
    again = command(*words, "--continue")
    assert again.code == 0
    assert again.out.split()[:2] == ["shade", "rate"]
    assert "jerk=0.1" in command("show", str(tmp_path / "all" / "shade-20"), "--toml").out.replace(
        " = ", "="
    )
    refused = command(*words[:-2], "--perturb", "jerk=0.1,0.2", "--out", str(tmp_path / "two"))
    assert refused.code == 2
    assert "--perturb shade and --perturb jerk have several values" in refused.err


@pytest.mark.parametrize(
    ("perturb", "said"),
    [
        ({"shade": 51}, "--perturb shade is a number from 0 to 50, found 51: moves the camera"),
        ({"shade": -1}, "a strength is a number from 0 on, found -1"),
        ({"shade": {"left": "a"}}, "--perturb shade takes a number from 0 to 50, not texts"),
        (
            {"shde": 1},
            "No installed perturbation is called 'shde'. Did you mean 'shade' or 'shove'?",
        ),
        ({"shde": 0}, "No installed perturbation is called 'shde'."),
    ],
)
def test_what_cannot_be_meant_is_said_before_a_run_begins(tmp_path, perturb, said):
    with pytest.raises(UsageError) as error:
        play(tmp_path / "run", perturb)
    assert said in str(error.value)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("perturb", "args", "said"),
    [
        ({"shade": 1}, {"offers": "nothing"}, "needs an env with a method mujoco()"),
        ({"speck": 1}, {"offers": "nothing"}, "the observations of this env have none"),
        ({"bad": 1}, {}, "Perturbation 'bad' made float64 of shape (8, 8, 3) of the picture"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ended with an error")
def test_an_env_that_lacks_something_or_a_picture_of_another_type(tmp_path, perturb, args, said):
    run = envhub.evaluate(
        MOVED, FEEL if args else SEE, perturb=perturb, out=tmp_path / "run", env_args=args,
        episodes=1, retries=0, workers=1,
    )  # fmt: skip
    assert {record.status for record in run.records()} == {"env_error"}
    assert said in run.records()[0].error.message


def test_a_worker_that_leaves_one_out():
    """The benchmark's code runs in the same process, and may be hostile."""
    with pytest.raises(ContractError, match="does not say what the perturbation shade is"):
        plan_perturbations({"shade": 1.0, "speck": 0.0}, ())


def test_the_list_is_read_in_a_worker():
    found = json.loads(command("eval", "--perturb", "list", "--json").out)["perturbations"]
    shade = next(row for row in found if row["name"] == "shade")
    assert shade == {
        "name": "shade",
        "description": "moves the camera",
        "most": 50,
        "texts": False,
        "changes": ["pictures"],
        "needs": ["mujoco", "observe"],
        "version": "3",
        "package": "my-perturbations 1.0",
    }
    shown = command("eval", "--perturb", "list").out
    assert "say=0 to 9, or FILE  (my-perturbations 1.0)" in shown
    names = [row["name"] for row in json.loads(command("list", "--json").out)["benchmarks"]]
    assert not {"shade", "camera"} & set(names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shade", "--perturb needs a name and a strength, found 'shade'"),
        ("shade=1,1", "--perturb shade names a strength twice"),
        ("shade=nan", "a strength is a number from 0 on"),
        ("say=nowhere.json", "--perturb say nowhere.json cannot be read"),
    ],
)
def test_the_option_says_what_it_takes(text, said):
    done = command("eval", str(MOVED), "--perturb", text)
    assert done.code == 2
    assert said in done.err


def test_a_run_of_other_perturbations_is_not_continued(tmp_path):
    run = play(tmp_path / "run", {"jerk": 1.0}, FEEL, episodes=1)
    with pytest.raises(RunDirectoryError, match="--perturb jerk"):
        play(run.directory, {"jerk": 0.5}, FEEL, episodes=1, resume=True)


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_their_code_is_found_in_a_sandbox_where_nothing_else_is(monkeypatch, sandbox):
    """The plugin lies where the benchmark cannot read, as an editable installation does."""
    monkeypatch.delenv("PYTHONPATH")
    confinement = Confinement(sandbox, network=False, readable=(str(MOVED),))
    source = confined(FileSource(str(MOVED), "env.py", "perturbed", "perturbed"), confinement)
    spec = WorkerSpec(source, {}, Limits(), perturb={"shade": 1.0})
    worker = start_loaded_worker(spec, "here")
    try:
        assert [each.version for each in worker.loaded.perturbations] == ["3"]
        worker.remote.open("all", "left")
        worker.remote.answer(Opened)
    finally:
        close_workers([worker.remote.worker], limit=spec.limits.close)


def test_a_run_as_the_file_of_an_experiment_and_as_a_command(tmp_path):
    run = play(tmp_path / "run", {"jerk": 0.5, "say": {"left": ["One.", "Two."]}}, FEEL)
    file = tmp_path / "again.toml"
    file.write_text(command("show", str(run.directory), "--toml").out)
    played = command("eval", str(file), "--out", str(tmp_path / "again"), "--workers", "1")
    assert played.code == 0, played.err
    (cell,) = (path.parent for path in (tmp_path / "again").glob("*/run.json"))
    assert facts(envhub.open_run(cell)) == facts(run)
    assert envhub.open_run(cell).run_info.protocol == run.run_info.protocol
    said = json.loads((tmp_path / "again" / "experiment.json").read_text())
    assert "--perturb jerk=0.5 --perturb say=FILE" in json.dumps(said)
    assert "--perturb jerk=0.5" in str(repeat_command(run.run_info))
