import enum
import math
from types import MappingProxyType

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.declarations import NAME, Benchmark, Task, check_name
from envhub.errors import ContractError, InvalidBenchmark

REACH = Task("reach", "reach the goal", 10)
PUSH = Task("push", "push the block", 20, init_states=5, success="at_end", args={"size": 2})


class Level(enum.IntEnum):
    EASY = 1


def task(**changes):
    return Task(**{"name": "reach", "description": "reach the goal", "horizon": 10, **changes})


DIM = task(name="reach-dim", seeds_of="reach")
DARK = {"suites": {"all": (REACH, PUSH), "dark": (DIM,)}}


def benchmark(**changes):
    good = {"name": "table", "make": "table.envs:make", "suites": {"all": (REACH, PUSH)}}
    return Benchmark(**{**good, **changes})


# Names


@pytest.mark.parametrize("name", ["a", "7", "reach-v3", "A.b_c+d-e", "a..b", "n" * 200])
def test_allowed_names(name):
    check_name("task", name)
    assert NAME.fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", " a", "a b", "a/b", "a:b", "a,b", "a\n", "-a", ".a", "_a", "+a", "\u0430", "a\u0430"),
        *("n" * 201, None, 5, b"a", np.str_("a")),
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(InvalidBenchmark) as caught:
        check_name("task", name)
    assert str(caught.value) == (
        f"A task cannot be called {name!r}: names are plain text, start with a letter or digit and "
        "hold at most 200 letters, digits and the characters . _ + -"
    )


# Tasks


@pytest.mark.parametrize(
    "changes",
    [
        {"description": ""},
        {"description": "x" * 10_000},
        {"description": "st\u00f6\u00dfe den \u65b9\u5757"},
        {"horizon": 1},
        {"horizon": 10_000_000},
        {"init_states": 50},
        {"success": "at_end"},
        {"success": "ever"},
        {"args": {"a": True, "b": 1, "c": 1.5, "d": "x", "e": None, "f": math.inf}},
        {"args": {"low": -(2**63), "high": 2**64 - 1}},
        {"args": MappingProxyType({"a": 1})},
        {"seeds_of": "push"},
    ],
)
def test_allowed_tasks_cross_a_border(changes):
    made = task(**changes)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Task) == made


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "a b"}, "A task cannot be called 'a b': "),
        ({"description": None}, "Task 'reach': description must be plain text, found None."),
        ({"description": np.str_("x")}, "description must be plain text, found np.str_('x')."),
        ({"description": "\udc80"}, r"description must be plain text, found '\udc80'."),
        (
            {"description": "x" * 10_001},
            "Task 'reach': description must have at most 10,000 characters, found 10,001.",
        ),
        ({"horizon": 0}, "horizon must be a whole number from 1 to 10000000, found 0."),
        ({"horizon": -1}, "horizon must be a whole number from 1 to 10000000, found -1."),
        ({"horizon": 10_000_001}, "from 1 to 10000000, found 10000001."),
        ({"horizon": 10.0}, "horizon must be a whole number from 1 to 10000000, found 10.0."),
        ({"horizon": True}, "horizon must be a whole number from 1 to 10000000, found True."),
        ({"horizon": None}, "horizon must be a whole number from 1 to 10000000, found None."),
        ({"horizon": np.int64(5)}, "from 1 to 10000000, found np.int64(5)."),
        ({"init_states": -1}, "init_states must be a whole number from 0 to 10000000, found -1."),
        ({"init_states": False}, "init_states must be a whole number from 0 to"),
        ({"success": "twice"}, "Task 'reach': success must be one of once, at_end, ever."),
        ({"success": True}, "success must be one of once, at_end, ever."),
        ({"seeds_of": "a b"}, "A task cannot be called 'a b': "),
        ({"seeds_of": 5}, "A task cannot be called 5: "),
        ({"args": None}, "Task 'reach': args must be a mapping."),
        ({"args": [("a", 1)]}, "args must be a mapping."),
        ({"args": {1: "a"}}, "args has the key 1, which is not plain text."),
        ({"args": {"\ud800": 1}}, r"args has the key '\ud800', which is not plain text."),
        ({"args": {"a": [1]}}, "args['a'] must be a plain bool, number, text or None, found [1]."),
        ({"args": {"a": np.float64(1)}}, "text or None, found np.float64(1.0)."),
        ({"args": {"a": np.bool_(1)}}, "text or None, found np.True_."),
        ({"args": {"a": Level.EASY}}, "text or None, found <Level.EASY: 1>."),
        ({"args": {"a": b"x"}}, "text or None, found b'x'."),
        ({"args": {"a": "\ud800"}}, r"text or None, found '\ud800'."),
        ({"args": {"a": math.nan}}, "text or None, found nan."),
        ({"args": {"a": 2**64}}, "text or None, found 18446744073709551616."),
        ({"args": {"a": -(2**63) - 1}}, "text or None, found -9223372036854775809."),
        ({"args": {"a": list(range(10**6))}}, "text or None, found [0, 1, 2, 3, 4, 5, ...]."),
    ],
)
def test_other_tasks_are_refused(changes, problem):
    with pytest.raises(InvalidBenchmark) as caught:
        task(**changes)
    assert problem in str(caught.value)


