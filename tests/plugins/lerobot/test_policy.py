"""LeRobot checkpoints as policies, against LeRobot's own loop with the same draws.

`support/lerobot_cases.py` does the work in LeRobot's environment, in one process for all tests.
"""

import json
import shutil
import subprocess
import sys

import pytest
from envhub_lerobot.contents import STEPS
from support import lerobot_runs
from support.guards import takes_away
from support.lerobot_runs import WALK, actions, lerobots_own, made_once
from support.needs import (
    lerobot_python,
    needs_lerobot,
    needs_newest_lerobot,
    newest_lerobot_python,
)
from support.paths import TESTS

import envhub
from envhub.errors import ExitCode, RunDirectoryError

pytestmark = [needs_lerobot, pytest.mark.timeout(900)]

NAMES = ("act", "ensemble", "diffusion")
"""One of each way to act; `soak/test_checkpoints.py` has others."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory with the checkpoints and the answer."""
    return made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py")


@pytest.fixture(scope="module")
def answer(made):
    told = json.loads((made / "answer.json").read_text())
    assert "error" not in told, told["error"]
    return told


# The same actions


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_those_of_lerobots_own_loop(answer, name):
    assert answer[name]["equal"]
    assert answer[name]["varied"]
    assert answer[name]["batch"] == 1


@pytest.mark.parametrize(
    ("name", "way", "looks"),
    [
        ("act", "chunk", 6 * 3),
        ("ensemble", "swap", 6 * 14),
        ("diffusion", "history", 6 * 5),
    ],
)
def test_no_more_observations_are_looked_at_than_needed(answer, name, way, looks):
    assert answer[name]["about"]["way"] == way
    assert answer[name]["looks"] == looks
    assert answer[name]["needs"] == ["agent_pos", "pixels"]


@pytest.mark.parametrize("name", ["act", "diffusion"])
def test_eight_rows_give_the_same_in_any_order(answer, name):
    assert answer[name]["eight"]
    assert 0 < answer[name]["near"] < 1e-4


def test_fewer_actions_of_a_chunk(answer):
    assert answer["fewer"] == {"looks": 6 * 7, "threads": 1}


def test_a_device_that_is_not_there(answer):
    (remark,) = answer["cuda"]["remarks"]
    assert remark == "The checkpoint's device cuda is not available here: it runs on the CPU."
    assert answer["cuda"]["device"] == "cpu"


# Checkpoints of LeRobot before 0.4


def test_an_old_checkpoint_acts_by_the_old_formulas(answer):
    """`soak/test_checkpoints.py` has the other policies and normalizations."""
    old = answer["old-act"]
    assert (old["equal"], old["varied"]) == (True, True)
    assert old["about"]["processors"] == "built from the weights"
    (remark,) = old["remarks"]
    assert remark.startswith("The checkpoint is of LeRobot before 0.4: its processors are built")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "have no normalize_inputs.buffer_observation_state.std, which config.json"),
        ("never set", "buffer_observation_state.std has numbers that are not finite"),
        ("size", "buffer_observation_state.std has the shape (6,); by config.json it is (4,)."),
        ("of nothing", "have normalize_inputs.so100_buffer_observation_state.mean, which is of no"),
        ("weights", "weights do not fit its config.json: Unexpected key(s)"),
    ],
)
def test_old_checkpoints_that_are_refused(answer, name, words):
    assert words in answer["old refusals"][name]
    assert "\n" not in answer["old refusals"][name]


# A program that loads checkpoints itself


@pytest.mark.parametrize(("done", "name"), [("loop", "act"), ("run", "diffusion")])
def test_a_programs_own_actions_are_lerobots(made, answer, done, name):
    assert lerobots_own(made / f"program-{done}.npz") == lerobots_own(made / f"{name}.npz")


def test_the_run_of_a_program_records_the_checkpoint(answer):
    policy = answer["program"]["policy"]
    assert (policy["kind"], policy["ref"], policy["path"]) == ("object", "LeRobotPolicy", None)
    assert policy["about"] == answer["diffusion"]["about"]
    assert set(policy["provided"]["files"]) >= {"config.json", "model.safetensors"}


def test_an_observation_that_lacks_an_input(answer):
    said = answer["program"]["said"]
    assert "the observation has observation.state (4,). observation.image is missing." in said


# Bad input

