"""Instructions in other words."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_FRAMES = (
    "please {}",
    "{}, please",
    "now {}",
    "go ahead and {}",
    "can you {}?",
    "I would like you to {}",
    "your task is to {}",
    "the robot should {}",
)
"""From near to far, around the instruction in its own words."""
_WORDS = {
    "pick up": "grab", "put": "place", "place": "set", "push": "shove", "pull": "drag",
    "open": "pull open", "close": "shut", "turn on": "switch on", "turn off": "switch off",
    "press": "push down", "move": "bring", "take": "get", "slide": "glide",
}  # fmt: skip
"""Verbs, and others for them."""
_VERB = re.compile(rf"\b({'|'.join(sorted(_WORDS, key=len, reverse=True))})\b", re.IGNORECASE)


class Paraphrase:
    """Draws one of a list of paraphrases in each episode."""

    def __init__(self, strength: float | Mapping[str, Sequence[str]]) -> None:
        self._strength = strength
        self._task = ""

    def begin(self, scene: Any) -> None:
        """Note which task it is."""
        self._task = scene.task.name

    def instruction(self, text: str, rng: np.random.Generator) -> str:
        """Return other words for it."""
        if isinstance(self._strength, Mapping):
            texts = [*self._strength.get(self._task, [text])]
        else:
            texts = paraphrases(text)
            texts = texts[: math.ceil(self._strength * len(texts))]
        return texts[int(rng.integers(len(texts)))]


def paraphrases(text: str) -> list[str]:
    """Return a text in other words, the nearest first: in a frame, with other verbs, with both."""
    plain = text.strip().rstrip(".")
    plain = plain[:1].lower() + plain[1:]
    other = _VERB.sub(lambda found: _WORDS[found[0].lower()], plain)
    framed = [frame.format(plain) for frame in _FRAMES]
    if other == plain:
        return framed
    return [*framed, other, *(frame.format(other) for frame in _FRAMES)]
