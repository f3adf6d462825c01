"""What a policy may declare, and what it is told."""

import dataclasses
import functools
import inspect
import typing

import pytest
from support.paths import DOCS
from support.policies import LEAVES, policy

from envhub.errors import ContractError
from envhub.wire.policy_contract import Context, Policy, facts_of, make_rng


def test_what_is_not_declared_has_its_default():
    facts = facts_of(policy(), LEAVES)
    declared = (facts.placement, facts.needs, facts.format, facts.batch)
    assert declared == ("process", None, "raw", 1)
    assert not facts.declares_batch


@pytest.mark.parametrize(
    ("declared", "default", "expected"),
    [
        (None, 1, (1, False)),
        (None, "any", ("any", False)),
        (1, "any", (1, True)),
        (8, 1, (8, True)),
        ("any", 1, ("any", True)),
    ],
)
def test_rows_of_a_call(declared, default, expected):
    facts = facts_of(policy(batch=declared), LEAVES, default)
    assert (facts.batch, facts.declares_batch) == expected


def test_conventions():
    assert facts_of(policy(), LEAVES).conventions == {}
    declared = {"control_hz": 20, "images": "upright"}
    assert facts_of(policy(conventions=declared), LEAVES).conventions == {
        "images": "upright",
        "control_hz": 20.0,
    }


def test_a_class_with_only_act_is_a_policy_for_type_checkers():
    """Whatever it calls its parameters."""
    assert typing._get_protocol_attrs(Policy) == {"act"}
    parameters = inspect.signature(Policy.act).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_ONLY}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (None, None),
        (frozenset(), ()),
        ({"agent_pos"}, ("agent_pos",)),
        (["agent_pos", "pixels/front"], ("pixels/front", "agent_pos")),
        ({"pixels"}, ("pixels/front", "pixels/wrist")),
        ({"pixels", "pixels/wrist"}, ("pixels/front", "pixels/wrist")),
    ],
)
def test_needs_are_leaves_in_the_order_of_the_space(needs, expected):
    assert facts_of(policy(needs=needs), LEAVES).needs == expected


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"needs": {"pixels/top"}}, "needs has 'pixels/top', but the observation has: pixels/fr"),
        ({"needs": {"pix"}}, "needs has 'pix', but the observation has: pixels/front, pixels/"),
        ({"needs": "agent_pos"}, "needs must be a set of leaf paths, found 'agent_pos'."),
        ({"needs": {1}}, r"needs must be a set of leaf paths, found \{1\}."),
        ({"needs": 3}, "needs must be a set of leaf paths, found 3."),
        ({"needs": iter(["pixels/top"])}, "needs has 'pixels/top', but the observation has"),
        ({"batch": 0}, "batch must be a positive whole number or 'any': 0."),
        ({"batch": -2}, "batch must be a positive whole number or 'any': -2."),
        ({"batch": True}, "batch must be a positive whole number or 'any': True."),
        ({"batch": "all"}, "batch must be a positive whole number or 'any': 'all'."),
        ({"batch": 2.0}, "batch must be a positive whole number or 'any': 2.0."),
        ({"batch": 10**6}, "batch must be a positive whole number or 'any': 1000000."),
        ({"placement": "x"}, "placement must be 'process' or 'worker', found 'x'."),
        ({"placement": None}, "placement must be 'process' or 'worker', found None."),
        ({"placement": []}, r"placement must be 'process' or 'worker', found \[\]."),
        ({"format": "torch"}, "format must be 'raw' or 'lerobot', found 'torch'."),
        (
            {"conventions": {"images": "up"}},
            "convention images is 'up', .* the nearest is 'upright'",
        ),
        ({"conventions": ["images"]}, "conventions must be a mapping of keys to values"),
        (
            {"act": lambda obs: obs},
            r"SimpleNamespace.act is called as act\(obs, episodes\), but takes \(obs\): too many",
        ),
        ({"act": 7}, r"SimpleNamespace is not a policy: it has no method act\(obs, episodes\)."),
    ],
)
def test_declarations_that_make_no_sense(declared, problem):
    with pytest.raises(ContractError, match=problem):
        facts_of(policy(**declared), LEAVES)


def test_what_an_act_that_is_wrapped_or_says_nothing_takes_is_not_known():
    @functools.wraps(lambda obs: obs)
    def wrapped(obs, episodes):
        return obs

    for act in (wrapped, max, lambda *anything: anything, lambda obs, episodes, more=1: obs):
        assert facts_of(policy(act=act), [""]).batch == 1


def test_the_leaf_of_a_bare_array_has_no_path():
    assert facts_of(policy(needs={""}), [""]).needs == ("",)
    with pytest.raises(ContractError, match=r"the observation has: \(the observation itself\)"):
        facts_of(policy(needs={"state"}), [""])


def test_chance_follows_from_seed_and_task_alone():
    def draws(seed, task):
        return make_rng(seed, task).integers(2**60, size=4).tolist()

    assert draws(3, "reach") == draws(3, "reach")
    assert len({tuple(draws(seed, task)) for seed in range(9) for task in ("a", "b", "aa")}) == 27
    # Written down, so that records of different versions can be compared.
    assert draws(0, "reach")[:2] == [923304604972169246, 1139984669914491136]


def test_the_documentation_names_all_that_a_policy_may_have():
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    for name in (*Policy.__annotations__, "act", "start", "finish", "close"):
        assert f"\n- **`{name}" in page or f", **`{name}(" in page
    for field in dataclasses.fields(Context):
        assert f"\n    {field.name}: " in page
