"""The URL of a policy server, as the user writes it behind a scheme."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from envhub.errors import UsageError

KEY = "ENVHUB_POLICY_KEY"
"""The variable with the server's API key. It is read where the connection is made, and recorded
nowhere."""

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a policy server listens."""

    transport: str
    """`ws`, `wss` or `tcp`."""
    host: str
    port: int
    path: str = ""

    @property
    def place(self) -> str:
        """The address behind a scheme's colon."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"//{host}:{self.port}{self.path}"

    @property
    def url(self) -> str:
        """The address as libraries take it."""
        return f"{self.transport}:{self.place}"

    @property
    def on_loopback(self) -> bool:
        """Whether it is on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_address(scheme: str, rest: str, port: int, path: str = "") -> Address:
    """Read what follows a scheme: `//HOST[:PORT][/PATH]`.

    Args:
        scheme: As written, for errors and for the transport: `openpi+ws`.
        rest: What follows the colon.
        port: The dialect's own, if the text has none.
        path: Likewise.

    Raises:
        UsageError: It is something else, or holds a secret.
    """
    form = f"Write {scheme}://HOST:PORT."
    try:
        parts = urlsplit(f"x:{rest}")
        chosen = parts.port
    except ValueError as exc:
        raise UsageError(
            f"{scheme}: is followed by something that is no address: {exc}. {form}"
        ) from exc
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"The address of a policy server is recorded, so it holds no user, query or fragment. "
            f"Put an API key into the variable {KEY}."
        )
    host = parts.hostname or ""
    if not rest.startswith("//") or not _HOST.fullmatch(host) or not parts.path.isprintable():
        raise UsageError(f"{scheme}:{rest!a:.80} has no host. {form}")
    transport = scheme.rpartition("+")[2]
    own = parts.path if parts.path not in ("", "/") else path
    default = 443 if transport == "wss" else port
    return Address(transport, host, default if chosen is None else chosen, own)