READS = "The checkpoint reads observation.image (3, 32, 32), observation.state (4,); lerobot_walk"
BATCH = "take --policy-arg batch=1."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("type", ["needs another LeRobot: this is VERSION.", "not know the type 'walker'"]),
        ("field", ["needs another LeRobot: this is VERSION.", "later_field"]),
        ("missing weights", ["weights do not fit", "Missing key(s)", "and 2 more"]),
        ("other weights", ["weights do not fit", "Unexpected key(s)", '"new"']),
        ("peft", ["holds PEFT adapters", "Merge them"]),
        ("relative", ["relative to the state"]),
        ("size", [READS, "observation.image (3, 48, 48)", "has another shape", "--env-arg"]),
        ("camera", [READS, "--policy-arg rename=observation.images.top=observation.image"]),
        ("blind", [READS, "observation.image is missing."]),
        ("actions", ["actions have the shape (7,), and those of lerobot_walk (2,)"]),
        ("swap batch", ["acts for one episode at a time", BATCH]),
        ("batch", ["batch must be a positive whole number, found 0."]),
        ("steps", ["n_action_steps=9: the checkpoint predicts 8 actions."]),
        ("device", ["device=cuda:7 is not available here"]),
        ("rename", ["rename must be written ours=theirs"]),
        ("renamed", ["rename names observation.images.top, which lerobot_walk does not have"]),
    ],
)
def test_checkpoints_that_are_refused(answer, name, words):
    said = answer["refusals"][name].replace(answer["version"], "VERSION")
    assert [word for word in words if word not in said] == [], said
    assert "\n" not in said


@pytest.mark.parametrize("kind", ["act", "diffusion"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("state", "config.json says 6 numbers for observation.state, its statistics 4:"),
        ("no action", "has no statistics for action: it would return numbers that are normalized."),
        ("no state", "has no statistics for observation.state: it would read numbers that are not"),
        ("third", "observation.images.third is missing."),
        ("wide", "observation.image has another shape: make the benchmark's (3, 32, 32)"),
    ],
)
def test_rows_of_the_table_for_policies_that_cannot_pad(answer, kind, name, words):
    """`test_features.py` has all rows, without LeRobot."""
    assert words in answer["refusals"][f"{kind} {name}"]


@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_cameras_under_the_names_of_training(answer, kind):
    assert answer["renamed"][kind] == {
        "equal": True,
        "remarks": ["Cameras as in training: top is image."],
    }


def test_a_tokenizer_that_is_not_there(answer):
    said = answer["refusals"]["tokenizer"]
    named = "names the model 'tests/absent' (tokenizer_name of policy_preprocessor.json)"
    assert named in said
    assert "--policy-arg models=NAME=DIRECTORY" in said
    assert "\n" not in said


# Checkpoints that would be more than data

NAMES_MODEL = "The checkpoint names the model "


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("classifier", 'has the step "reward_classifier_processor", which is not one that EnvHub'),
        ("relative classifier", 'has the step "reward_classifier_processor", which is not one'),
        ("state file", 'names the state file "../evil/x.safetensors", which is not a file of'),
        ("weights as state", 'names the state file "model.safetensors"'),
        ("field", 'step device_processor has the field "hook", which is not one that EnvHub loads'),
        ("path", 'has {"a": "/etc"} for rename_map, which it cannot be.'),
        ("tokenizer", NAMES_MODEL),
        ("class", 'step device_processor has the key "module", which EnvHub does not know.'),
        ("program", 'has a step that names a Python class, "subprocess.Popen". Only LeRobot'),
        ("config", "for later_path, which could name a file or a repository."),
        ("config name", 'has "owner/repo" for later_name, which could name a file or a repository'),
        ("encoder", NAMES_MODEL),
    ],
)
def test_a_checkpoint_that_leads_to_code(answer, attack, words):
    """Where the policy is made, whatever the host has checked, and in a program."""
    for said in answer["attacks"][attack]:
        assert words in said
        assert "\n" not in said
    assert not answer["attacks"]["ran"]


@takes_away("checkpoints")
def test_without_the_list_of_steps_it_runs(answer):
    """The last of them, by LeRobot's own way to load a step, which looks at it too late."""
    assert "Popen" in answer["attacks"]["unchecked"]
    assert answer["attacks"]["ran unchecked"]


@pytest.mark.parametrize(
    "name", ["config.json", "policy_preprocessor.json", "policy_preprocessor", "model.safetensors"]
)
def test_a_file_that_is_swapped_between_check_and_load(answer, name):
    said = answer["attacks"][f"swap {name}"]
    assert said.endswith(" changed while it was loaded; run the command again.")


def test_weights_that_change_while_lerobot_reads_them(answer):
    said = answer["attacks"]["during"]
    assert said.endswith("model.safetensors changed while it was loaded; run the command again.")


