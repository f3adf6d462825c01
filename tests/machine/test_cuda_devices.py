"""Spreading the processes of a policy over GPUs."""

import pytest

from envhub.machine.cuda_devices import policy_devices, spread, visible_gpus

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
