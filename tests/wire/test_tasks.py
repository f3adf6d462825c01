"""Tasks by name, and by number as LeRobot's programs ask for them."""

import pytest

from envhub.wire.tasks import Tasks


@pytest.mark.parametrize(
    ("names", "number", "found"),
    [
        (["0", "1"], 1, "1"),
        (["3", "0"], 0, "0"),
        (["near.0", "near.1"], 1, "near.1"),
        (["reach", "push"], 0, "reach"),
        (["reach", "push"], 1, "push"),
    ],
)
def test_by_number(names, number, found):
    assert Tasks({name: name for name in names})[number] == found


def test_numbers_that_are_the_names():
    tasks = Tasks({0: "a", 10: "b"})
    assert (tasks[10], 10 in tasks, 0 in tasks, 1 in tasks) == ("b", True, True, False)


@pytest.mark.parametrize("key", [2, -1, True, "2", None, 1.0])
def test_what_is_no_task(key):
    tasks = Tasks(reach=1, push=2)
    with pytest.raises(KeyError):
        tasks[key]
    assert key not in tasks
    assert 1 in tasks
    assert list(tasks) == ["reach", "push"]


def test_a_number_that_is_not_among_the_numbers():
    with pytest.raises(KeyError):
        Tasks({"3": 1, "4": 2})[0]
