"""Messages of policy servers: byte-equal to openpi-client's, and nothing else gets in."""

import io

import msgpack
import numpy as np
import pytest
from envhub_servers.codec import InvalidMessage, mark_gr00t, mark_vla_eval, pack, unpack
from support.policy_servers import pack as pack_with_msgpack

VALUE = {
    "observation/image": np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
    "observation/state": np.array([0.5, -1.0]),
    "prompt": "pick up",
    "b": np.array([True, False]),
    "i": np.arange(3, dtype=">i2"),
    "e": np.zeros((0, 7), np.float32),
    "s": np.float32(0.5),
    "d": np.float64(0.25),
    "n": np.int64(7),
    "t": np.bool_(True),
    "f": 1.5,
    "z": None,
    "l": [1, (2, 3)],
    "x": {"y": b"raw"},
    "u": np.str_("text"),
    "zero": np.array(3.0),
    "nc": np.arange(6).reshape(2, 3).T,
}
# `openpi_client.msgpack_numpy.packb(VALUE)` of openpi-client 0.1.2, as hexadecimal digits.
OPENPI = bytes.fromhex(
    "de0011b16f62736572766174696f6e2f696d61676584c40b5f5f6e6461727261795f5fc3c40464617461c40c"
    "000102030405060708090a0bc4056474797065a37c7531c405736861706593020203b16f6273657276617469"
    "6f6e2f737461746584c40b5f5f6e6461727261795f5fc3c40464617461c410000000000000e03f0000000000"
    "00f0bfc4056474797065a33c6638c40573686170659102a670726f6d7074a77069636b207570a16284c40b5f"
    "5f6e6461727261795f5fc3c40464617461c4020100c4056474797065a37c6231c40573686170659102a16984"
    "c40b5f5f6e6461727261795f5fc3c40464617461c406000000010002c4056474797065a33e6932c405736861"
    "70659103a16584c40b5f5f6e6461727261795f5fc3c40464617461c400c4056474797065a33c6634c4057368"
    "617065920007a17383c40d5f5f6e7067656e657269635f5fc3c40464617461cb3fe0000000000000c4056474"
    "797065a33c6634a164cb3fd0000000000000a16e83c40d5f5f6e7067656e657269635f5fc3c4046461746107"
    "c4056474797065a33c6938a17483c40d5f5f6e7067656e657269635f5fc3c40464617461c3c4056474797065"
    "a37c6231a166cb3ff8000000000000a17ac0a16c9201920203a17881a179c403726177a175a474657874a47a"
    "65726f84c40b5f5f6e6461727261795f5fc3c40464617461c4080000000000000840c4056474797065a33c66"
    "38c405736861706590a26e6384c40b5f5f6e6461727261795f5fc3c40464617461c430000000000000000003"
    "000000000000000100000000000000040000000000000002000000000000000500000000000000c405647479"
    "7065a33c6938c4057368617065920302"
)


def same(found, expected):
    if isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        return bool((found == expected).all())
    return found == expected


def test_bytes_are_those_of_openpi_client():
    assert pack(VALUE) == OPENPI
    found = unpack(OPENPI)
    as_sent = {**VALUE, "d": 0.25, "l": [1, [2, 3]], "u": "text"}
    assert list(found) == list(VALUE)
    assert all(same(found[key], value) for key, value in as_sent.items())


@pytest.mark.parametrize("marks", [mark_vla_eval, mark_gr00t])
def test_every_familys_arrays_are_read(marks):
    sent = {"image": VALUE["observation/image"], "state": VALUE["e"], "n": 7}
    found = unpack(pack({**sent, "n": np.int64(7)}, marks))
    assert all(same(found[key], value) for key, value in sent.items())


def test_arrays_of_numpys_own_format_are_read():
    stream = io.BytesIO()
    np.save(stream, np.asfortranarray(VALUE["nc"]))
    message = {"a": {"__ndarray_class__": True, "as_npy": stream.getvalue()}}
    assert same(unpack(msgpack.packb(message))["a"], VALUE["nc"])


def array(dtype="<f4", shape=(2,), data=b"\0" * 8):
    return {b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape}


def pickled():
    stream = io.BytesIO()
    np.save(stream, np.array([None]), allow_pickle=True)
    return {"__ndarray_class__": True, "as_npy": stream.getvalue()}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (array("|O"), "dtype '|O'"),
        (array("|V8"), "dtype"),
        (array("<c8"), "dtype"),
        (array("f4,f4"), "dtype"),
        (array("<M8[s]"), "dtype"),
        (array(shape=(3,)), "8 bytes for an array"),
        (array(shape=(-2,)), "shape"),
        (array(shape=(2.0,)), "shape"),
        (array(shape=(2**62, 2**62)), "8 bytes for an array"),
        (array(shape=(1,) * 33, data=b"\0" * 4), "shape"),
        (array(data="text"), "shape"),
        ({b"__ndarray__": True}, "cannot be read"),
        ({b"__npgeneric__": True, b"dtype": "<U3", b"data": "abc"}, "dtype"),
        ({"__image__": True, "format": "gif", "data": b"GIF89a"}, "format 'gif'"),
        ({"__image__": True, "format": "png", "data": b"no picture"}, "cannot be read"),
        (pickled(), "dtype"),
        (msgpack.ExtType(1, b"x"), "extension 1"),
        ({1: "one"}, "not text"),
    ],
)
def test_what_is_never_needed_is_refused(value, problem):
    with pytest.raises(InvalidMessage, match=problem.replace("|", r"\|")):
        unpack(msgpack.packb({"a": value}))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"\xdc\xff\xff",
        pack_with_msgpack({"a": 1})[:-1],
        b"\x91" * 100 + b"\xc0",
        b"\xdd\x00\x20\x00\x00" + b"\xc0" * 2**21,
    ],
    ids=["empty", "reserved", "short", "cut", "deep", "parts"],
)
def test_broken_messages_are_refused(message):
    with pytest.raises(InvalidMessage):
        unpack(message)


def test_objects_are_not_sent():
    with pytest.raises(TypeError, match="cannot be sent"):
        pack({"a": np.array([None])})
