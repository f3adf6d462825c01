"""What a repository's card, its `README.md`, says about it."""

import re

_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"^tags:[ \t]*\[(.*?)\]", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^tags:[ \t]*\n((?:[ \t]*-[ \t].*\n)*)", re.MULTILINE)


def tags_of(card: str) -> list[str]:
    """The tags in a card's front matter, as `tags: [a, b]` or one a line."""
    found = _FRONT_MATTER.match(card.replace("\r\n", "\n"))
    if found is None:
        return []
    if inline := _INLINE.search(found[1]):
        written = inline[1].split(",")
    elif block := _BLOCK.search(found[1]):
        written = [line.strip().removeprefix("-") for line in block[1].splitlines()]
    else:
        return []
    return [tag for tag in (text.strip().strip("\"'") for text in written) if tag]
