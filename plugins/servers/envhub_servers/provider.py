"""The providers of `ws:`, `openpi+ws:` and so on. Run in the host, which receives nothing.

What a server says may be anything, so it is read in the policy's process, which the run can lose.
"""

import socket
from collections.abc import Callable

from envhub.conventions import read_conventions
from envhub.errors import ContractError, SourceUnavailable, UsageError
from envhub.policies.provider import ProvidedPolicy, Wanted
from envhub_servers.address import Address, read_address
from envhub_servers.defaults import ARGUMENTS, DIALECTS

Provide = Callable[[str, Wanted], ProvidedPolicy]
_SECONDS = 10.0


def _provider(scheme: str, dialect: str) -> Provide:
    """Return the provider of a scheme."""

    def provide(rest: str, wanted: Wanted) -> ProvidedPolicy:
        return _provide(scheme, dialect, rest, wanted)

    return provide


def _provide(scheme: str, dialect: str, rest: str, wanted: Wanted) -> ProvidedPolicy:
    port, path = DIALECTS[dialect]
    address = read_address(scheme, rest, port, path)
    _check_arguments(wanted)
    check_reachable(address)
    if not address.on_loopback and address.transport != "wss":
        wanted.message(
            f"What the policy sees goes to {address.host} unencrypted; take wss:// or a tunnel if "
            "others can read along."
        )
    return ProvidedPolicy(
        place=address.place,
        factory="envhub_servers.policy:make_policy",
        factory_args={
            "dialect": dialect,
            "transport": address.transport,
            "place": address.place,
            "said_before": wanted.begun_about.get("metadata"),
            **wanted.args,
        },
        details={"dialect": dialect, "url": address.url},
    )


def check_reachable(address: Address) -> None:
    """Refuse an address where nothing listens. Nothing is received.

    Raises:
        SourceUnavailable: Nothing does.
    """
    try:
        with socket.create_connection((address.host, address.port), _SECONDS) as connection:
            if address.transport == "ws":  # a server logs a connection that asks for nothing
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: policy\r\n\r\n")
    except OSError as exc:
        problem = exc.strerror or str(exc) or type(exc).__name__
        raise SourceUnavailable(
            f"Nothing answers at {address.url}: {problem}. Start the server, or correct the "
            "address."
        ) from exc


def _check_arguments(wanted: Wanted) -> None:
    for name, value in wanted.args.items():
        if name not in ARGUMENTS:
            raise UsageError(
                f"--policy-arg {name} is not an argument of a policy server. Available: "
                f"{', '.join(ARGUMENTS)}."
            )
        kind = ARGUMENTS[name]
        wrong = isinstance(value, bool) or not isinstance(value, kind)
        if name != "conventions" and (wrong or (isinstance(value, int | float) and value <= 0)):
            wanted_kind = "a text" if kind is str else "a positive number"
            raise UsageError(f"--policy-arg {name} must be {wanted_kind}, found {value!r}.")
    try:
        read_conventions(wanted.args.get("conventions", {}))
    except ContractError as exc:
        raise UsageError(str(exc)) from exc


provide_ws = _provider("ws", "openpi")
provide_wss = _provider("wss", "openpi")
provide_openpi_ws = _provider("openpi+ws", "openpi")
provide_openpi_wss = _provider("openpi+wss", "openpi")
provide_roboarena_ws = _provider("roboarena+ws", "roboarena")
provide_roboarena_wss = _provider("roboarena+wss", "roboarena")
provide_vllm_ws = _provider("vllm+ws", "vllm")
provide_vllm_wss = _provider("vllm+wss", "vllm")
provide_vla_eval_ws = _provider("vla-eval+ws", "vla-eval")
provide_vla_eval_wss = _provider("vla-eval+wss", "vla-eval")
provide_gr00t_tcp = _provider("gr00t+tcp", "gr00t")
