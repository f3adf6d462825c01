"""The schemes of policy servers: addresses, arguments, and what a run records."""

import pytest
from envhub_servers.address import read_address

from envhub.errors import EnvHubError, ExitCode, UsageError
from envhub.policies.find import read_policy
from envhub.policies.kinds import Provided
from envhub.policies.provider import Wanted


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ("//localhost", "//localhost:8000"),
        ("//10.0.0.7:80/", "//10.0.0.7:80"),
        ("//gpu.lab:9/v1/x", "//gpu.lab:9/v1/x"),
        ("//[::1]:9", "//[::1]:9"),
    ],
)
def test_addresses(rest, place):
    address = read_address("openpi+ws", rest, 8000)
    assert (address.place, address.url) == (place, f"ws:{place}")
    assert address.on_loopback == (address.host in ("localhost", "::1"))
    assert read_address("wss", "//host", 8000).port == 443


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("", "has no host"),
        ("host:8000", "has no host"),
        ("//", "has no host"),
        ("//:8000", "has no host"),
        ("//host:port", "no address"),
        ("//host:99999", "no address"),
        ("//ho st:1", "has no host"),
        ("//key@host:1", "Put an API key into the variable ENVHUB_POLICY_KEY"),
        ("//host:1?key=secret", "Put an API key into the variable"),
        ("//host:1#part", "Put an API key into the variable"),
        ("//host:1/\x1b[2J", "has no host"),
    ],
)
def test_addresses_that_cannot_be_meant(rest, problem):
    with pytest.raises(UsageError) as caught:
        read_address("ws", rest, 8000)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ws", "wss", "openpi+ws", "openpi+wss"])
def test_schemes_have_a_plus(scheme):
    policy = read_policy(f"{scheme}://127.0.0.1:1")
    assert policy == Provided(scheme, "//127.0.0.1:1", directory=policy.directory)
    with pytest.raises(EnvHubError) as caught:
        policy.obtain(Wanted())
    assert f"Nothing answers at {scheme.rpartition('+')[2]}://127.0.0.1:1: Conn" in str(
        caught.value
    )
    assert caught.value.exit_code == ExitCode.SOURCE


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("key", "secret", "key is not an argument of a policy server. Available: actions,"),
        ("size", "224", "size must be a positive number, found '224'"),
        ("size", 0, "size must be a positive number"),
        ("n_action_steps", True, "must be a positive number"),
        ("keys", 7, "keys must be a text"),
        ("conventions", "images=sideways", "images is 'sideways'"),
    ],
)
def test_arguments_that_cannot_be_meant(name, value, problem):
    with pytest.raises(UsageError) as caught:
        read_policy("ws://127.0.0.1:1", {name: value}).obtain(Wanted())
    assert problem in str(caught.value)
