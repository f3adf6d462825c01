"""The files that the arguments of a policy name."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.options import Argument
from envhub.sources.fingerprint import hash_file


def hash_named_files(args: Mapping[str, Argument], directory: Path) -> dict[str, str]:
    """Return the hashes of the files that arguments name, by the argument or its part.

    Args:
        args: The arguments.
        directory: Where relative paths begin.
    """
    texts = {where: text for key, value in args.items() for where, text in _texts(value, key)}
    paths = {where: directory / text for where, text in texts.items()}
    return {where: hash_file(path) for where, path in paths.items() if _is_file(path)}


def _texts(value: Argument, where: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in an argument, each after its place, such as `weights[0]`."""
    match value:
        case str():
            yield where, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, f"{where}[{index}]")
        case dict():
            for key, item in value.items():
                yield from _texts(item, f"{where}.{key}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character in it
        return False