def test_a_task_keeps_its_arguments_when_the_authors_change():
    args = {"size": 2}
    made = task(args=args)
    args["size"] = 3
    assert made.args == {"size": 2}


# Benchmarks


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"make": ":make"},
        {"suites": {"near": (REACH,), "all": (REACH, PUSH)}},
        {"suites": MappingProxyType({"near": (REACH,)})},
        {"suites": {"near": (REACH,), "far": (task(),)}},
        {"suites": {"near": (REACH,), "far": (PUSH,)}, "default": ("far",)},
        {"suites": {"near": (task(name="again", seeds_of="reach"),), "far": (REACH,)}},
        {"episodes": 50, "memory_mb": 1, "reuse": "rebuild"},
        {"control_hz": 20},
        {"control_hz": 12.5},
        {"spaces": "table:spaces", "lerobot": ":convert", "runtime": "a.b:runtime-1.txt"},
        {"policies": {"expert": "table.expert:make_policy", "other": ":make_policy"}},
        {"policies": MappingProxyType({"expert": ":make_policy"})},
        {"conventions": {"control": "ee_pose", "gripper": "none"}},
        {"conventions": MappingProxyType({"frame": "ee"})},
        {"conventions": "table.conventions:of"},
        {"lerobot": ":convert", "lerobot_conventions": {"images": "upright"}},
    ],
)
def test_allowed_benchmarks_cross_a_border(changes):
    made = benchmark(**changes)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Benchmark) == made


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "my table"}, "A benchmark cannot be called 'my table': "),
        ({"suites": {}}, "Benchmark 'table': suites must be a mapping that is not empty."),
        ({"suites": None}, "suites must be a mapping that is not empty."),
        ({"suites": [("all", (REACH,))]}, "suites must be a mapping that is not empty."),
        ({"suites": {"a/b": (REACH,)}}, "A suite cannot be called 'a/b': "),
        ({"suites": {1: (REACH,)}}, "A suite cannot be called 1: "),
        ({"suites": {"all": ()}}, "Benchmark 'table': suite 'all' has no tasks."),
        ({"suites": {"all": [REACH]}}, "suite 'all' must be a tuple of tasks."),
        ({"suites": {"all": REACH}}, "suite 'all' must be a tuple of tasks."),
        ({"suites": {"all": (t for t in [REACH])}}, "suite 'all' must be a tuple of tasks."),
        ({"suites": {"all": ("reach",)}}, "suite 'all' holds 'reach', not a Task."),
        ({"suites": {"all": (REACH, REACH)}}, "suite 'all' names a task twice."),
        (
            {"suites": {"near": (REACH,), "far": (task(horizon=99),)}},
            "two different tasks are called 'reach'; names are unique in a benchmark.",
        ),
        (
            {"suites": {"all": (task(seeds_of="rech"),)}},
            (
                "task 'reach' has seeds_of 'rech', which must be another task of the benchmark, "
                "with seeds of its own."
            ),
        ),
        ({"suites": {"all": (task(seeds_of="reach"),)}}, "'reach' has seeds_of 'reach', which"),
        (
            {
                "suites": {
                    "all": (PUSH, task(seeds_of="again"), task(name="again", seeds_of="push"))
                }
            },
            "task 'reach' has seeds_of 'again', which must be another task",
        ),
        ({"default": ("far",)}, "default suite 'far' is not among its suites."),
        ({"dimensions": ("all",)}, "dimensions must be a mapping."),
        ({"dimensions": {"all": "light"}}, "as in 'dark': ('plain', 'light'), found 'all': 'lig"),
        ({"dimensions": {"all": ("dark", 3)}}, "('plain', 'light'), found 'all': ('dark', 3)."),
        ({"dimensions": {"all": ("dark", "light")}}, "dimensions must name suites, and unchanged "),
        ({"dimensions": {"dark": ("all", "light")}}, "that they were made from, found 'dark': ('"),
        ({"dimensions": {"all": ("all", "light")}}, "dimensions must name suites, and unchanged "),
        (DARK | {"dimensions": {"dark": ("all", "<b>")}}, "at most 40 characters, found 'dark': "),
        (
            {
                "suites": {"all": (REACH,), "dark": (PUSH,)},
                "dimensions": {"dark": ("all", "light")},
            },
            "each task of suite 'dark' must name one of suite 'all' by seeds_of, and no two the sa",
        ),
        (
            {
                "suites": DARK["suites"]
                | {"dark": (DIM, task(name="reach-black", seeds_of="reach"))},
                "dimensions": {"dark": ("all", "light")},
            },
            "each task of suite 'dark' must name one of suite 'all' by seeds_of, and no two the sa",
        ),
        (
            {
                "suites": DARK["suites"] | {"dim": (DIM,)},
                "dimensions": {"dark": ("all", "light"), "dim": ("all", "light")},
            },
            "two suites have the same entry in dimensions.",
        ),
        ({"default": "all"}, "default must be a tuple of suites."),
        ({"default": None}, "default must be a tuple of suites."),
        ({"episodes": 0}, "episodes must be a whole number from 1 to 10000000, found 0."),
        ({"runtime": "runtime.txt"}, "runtime must be 'package:file', found 'runtime.txt'"),
        ({"runtime": "a:../b"}, "runtime must be 'package:file'"),
        ({"runtime": 3}, "runtime must be 'package:file'"),
        ({"version_notes": ("mujoco>=3",)}, "version_notes must be a mapping"),
        ({"version_notes": {"mujoco": "x"}}, "version_notes must be as in 'mujoco>=3.4': 'compu"),
        ({"version_notes": {"mujoco>=3": 4}}, "contacts in another way', found 'mujoco>=3': 4"),
        ({"memory_mb": 0}, "memory_mb must be a whole number from 1 to 1073741824, found 0."),
        ({"memory_mb": 512.0}, "memory_mb must be a whole number from 1 to 1073741824, found 512"),
        ({"control_hz": -1}, "control_hz must be a number from 0 to 1000000, found -1."),
        ({"control_hz": math.nan}, "control_hz must be a number from 0 to 1000000, found nan."),
        ({"control_hz": math.inf}, "control_hz must be a number from 0 to 1000000, found inf."),
        ({"control_hz": 10**400}, "control_hz must be a number from 0 to 1000000, found 1000"),
        ({"control_hz": True}, "control_hz must be a number from 0 to 1000000, found True."),
        ({"control_hz": np.float64(20)}, "from 0 to 1000000, found np.float64(20.0)."),
        ({"control_hz": "20"}, "control_hz must be a number from 0 to 1000000, found '20'."),
        ({"reuse": "never"}, "Benchmark 'table': reuse must be 'reset' or 'rebuild'."),
        ({"make": None}, "make must be 'package.module:name' or ':name', found None."),
        ({"make": "make"}, "make must be 'package.module:name' or ':name', found 'make'."),
        ({"make": "table:"}, "make must be 'package.module:name' or ':name', found 'table:'."),
        ({"make": "table:envs.make"}, "or ':name', found 'table:envs.make'."),
        ({"make": ":make\n"}, r"or ':name', found ':make\n'."),
        ({"make": "../table:make"}, "or ':name', found '../table:make'."),
        ({"make": len}, "or ':name', found <built-in function len>."),
        ({"spaces": "spaces"}, "spaces must be 'package.module:name' or ':name', found 'spaces'."),
        ({"runtime": "runtime.txt"}, "runtime must be 'package:file', found 'runtime.txt'."),
        ({"runtime": "table:../pins"}, "runtime must be 'package:file', found 'table:../pins'."),
        ({"lerobot": ""}, "lerobot must be 'package.module:name' or ':name', found ''."),
        ({"policies": None}, "Benchmark 'table': policies must be a mapping."),
        ({"policies": {"my expert": ":make"}}, "A policy cannot be called 'my expert': "),
        (
            {"conventions": {"contol": "ee_pose"}},
            (
                "Benchmark 'table': conventions has the key 'contol', which is not one of control, "
                "rotation, gripper, frame, images, state; the nearest is 'control'."
            ),
        ),
        ({"conventions": {"frame": np.str_("ee")}}, "the convention frame is np.str_('ee'), which"),
        ({"conventions": "of"}, "conventions must be a mapping of keys to values, found 'of'."),
        ({"conventions": None}, "conventions must be a mapping of keys to values, found None."),
        ({"conventions": {"control_hz": 5}}, "control_hz is a field of its own, and not one of"),
        ({"lerobot_conventions": {"images": "flat"}}, "the convention images is 'flat', which is"),
        ({"lerobot_conventions": ":of"}, "conventions must be a mapping of keys to values"),
        (
            {"policies": {"expert": "make"}},
            "policy 'expert' must be 'package.module:name' or ':name', found 'make'.",
        ),
    ],
)
def test_other_benchmarks_are_refused(changes, problem):
    with pytest.raises(InvalidBenchmark) as caught:
        benchmark(**changes)
    assert problem in str(caught.value)


