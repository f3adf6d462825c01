"""The loop of a worker process."""

import os
from typing import Protocol

from envhub.wire.frames import Channel
from envhub.wire.messages import Request, decode_request


class _Session(Protocol):
    def answer(self, request: Request) -> bytes: ...
    def quick_step(self, number: int) -> bytes: ...
    def close(self) -> None: ...


def serve(role: str, descriptor: int) -> None:
    """Answer requests until the host closes the channel, then close the env and end."""
    os.set_inheritable(descriptor, False)
    channel = Channel(descriptor)
    session, number = _session(role, channel), 0
    while True:
        try:
            payload = channel.receive()
        except (EOFError, ConnectionError):
            break
        if payload:
            request = decode_request(payload)
            number = request.id
            channel.send(session.answer(request))
        else:  # a quick step: an empty frame, which takes no decoding
            number += 1
            channel.send(session.quick_step(number))
    session.close()


def _session(role: str, channel: Channel) -> _Session:
    """Make the session of a role, importing only what that role needs."""
    if role == "policy":
        from envhub.worker.policy.session import PolicySession

        return PolicySession(channel)
    from envhub.worker.session import Session

    return Session(channel)
