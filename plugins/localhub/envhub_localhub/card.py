"""Read a repository's card, its `README.md`."""

import re

_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"^tags:[ \t]*\[(.*?)\]", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^tags:[ \t]*\n((?:[ \t]*-[ \t].*\n)*)", re.MULTILINE)


def tags_of(card: str) -> list[str]:
    """Return the tags in a card's front matter, written as `tags: [a, b]` or one per line."""
    front_matter = _FRONT_MATTER.match(card.replace("\r\n", "\n"))
    if front_matter is None:
        return []
    if inline := _INLINE.search(front_matter[1]):
        items = inline[1].split(",")
    elif block := _BLOCK.search(front_matter[1]):
        items = [line.strip().removeprefix("-") for line in block[1].splitlines()]
    else:
        return []
    return [tag for tag in (item.strip().strip("\"'") for item in items) if tag]
