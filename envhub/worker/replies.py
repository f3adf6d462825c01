"""Turning a request into an answer, whatever the code behind it does."""

import traceback
from collections.abc import Callable, Mapping
from typing import Any, Literal

from envhub.errors import ContractError, EnvHubError
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
    """The encoded answer of the request's handler, or of what it raised.

    Args:
        handlers: One for each type of request.
        request: The request.
        where: Whose code is at fault, asked when something was raised.
    """
    try:
        return encoded(handlers[type(request)](request))
    except (Exception, SystemExit) as exc:
        return failure(request.id, exc, where())


def encoded(reply: Reply) -> bytes:
    """An answer as the payload of a frame.

    Raises:
        ContractError: It is too long.
    """
    payload = encode(reply)
    if len(payload) > MAX_FRAME:
        raise ContractError(f"The answer has {len(payload)} bytes, more than {MAX_FRAME}.")
    return payload


def failure(number: int, exc: BaseException, where: Where) -> bytes:
    """The encoded answer to a request whose handler raised something."""
    contract = isinstance(exc, EnvHubError)
    text, trace = _cut(str(exc)), _cut("".join(traceback.format_exception(exc)))
    return encode(Failed(number, _cut(type(exc).__name__), text, trace, contract, where))


def _cut(text: str) -> str:
    """What fits into a message; surrogates cannot be encoded."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _MAX_TEXT else "..." + clean[-(_MAX_TEXT - 3) :]
