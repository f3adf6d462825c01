"""Spreading the processes of a policy over GPUs."""

import numpy as np
import pytest
from support.needs import needs_egl, needs_metaworld

import envhub
from envhub.machine.gpus import (
    device_of,
    drawing_devices,
    policy_devices,
    spread,
    used_devices,
    visible_gpus,
)

TWO = ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "dri"]
UUID, MIG = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-b2f8"


@pytest.mark.parametrize(
    ("names", "chosen", "expected"),
    [
        ([], None, ()),
        (["nvidiactl", "nvidia-uvm", "dri"], None, ()),
        (["nvidia0"], None, ("0",)),
        (TWO, None, ("0", "1")),
        (["nvidia3"], None, ("0",)),
        (TWO, "", ()),
        (TWO, "-1", ()),
        (TWO, "1", ("1",)),
        (TWO, "1,0", ("1", "0")),
        (TWO, " 1 , 0 ", ("1", "0")),
        (TWO, "0,0,1", ("0", "1")),
        (TWO, "0,-1,1", ("0",)),
        (TWO, "1,7,0", ("1",)),
        (TWO, "all", ()),
        (TWO, f"{UUID},{MIG}", (UUID, MIG)),
        ([], "0,1", ()),
    ],
)
def test_which_gpus_are_visible(names, chosen, expected):
    variables = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert visible_gpus(names, variables) == expected


@pytest.mark.parametrize(
    ("processes", "gpus", "expected"),
    [
        (1, (), (None,)),
        (1, ("0", "1"), (None,)),
        (3, (), (None, None, None)),
        (2, ("0",), ("0", "0")),
        (2, ("1", "0", "2"), ("1", "0")),
        (5, ("0", UUID), ("0", UUID, "0", UUID, "0")),
        ("auto", (), (None,)),
        ("auto", ("3",), (None,)),
        ("auto", ("3", "1"), ("3", "1")),
    ],
)
def test_which_gpu_each_process_gets(processes, gpus, expected):
    assert spread(processes, gpus) == expected


def test_here(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert policy_devices(2) == (None, None)
    assert policy_devices("auto") == (None,)


TEN = [f"nvidia{number}" for number in (10, 2, 0)]


@pytest.mark.parametrize(
    ("names", "variables", "expected"),
    [
        ([], {}, ()),
        (["nvidia0", "nvidiactl"], {}, ()),
        (TWO, {}, (0, 1)),
        (TEN, {}, (0, 2, 10)),
        (TWO, {"MUJOCO_GL": "osmesa"}, ()),
        (TWO, {"MUJOCO_GL": ""}, ()),
        (TWO, {"MUJOCO_EGL_DEVICE_ID": "1"}, ()),
        (TWO, {"CUDA_VISIBLE_DEVICES": "1"}, ()),
        (TWO, {"CUDA_VISIBLE_DEVICES": ""}, ()),
        (TWO, {"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        (TWO, {"CUDA_VISIBLE_DEVICES": "GPU-8932f937,GPU-1"}, ()),
        (TEN, {"CUDA_VISIBLE_DEVICES": "10, 0"}, (10, 0)),
        (TEN, {"CUDA_VISIBLE_DEVICES": "0,0,3,2"}, (0, 2)),
    ],
)
def test_which_devices_there_are(names, variables, expected):
    assert drawing_devices(names, {"MUJOCO_GL": "egl", **variables}) == expected


def test_workers_take_turns():
    given = [device_of(worker, (0, 2, 10)) for worker in range(5)]
    assert [each["MUJOCO_EGL_DEVICE_ID"] for each in given] == ["0", "2", "10", "0", "2"]
    assert device_of(3, ()) == {}


@pytest.mark.parametrize(
    ("backend", "chosen", "expected"),
    [("egl", "1", [1]), ("osmesa", "1", []), (None, "1", []), ("egl", "x", [])],
)
def test_a_run_records_the_one_that_the_user_chose(backend, chosen, expected):
    assert used_devices(backend, {"MUJOCO_EGL_DEVICE_ID": chosen}) == expected


@needs_egl
@needs_metaworld
def test_a_real_run_on_the_device_that_is_here(monkeypatch, tmp_path):
    """EGL's first device, whatever it is; without a GPU it draws in software."""
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "0")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    seen = []

    class Looks:
        needs = frozenset({"pixels"})

        def act(self, obs, episodes):
            seen.append(np.asarray(obs["pixels"]).std())
            return np.zeros((len(episodes), 4), np.float32)

    run = envhub.evaluate(
        "metaworld", Looks(), tasks=["reach-v3"], episodes=1, workers=1, max_steps=1,
        env_args={"size": 16}, runtime="here", out=tmp_path / "run",
    )  # fmt: skip
    assert [record.status for record in run.records()] == ["ok"]
    assert seen[0] > 5
    assert run.info["machine"]["gl_devices"] == [0]