def test_the_error_is_a_contract_error_and_a_value_error():
    assert issubclass(InvalidBenchmark, ContractError)
    assert issubclass(InvalidBenchmark, ValueError)


def test_the_tasks_of_all_suites_come_once_and_in_order():
    third = task(name="lift")
    made = benchmark(suites={"near": (PUSH, REACH), "far": (REACH, third)})
    assert made.tasks() == {"push": PUSH, "reach": REACH, "lift": third}
    assert list(made.tasks()) == ["push", "reach", "lift"]


def test_conventions_by_the_format_that_a_policy_reads():
    raw, converted = {"images": "upside_down", "frame": "ee"}, {"images": "upright"}
    declared = {"conventions": raw, "lerobot_conventions": converted}
    made = benchmark(lerobot=":convert", control_hz=5, **declared)
    assert made.conventions_for("raw") == {**raw, "control_hz": 5.0}
    assert made.conventions_for("lerobot") == {**raw, **converted, "control_hz": 5.0}
    assert benchmark(**declared).conventions_for("lerobot") == raw  # nothing is converted
    unknown = benchmark(conventions="table:of")
    assert (unknown.conventions_for("raw"), unknown.known_conventions) == ({}, {})


def test_a_message_from_outside_is_checked_like_an_authors_value():
    sent = msgspec.msgpack.encode({"name": "reach", "description": "", "horizon": 0})
    with pytest.raises(msgspec.ValidationError, match="horizon must be a whole number"):
        msgspec.msgpack.decode(sent, type=Task)


# Properties

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,20}\Z")
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
)
tasks = st.builds(
    Task,
    name=names,
    description=st.text(),
    horizon=st.integers(1, 10_000_000),
    init_states=st.integers(0, 10_000_000),
    success=st.sampled_from(["once", "at_end", "ever"]),
    args=st.dictionaries(st.text(), values, max_size=4),
)


@settings(deadline=None)
@given(
    st.lists(tasks, min_size=1, max_size=5, unique_by=lambda task: task.name),
    st.lists(names, min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_any_benchmark_crosses_a_border_unchanged(tasks, suites, data):
    some = st.lists(st.sampled_from(tasks), min_size=1, unique_by=lambda task: task.name)
    made = benchmark(
        suites={suite: tuple(data.draw(some)) for suite in suites},
        default=tuple(data.draw(st.lists(st.sampled_from(suites), unique=True))),
        episodes=data.draw(st.integers(1, 10_000_000)),
        control_hz=data.draw(st.floats(0, 1_000_000)),
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Benchmark) == made
