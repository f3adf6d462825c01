"""The loop of a worker process."""

import os

from envhub.worker.channel import Channel
from envhub.worker.protocol import decode_request
from envhub.worker.session import Session


def serve(descriptor: int) -> None:
    """Answer requests until the host closes the channel, then close the env and end."""
    os.set_inheritable(descriptor, False)
    channel = Channel(descriptor)
    session = Session(channel)
    while True:
        try:
            request = decode_request(channel.receive())
        except (EOFError, ConnectionError):
            break
        channel.send(session.answer(request))
    session.close()
