"""What is read from a checkpoint's processors and the headers of their statistics."""

import json
from types import SimpleNamespace

import pytest
from envhub_lerobot.acting import is_mixed
from envhub_lerobot.trained import read_header, read_trained

from envhub.errors import ContractError

STATE, CAMERA = "observation.state", "observation.images.camera1"
BEFORE, AFTER = "before.safetensors", "after.safetensors"
MODES = {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "MIN_MAX"}


def config(**more):
    inputs = {STATE: (6,), CAMERA: (3, 256, 256)}
    settings = {"type": "smolvla", "max_state_dim": 32, "chunk_size": 50, "n_action_steps": 10}
    return SimpleNamespace(
        input_features={key: SimpleNamespace(shape=shape) for key, shape in inputs.items()},
        output_features={"action": SimpleNamespace(shape=[7])},
        **settings | more,
    )


def tensors(path, shapes):
    """Write a header, and no number: nobody may read any."""
    header = {name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


def write(directory, normalizer=None, unnormalizer=None, rename=None):
    features = {STATE: {"type": "STATE", "shape": [6]}, CAMERA: {"type": "VISUAL", "shape": [3]}}
    settings = {"features": features, "norm_map": MODES}
    before = [
        {"registry_name": "rename_observations_processor", "config": {"rename_map": rename or {}}},
        {"registry_name": "normalizer_processor", "config": settings, "state_file": BEFORE}
        | (normalizer or {}),
    ]
    after = [
        {"registry_name": "unnormalizer_processor", "config": settings, "state_file": AFTER}
        | (unnormalizer or {}),
    ]
    for name, steps in (("pre", before), ("post", after)):
        (directory / f"policy_{name}processor.json").write_text(json.dumps({"steps": steps}))
    tensors(
        directory / BEFORE,
        {
            f"{STATE}.mean": [8],
            f"{STATE}.count": [1],
            "observation.images.image.mean": [3, 1, 1],
            "action.min": [5],
        },
    )
    tensors(directory / AFTER, {"action.min": [7], f"{STATE}.mean": [3]})


def test_what_a_checkpoint_was_trained_with(tmp_path):
    write(tmp_path, rename={"observation.images.image": CAMERA})
    trained = read_trained(tmp_path, config())
    assert (trained.type, trained.padded) == ("smolvla", True)
    assert trained.inputs == {STATE: (6,), CAMERA: (3, 256, 256)}
    assert (trained.action, trained.chunk, trained.steps) == ((7,), 50, 10)
    assert trained.modes == {STATE: "MEAN_STD", "action": "MIN_MAX"}
    assert trained.normalized_size(STATE) == 8  # the preprocessor's
    assert trained.normalized_size("action") == 7  # the postprocessor's
    assert trained.cameras_of_training == {CAMERA}
    assert (trained.max_state, trained.resizes) == (32, False)


def test_statistics_that_are_not_there(tmp_path):
    write(tmp_path, unnormalizer={"state_file": None})
    trained = read_trained(tmp_path, config())
    assert trained.normalized_size("action") is None


def test_only_some_observations_are_normalized(tmp_path):
    settings = {"features": {STATE: {"type": "STATE"}}, "norm_map": MODES}
    write(tmp_path, {"config": settings | {"normalize_observation_keys": [CAMERA]}})
    assert read_trained(tmp_path, config()).modes == {"action": "MIN_MAX"}


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", 3])
def test_statistics_outside_of_the_directory(tmp_path, name):
    write(tmp_path, {"state_file": name})
    with pytest.raises(ContractError, match=r"which is not a file of it"):
        read_trained(tmp_path, config())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x02\0\0\0\0\0\0\0[]",
        b"\xff" * 16,
        b'\x09\0\0\0\0\0\0\0{"a": {}}',
        b"\x01" + b"\0" * 7,
    ],
)
def test_a_file_that_is_not_safetensors(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ContractError, match=r"file cannot be read as safetensors: "):
        read_header(tmp_path / "file")


@pytest.mark.parametrize(
    ("device", "asked", "mixed"),
    [("cuda", True, True), ("cuda:1", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_mixed_precision_as_in_lerobots_evaluation(device, asked, mixed):
    assert is_mixed(SimpleNamespace(device=device, use_amp=asked)) is mixed
