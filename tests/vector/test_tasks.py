"""Tasks by name, and by number as LeRobot's programs ask for them."""

import pytest

from envhub.vector.tasks import Tasks


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


@pytest.mark.parametrize("key", [2, -1, True, "2", None, 1.0])
def test_what_is_no_task(key):
    tasks = Tasks(reach=1, push=2)
    with pytest.raises(KeyError):
        tasks[key]
    assert list(tasks) == ["reach", "push"]


def test_a_number_that_is_not_among_the_numbers():
    with pytest.raises(KeyError):
        Tasks({"3": 1, "4": 2})[0]
