"""Each row of the table in docs/checkpoints.md, for both kinds of policies, without LeRobot.

`test_policy.py` has real ACT and Diffusion checkpoints of the same rows.
"""

import numpy as np
import pytest
from envhub_lerobot.features import check_trained, compare, match
from envhub_lerobot.trained import Trained
from gymnasium import spaces

from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError

STATE, ACTION = "observation.state", "action"
FIXED, PADDED = ("act", "diffusion", "vqbet", "tdmpc"), ("smolvla", "pi0", "pi05", "pi0_fast")
MODES = {STATE: "MEAN_STD", ACTION: "MEAN_STD"}
LOOKS = (
    "The checkpoint executes 50 actions per look; published LIBERO runs use 10 (--policy-arg "
    "n_action_steps=10)."
)
STATE_LINE = (
    "config.json says 6 numbers for observation.state, its statistics 8, as libero has: using 8."
)
RENAME = {"image": "camera1", "image2": "camera2"}


def camera(name):
    return f"observation.images.{name}"


def cameras(*names, size=256):
    return {camera(name): (3, size, size) for name in names}


def full(rename):
    return {camera(key): camera(new) for key, new in rename.items()}


def libero(*, size=256, state=8):
    """The features of LIBERO."""
    return {**cameras("image", "image2", size=size), STATE: (state,)}


def statistics(*names, state=8, action=7):
    """Of a dataset with some cameras."""
    pictures = {camera(name): {"mean": (3, 1, 1), "count": (1,)} for name in names}
    sizes = {STATE: state, ACTION: action}
    numbers = {key: dict.fromkeys(("mean", "std"), (size,)) for key, size in sizes.items()}
    return {**pictures, **numbers}


def trained(kind="smolvla", inputs=None, **more):
    """A checkpoint that fits LIBERO exactly, unless something is given."""
    settings = {"modes": MODES, "statistics": statistics("image", "image2"), "action": (7,)}
    return Trained(type=kind, inputs=libero() if inputs is None else inputs, **{**settings, **more})


def smolvla_libero(**more):
    """As `lerobot/smolvla_libero`, whose config.json has its base model's state and cameras."""
    inputs = {**cameras("camera1", "camera2", "camera3"), STATE: (6,)}
    settings = {"stored_rename": full(RENAME), "max_state": 32, "chunk": 50, "steps": 50}
    return trained(inputs=inputs, **{**settings, **more})


def benchmark(name="libero", layout="ee_axis_angle_gripper"):
    task = Task("a", "a", 5)
    return Benchmark(
        name, ":make", {"all": (task,)}, lerobot=":c", lerobot_conventions={"state": layout}
    )


def fits(checkpoint, ours=None, rename=None, name="libero"):
    """The names and the remarks of everything that is compared."""
    before = check_trained(checkpoint, benchmark(name), (7,), rename or {})
    names, after = match(checkpoint, libero() if ours is None else ours, rename or {}, name)
    return names, [*before, *after]