NOT_YET = {
    "absolute_actions_processor", "evo1_action_processor", "evo1_pad_action_processor",
    "evo1_pad_state_processor", "fastwam_action_toggle_processor", "relative_actions_processor",
    "vla_jepa_binarize_gripper", "vla_jepa_clip_actions", "vla_jepa_pre_snap_gripper",
}  # fmt: skip
"""Steps that LeRobot has since 0.4.4."""


def test_the_list_of_steps_is_lerobots(answer):
    # The soak runs this file with 0.6.1, too.
    check_steps(answer["steps"], NOT_YET if answer["version"] == "0.4.4" else set())


@pytest.mark.soak
@needs_newest_lerobot
def test_the_list_of_steps_is_the_newest_lerobots():
    command = [newest_lerobot_python(), TESTS / "support/lerobot_steps.py"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    check_steps(json.loads(done.stdout), set())


def check_steps(registered, absent):
    assert {*STEPS} - {*registered} == absent
    for name in {*STEPS} - absent:
        assert {*STEPS[name]} <= {*registered[name]}, name


def test_a_checkpoint_that_is_refused_ends_the_command(made, answer, tmp_path):
    command = ["eval", WALK, "--policy", f"lerobot:{made / 'bad-peft'}"]
    command += ["--policy-python", lerobot_python(), "--episodes", "2", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "envhub", *command], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == ExitCode.CONTRACT, done.stderr
    assert "The checkpoint holds PEFT adapters for another model." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_renamed_feature_fits(answer):
    assert "fits" not in answer["refusals"]


def test_conventions_of_a_checkpoint_and_of_the_command_line(answer):
    declared = {"gripper": "width", "frame": "world", "control_hz": 20.0}
    assert answer["conventions"]["declared"] == declared


def test_a_state_that_cannot_have_the_benchmarks_layout(answer):
    assert answer["conventions"]["state"] == {
        "ee_position_gripper": None,
        "ee_axis_angle_gripper": (
            "The checkpoint's observation.state has the shape (4,), and that of arm is "
            "ee_axis_angle_gripper, with 7 or 8 numbers: it was trained with another state."
        ),
    }


def test_states_far_outside_the_checkpoints_own_statistics(answer):
    found = answer["outliers"]
    assert found["act 0"] == found["act 1"] == found["far 1"] == []
    (one,) = found["far 0"]
    assert (one["task"], one["feature"], one["index"]) == ("lerobot_walk", "observation.state", 2)
    assert abs(one["value"]) < 10
    rounded = {key: round(value, 4) for key, value in one["statistics"].items()}
    assert rounded == {"mean": 99.9, "std": 0.7, "min": 98.0, "max": 102.0}


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        ("rows", None),
        ("like", None),
        ("normal", None),
        ("each", "random numbers that belong to no row"),
        ("shape", "shape (3, 3), which are not by 2 rows"),
        ("checkpoint", "shape (3,), which are not by 2 rows"),
        ("method", "random numbers that belong to no row"),
        ("multinomial", "random numbers that belong to no row"),
    ],
)
def test_draws_that_have_no_rows(answer, draw, problem):
    said = answer["draws"][draw]
    assert said is None if problem is None else problem in said and BATCH in said


# Whole runs


def test_a_run_and_one_that_is_resumed_take_lerobots_own_actions(made, answer, tmp_path):
    """`soak/test_checkpoints.py` has other checkpoints and numbers, kills, Hubs and simulators."""
    out, checkpoint = tmp_path / "run", tmp_path / "diffusion"
    shutil.copytree(made / "diffusion", checkpoint)
    run = lerobot_runs.evaluate(checkpoint, out, workers=3, policy_processes=2)
    assert {record.status for record in run.records()} == {"ok"}
    assert actions(run) == lerobots_own(made / "diffusion.npz")
    policy = run.info["policy"]
    assert policy["about"] == answer["diffusion"]["about"]
    assert (policy["batch"], policy["placement"]) == (1, "process")
    assert policy["runtime"]["packages"]["lerobot"] == answer["version"]
    assert set(policy["provided"]["files"]) >= {"config.json", "model.safetensors"}
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:3]))
    resume = ["eval", "--resume", out, "--policy-processes", "1"]
    subprocess.run([sys.executable, "-m", "envhub", *resume], check=True)
    assert actions(envhub.open_run(out)) == lerobots_own(made / "diffusion.npz")
    (out / "episodes.jsonl").write_text("".join(lines[:3]))
    with (checkpoint / "config.json").open("a") as file:
        file.write("\n")
    with pytest.raises(RunDirectoryError, match=r"file of the policy config.json that"):
        lerobot_runs.evaluate(checkpoint, out, resume=True)
