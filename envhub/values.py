"""The rule for a value that may be sent to another process and recorded in a run. Pure."""

import math
import re

MAX_DEPTH = 16
"""Lists and mappings within each other; messages allow 32."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def find_value_problem(value: object, *, infinite: bool = False, depth: int = 0) -> str | None:
    """Return why a value cannot be sent and recorded, as `is not a 64-bit number`; None if it can.

    Args:
        value: A bool, a number, text, None, or a list or mapping of these.
        infinite: Whether a number may be infinite, which JSON cannot say.
        depth: How deep the value is within others.
    """
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    match value:
        case None | bool():
            return None
        case int():
            return None if -(2**63) <= value < 2**64 else "is not a 64-bit number"
        case float():
            good = math.isfinite(value) or (infinite and not math.isnan(value))
            return None if good else "is not a 64-bit number"
        case str():
            return "is text that UTF-8 cannot encode" if has_surrogate(value) else None
        case list():
            parts: list[object] = value
        case dict():
            if not all(isinstance(key, str) for key in value):
                return "has a key that is not text"
            parts = [*value, *value.values()]
        case _:
            return f"is a {type(value).__name__}"
    problems = (find_value_problem(part, infinite=infinite, depth=depth + 1) for part in parts)
    return next(filter(None, problems), None)


def has_surrogate(text: str) -> bool:
    """Whether a text has a lone surrogate, which UTF-8 cannot encode."""
    return not text.isascii() and _SURROGATE.search(text) is not None
