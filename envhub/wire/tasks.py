"""The tasks of a suite, as `make_env` and `normalize` return them."""

from typing import TypeVar

K = TypeVar("K", str, str | int)
V = TypeVar("V")


class Tasks(dict[K, V]):
    """Envs by the names of their tasks; also by number, as LeRobot's are.

    Number 3 is the task that is called `3` (or `suite.3`, if several suites have one), and where no
    task is called by a number, the fourth.
    """

    def __missing__(self, key: object) -> V:
        if isinstance(key, int) and not isinstance(key, bool):
            numbered = {str(name).rpartition(".")[2]: name for name in self}
            if str(key) in numbered:
                return self[numbered[str(key)]]
            if 0 <= key < len(self) and not any(name.isdecimal() for name in numbered):
                return list(self.values())[key]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        try:
            self.__missing__(key)
        except KeyError:
            return False
        return True
