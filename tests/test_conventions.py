"""The closed lists of conventions, and what is said of others."""

import re

import pytest
from support.paths import DOCS

from envhub.conventions import (
    HZ,
    KEYS,
    STATE_SIZES,
    VALUES,
    check_conventions,
    contrast,
    describe,
    differing,
    read_conventions,
)
from envhub.errors import ContractError

GRIPPERS = "none, positive_closes, positive_opens, one_closes, one_opens, width"
ALL = "control, rotation, gripper, frame, images, state, control_hz"


def test_every_value_of_every_key_is_allowed():
    for key, values in VALUES.items():
        for value in values:
            assert check_conventions("It", {key: value}) == {key: value}
    assert check_conventions("It", {HZ: 20}) == {HZ: 20.0}
    assert check_conventions("It", {}) == {}


def test_keys_have_one_order():
    made = check_conventions("It", {HZ: 5, "state": "joints", "control": "discrete"})
    assert list(made) == ["control", "state", HZ]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"griper": "none"}, f"has the key 'griper', which is not one of {ALL}; the nearest is"),
        ({"griper": "none"}, "the nearest is 'gripper'."),
        (
            {"gripper": "positive_close"},
            (
                f"the convention gripper is 'positive_close', which is not one of {GRIPPERS}; the "
                "nearest is 'positive_closes'."
            ),
        ),
        ({"frame": "hand"}, "which is not one of world, base, ee; the nearest is "),
        ({"frame": None}, "the convention frame is None, which is not one of world, base, ee"),
        ({"images": ["upright"]}, "the convention images is ['upright'], which is not one of"),
        ({1: "none"}, "conventions has the key 1, which is not one of control, "),
        ({HZ: 0}, "the convention control_hz must be a positive number, found 0."),
        ({HZ: "20"}, "must be a positive number, found '20'."),
        ({HZ: True}, "must be a positive number, found True."),
        ({HZ: float("inf")}, "must be a positive number, found inf."),
        ({HZ: float("nan")}, "must be a positive number, found nan."),
        ("gripper", "conventions must be a mapping of keys to values, found 'gripper'."),
        (None, "conventions must be a mapping of keys to values, found None."),
        ({"x" * 9999: 1}, "the nearest is "),
    ],
)
def test_others_are_refused_with_the_nearest(declared, said):
    with pytest.raises(ContractError) as caught:
        check_conventions("It", declared)
    text = str(caught.value)
    assert text.startswith("It: ")
    assert said in text
    assert text.count(". ") == 0
    assert len(text) < 400


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", {}),
        ("gripper=width", {"gripper": "width"}),
        (" control_hz = 20 , images=upright", {"images": "upright", HZ: 20.0}),
        ({"gripper": "width", HZ: 5}, {"gripper": "width", HZ: 5.0}),
    ],
)
def test_conventions_of_a_command_line(given, expected):
    assert read_conventions(given) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gripper", "must be written key=value,key=value; found 'gripper'."),
        ("gripper=width,", "must be written key=value,key=value"),
        ("gripper=x", "--policy-arg: the convention gripper is 'x'"),
        ("control_hz=fast", "control_hz must be a positive number, found 'fast'."),
        (7, "conventions must be a mapping of keys to values, found 7."),
    ],
)
def test_wrong_conventions_of_a_command_line(given, said):
    with pytest.raises(ContractError, match=re.escape(said)):
        read_conventions(given)


def test_only_what_both_declare_can_differ():
    ours = {"control": "ee_pose", "gripper": "width", HZ: 20.0}
    assert differing(ours, {"gripper": "none", "frame": "ee", HZ: 20}) == ("gripper",)
    assert differing(ours, {HZ: 30.0, "control": "joint_delta"}) == ("control", HZ)
    assert differing(ours, {}) == differing({}, ours) == differing(ours, ours) == ()


def test_words():
    assert describe({"gripper": "width", HZ: 20.0}) == "gripper width, control_hz 20"
    assert contrast("arm", {"gripper": "width", HZ: 20.0}, {"gripper": "none", HZ: 12.5}, KEYS[2:3])
    said = contrast("arm", {HZ: 20.0}, {HZ: 12.5}, [HZ])
    assert said == "control_hz is 20 in arm and 12.5 in the policy"


# docs/conventions.md against the lists


def rows(title):
    page = (DOCS / "conventions.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert section, title
    return re.findall(r"^\| `(\w+)` \| [^|]+ \|(?: ([^|]+) \|)?$", section[1], re.MULTILINE)


def test_the_page_has_every_key_and_value_and_no_other():
    assert tuple(key for key, _ in rows("Keys")) == KEYS
    for key, values in VALUES.items():
        assert tuple(value for value, _ in rows(key)) == values


def test_the_page_has_the_sizes_of_states():
    sizes = {
        value: " or ".join(map(str, STATE_SIZES.get(value, ["any"]))) for value in VALUES["state"]
    }
    assert dict(rows("state")) == sizes
