"""`envhub.json`, which says of a checkpoint what LeRobot's files do not."""

import json

import pytest
from envhub_lerobot.checkpoint import find_checkpoint
from envhub_lerobot.provider import provide
from envhub_lerobot.reading import read_contents

from envhub.errors import ContractError, UsageError
from envhub.policies.provider import Wanted

STEPS = json.dumps({"name": "p", "steps": []})
FILES = {
    "config.json": '{"type": "act"}',
    "model.safetensors": "\2\0\0\0\0\0\0\0{}",
    "policy_preprocessor.json": STEPS,
    "policy_postprocessor.json": STEPS,
}


@pytest.fixture
def place(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_a_checkpoint_without_one(place):
    assert read_contents(place).conventions == {}
    assert "envhub.json" not in find_checkpoint(f"lerobot:{place}").files


def test_conventions_of_a_checkpoint(place):
    declared = {"conventions": {"gripper": "width", "control_hz": 20}}
    (place / "envhub.json").write_text(json.dumps(declared))
    assert read_contents(place).conventions == {"gripper": "width", "control_hz": 20.0}
    assert "envhub.json" in find_checkpoint(f"lerobot:{place}").files  # so that resuming compares


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["envhub.json cannot be read as JSON"]),
        ("[]", ["envhub.json is not a JSON object"]),
        ('{"convention": {}}', ["has the key 'convention'; it may have 'conventions' only."]),
        ('{"conventions": 3}', ["conventions must be a mapping of keys to values, found 3."]),
        (
            '{"conventions": {"gripper": "open"}}',
            ["envhub.json: the convention gripper is 'open'", "the nearest is '"],
        ),
    ],
)
def test_others_are_refused_before_the_run(place, content, words):
    (place / "envhub.json").write_text(content)
    with pytest.raises(ContractError) as caught:
        find_checkpoint(f"lerobot:{place}")
    assert [word for word in words if word not in str(caught.value)] == []


def test_conventions_of_the_command_line(place):
    def given(conventions):
        return provide(str(place), Wanted(args={"conventions": conventions})).factory_args

    text = "gripper=width,control_hz=20"
    assert given(text)["conventions"] == text
    with pytest.raises(UsageError, match=r"--policy-arg: the convention gripper is 'wide', which"):
        given("gripper=wide")
    with pytest.raises(UsageError, match="must be written key=value,key=value"):
        given("gripper")