def refused(checkpoint, ours=None, rename=None, name="libero"):
    with pytest.raises(ContractError) as caught:
        fits(checkpoint, ours, rename, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_checkpoint_made_like_smolvla_libero_needs_no_option():
    names, remarks = fits(smolvla_libero())
    assert names == {**full(RENAME), STATE: STATE}
    assert remarks == [
        LOOKS,
        "Cameras as in training: image is camera1, image2 is camera2.",
        STATE_LINE,
    ]


@pytest.mark.parametrize("kind", [*FIXED, *PADDED, "groot"])
def test_a_checkpoint_that_fits_exactly_is_not_remarked_on(kind):
    checkpoint = trained(kind, chunk=50, steps=10)
    assert fits(checkpoint) == ({name: name for name in libero()}, [])


# States and actions


@pytest.mark.parametrize("kind", FIXED)
def test_config_and_statistics_that_differ_fit_no_fixed_policy(kind):
    said = refused(trained(kind, {**libero(), STATE: (6,)}))
    assert said == (
        "The checkpoint's config.json says 6 numbers for observation.state, its statistics 8: no "
        "observation.state fits both."
    )


@pytest.mark.parametrize("kind", PADDED)
def test_statistics_are_trusted_before_config_of_a_padded_policy(kind):
    _, (remark,) = fits(trained(kind, {**libero(), STATE: (6,)}))
    assert remark.endswith("its statistics 8, as libero has: using 8.")


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
@pytest.mark.parametrize("size", [6, 1])
def test_statistics_of_another_size(kind, size):
    inputs = {**libero(), STATE: (size,)}
    checkpoint = trained(kind, inputs, statistics=statistics(state=size))
    with pytest.raises(ContractError) as caught:
        match(checkpoint, libero(), {}, "libero")
    assert f"was normalized with {size} numbers; libero has 8" in str(caught.value)
    assert f"has the shape ({size},), and that of libero is ee_axis" in refused(checkpoint)


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_statistics_under_other_names(kind):
    there = {"so100.buffer.action": {"mean": (7,), "std": (7,)}}
    said = refused(trained(kind, statistics={STATE: {"mean": (8,)}, **there}))
    assert said == (
        "The checkpoint has no statistics for action: it would return numbers that are normalized. "
        "It has observation.state, so100.buffer.action."
    )


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
@pytest.mark.parametrize("there", [{}, {STATE: {"min": (8,), "max": (8,)}}])
def test_no_statistics_for_the_state(kind, there):
    """Those of another mode of normalization are none."""
    said = refused(trained(kind, statistics={ACTION: {"mean": (7,), "std": (7,)}, **there}))
    assert "no statistics for observation.state: it would read numbers that are not norm" in said


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_a_state_that_is_not_normalized_has_the_size_of_config(kind):
    checkpoint = trained(kind, {**libero(), STATE: (7,)}, modes={}, statistics={})
    said = refused(checkpoint)
    assert "observation.state (7,); libero has" in said
    assert "observation.state (8,)" in said
    assert fits(trained(kind, modes={}, statistics={}))[1] == []


def test_a_state_that_is_longer_than_the_network_takes():
    said = refused(trained(max_state=7))
    assert said.startswith("observation.state of libero has 8 numbers; the checkpoint takes at mos")


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_actions_of_another_size(kind):
    said = refused(trained(kind, action=(6,)))
    assert "actions have the shape (6,), and those of libero (7,)" in said
    said = refused(trained(kind, statistics=statistics(action=6)))
    assert "config.json says 7 numbers for action, its statistics 6" in said


# Cameras


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_the_names_of_training_are_used(kind):
    inputs = {**cameras("camera1", "camera2"), STATE: (8,)}
    names, remarks = fits(trained(kind, inputs, stored_rename=full(RENAME)))
    assert names == {**full(RENAME), STATE: STATE}
    assert remarks == ["Cameras as in training: image is camera1, image2 is camera2."]


def test_the_user_is_heard_before_training():
    swapped = full({"image": "camera2", "image2": "camera1"})
    names, remarks = fits(smolvla_libero(steps=10), rename=swapped)
    assert names == {**swapped, STATE: STATE}
    assert not any("as in training" in remark for remark in remarks)


def test_names_of_training_that_the_benchmark_does_not_have_are_not_needed():
    ours = {**cameras("camera1", "camera2"), STATE: (8,)}
    names, remarks = fits(smolvla_libero(steps=10), ours)
    assert names == {name: name for name in ours}
    assert len(remarks) == 1  # of the state


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_other_names_without_a_map(kind):
    said = refused(trained(kind, {**cameras("camera1", "camera2"), STATE: (8,)}))
    line = ",".join(f"{key}={new}" for key, new in full(RENAME).items())
    assert said.endswith(
        f" If these are the same (which camera is which is a guess), rename them: --policy-arg "
        f"rename={line}"
    )


@pytest.mark.parametrize("kind", [*FIXED, *PADDED])
def test_one_other_name_without_a_map(kind):
    inputs = {**cameras("image", "wrist"), STATE: (8,)}
    said = refused(trained(kind, inputs, statistics=statistics()))
    line = f"rename={camera('image2')}={camera('wrist')}"
    assert said.endswith(f"If these are the same, rename them: --policy-arg {line}")


@pytest.mark.parametrize("kind", PADDED)
def test_a_camera_that_training_did_not_have_is_not_missed(kind):
    assert fits(trained(kind, {**libero(), **cameras("camera3")}))[1] == []
    inputs = {**libero(), **cameras("camera3")}
    others = statistics("top", "side")  # two as well, under names that say nothing
    assert fits(trained(kind, inputs, statistics=others))[1] == []


@pytest.mark.parametrize("kind", PADDED)
@pytest.mark.parametrize("there", [statistics("image", "image2", "camera3"), statistics()])
def test_a_camera_that_training_had_is_left_out(kind, there):
    _, remarks = fits(trained(kind, {**libero(), **cameras("camera3")}, statistics=there))
    assert remarks == ["camera3 is left out, as LeRobot does: libero has no such camera."]


def test_of_cameras_only_those_that_training_had_are_named():
    ours = {**cameras("image"), STATE: (8,)}
    _, remarks = fits(smolvla_libero(steps=10), ours)
    assert remarks[0] == "Cameras as in training: image is camera1."
    assert remarks[-1] == "camera2 is left out, as LeRobot does: libero has no such camera."


@pytest.mark.parametrize("kind", [*FIXED, "groot"])
def test_a_camera_that_is_missing(kind):
    there = statistics("image", "image2", "camera3")
    said = refused(trained(kind, {**libero(), **cameras("camera3")}, statistics=there))
    assert said.endswith(f"{camera('camera3')} is missing.")


@pytest.mark.parametrize("kind", [*FIXED, *PADDED, "groot"])
def test_no_camera_is_left(kind):
    said = refused(trained(kind), {STATE: (8,)})
    assert "The checkpoint reads observation.images.image (3, 256, 256)" in said
    assert "libero has observation.state (8,)." in said
    assert said.endswith(f"{camera('image')} is missing.")


@pytest.mark.parametrize("kind", [*PADDED, "groot"])
def test_cameras_that_lerobot_fills_in_and_extra_observations(kind):
    inputs = {**libero(), **cameras("empty_camera_0", "empty_camera_1", size=480)}
    ours = {**libero(), **cameras("side"), "observation.unread": (2, 2)}
    names, remarks = fits(trained(kind, inputs), ours)
    assert ({*names}, remarks) == ({*libero()}, [])


def test_cameras_that_lerobot_fills_in_are_counted_for_a_fixed_policy():
    inputs = {**libero(), **cameras("empty_camera_0")}
    assert fits(trained("act", inputs, empty_cameras=1))[1] == []
    assert refused(trained("act", inputs)).endswith("empty_camera_0 is missing.")


# Sizes of pictures


@pytest.mark.parametrize("kind", FIXED)
def test_pictures_of_another_size_for_a_fixed_policy(kind):
    said = refused(trained(kind), libero(size=360))
    assert "image has another shape: make the benchmark's (3, 256, 256), e.g. by --env-arg." in said
    _, remarks = fits(trained(kind, resizes=True), libero(size=360))
    assert remarks == ["config.json says 256; drawn at 360 and resized by the policy."]


@pytest.mark.parametrize("kind", [*PADDED, "groot"])
def test_pictures_of_another_size_for_a_padded_policy(kind):
    _, remarks = fits(trained(kind), libero(size=360))
    assert remarks == ["config.json says 256; drawn at 360 and resized by the policy."]
    grey = {camera("image"): (1, 256, 256), camera("image2"): (3, 256, 256), STATE: (8,)}
    assert "has another shape" in refused(trained(kind), grey)


# Types and chunks


def test_xvla_on_libero():
    said = refused(trained("xvla"))
    assert said.startswith("LeRobot evaluates X-VLA on LIBERO with conversions of its own")
    assert fits(trained("xvla"), name="other")[1] == []


@pytest.mark.parametrize(
    ("kind", "chunk", "steps", "told"),
    [
        ("smolvla", 50, 50, True),
        ("pi05", 50, 50, True),
        ("pi05", 50, 10, False),
        ("pi0_fast", 10, 10, False),
        ("act", 100, 100, False),
        ("diffusion", None, 8, False),
    ],
)
def test_actions_per_look(kind, chunk, steps, told):
    _, remarks = fits(trained(kind, chunk=chunk, steps=steps))
    assert remarks == [LOOKS][: int(told)]
    _, others = fits(trained(kind, chunk=chunk, steps=steps), name="other")
    assert all("LIBERO" not in remark for remark in others)
    assert len(others) == int(told)


# What the user says


@pytest.mark.parametrize(
    ("rename", "said"),
    [
        ({"top": "image"}, "rename names observation.images.top, which libero does not have"),
        ({"image": "top"}, "rename names observation.images.top, which the checkpoint does not"),
        ({"image": "image2", "image2": "image2"}, "rename names observation.images.image2 twice."),
    ],
)
def test_a_rename_that_cannot_be_meant(rename, said):
    assert refused(trained(), rename=full(rename)).startswith(said)


def test_only_the_leaves_that_are_read_are_drawn():
    pictures = {name: spaces.Box(0, 255, (32, 32, 3), np.uint8) for name in ("image", "side")}
    space = spaces.Dict(
        {"pixels": spaces.Dict(pictures), "agent_pos": spaces.Box(-1, 1, (8,), np.float32)}
    )
    inputs = compare(smolvla_libero(), space, {}, "walk")
    assert inputs.needs == {"pixels/image", "agent_pos"}
    assert inputs.remarks[0] == "Cameras as in training: image is camera1."
    assert "config.json says 256; drawn at 32 and resized by the policy." in inputs.remarks
