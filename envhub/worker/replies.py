"""Turning requests into answers; exceptions of foreign code become answers too."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from envhub.errors import ContractError, EnvHubError
from envhub.tracebacks import place_of, trace_of
from envhub.wire.frames import MAX_FRAME
from envhub.wire.messages import Failed, Reply, Request, encode

_MAX_TEXT = 20_000

Where = Literal["env", "policy"]


def answer_with(
    handlers: Mapping[type[Request], Callable[[Any], Reply]],
    request: Request,
    *,
    where: Callable[[], Where],
) -> bytes:
    """Call the handler of a request, and encode its answer or the exception that it raised.

    Args:
        handlers: One for each type of request.
        request: The request.
        where: Called after an exception: whose code was running.
    """
    try:
        return encoded(handlers[type(request)](request))
    except (Exception, SystemExit) as exc:
        return failure(request.id, exc, where())


def encoded(reply: Reply) -> bytes:
    """Encode an answer as the payload of a frame.

    Raises:
        ContractError: The answer is too long.
    """
    payload = encode(reply)
    if len(payload) > MAX_FRAME:
        raise ContractError(
            f"The answer has {len(payload)} bytes; at most {MAX_FRAME} are allowed."
        )
    return payload


def failure(number: int, exc: BaseException, where: Where) -> bytes:
    """Encode the answer to a request whose handler raised an exception."""
    return encode(failed(number, exc, where))


def failed(number: int, exc: BaseException, where: Where) -> Failed:
    """Return that answer."""
    contract = isinstance(exc, EnvHubError)
    kind, text = _cut(type(exc).__name__), _cut(str(exc))
    trace, place = _cut(trace_of(exc)), _cut(place_of(exc))
    return Failed(number, kind, text, trace, contract, where, place)


def _cut(text: str) -> str:
    """Shorten a text to what a message may hold, and escape surrogates, which UTF-8 lacks."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _MAX_TEXT else "..." + clean[-(_MAX_TEXT - 3) :]
