"""Each kind of policy says what it is, before and after the benchmark is known."""

import msgspec
import pytest

from envhub.errors import UsageError
from envhub.policies.find import read_policy
from envhub.policies.interpreter import AskedInterpreter
from envhub.policies.kinds import Builtin, InProgram, OfBenchmark, OfFile, OfModule, Provided
from envhub.policies.provider import Wanted
from envhub.run_info import PolicyInfo, ProvidedInfo


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        raise AssertionError


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ("zero", Builtin, {"kind": "builtin", "ref": "zero"}),
        ("expert", OfBenchmark, {"kind": "benchmark", "ref": "expert"}),
        ("my.module:make", OfModule, {"kind": "module", "ref": "my.module:make"}),
        (Still(), InProgram, {"kind": "object", "ref": "Still"}),
    ],
)
def test_what_it_is(given, kind, said, tmp_path):
    policy = read_policy(given, directory=tmp_path).obtain(Wanted())
    assert isinstance(policy, kind)
    assert policy.identify() == PolicyInfo(directory=str(tmp_path), **said)


def test_a_file_says_its_content_and_that_of_what_it_imports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text("import beside\n")
    (tmp_path / "beside.py").write_text("")
    policy = read_policy("policy.py:make")
    assert isinstance(policy, OfFile)
    said = policy.obtain(Wanted()).identify()
    assert (said.kind, said.ref) == ("file", "./policy.py:make")
    assert said.path == f"{tmp_path / 'policy.py'}:make"
    assert list(said.imports) == ["beside.py"]
    (tmp_path / "policy.py").write_text("import beside  # other\n")
    assert policy.identify().sha256 != said.sha256
    assert read_policy(said.path).identify().path == said.path  # from any directory


def test_what_is_said_is_json_and_can_be_read_again(tmp_path):
    said = read_policy("zero", {"sizes": [1, 2.5], "deep": {"a": None}}).identify()
    assert msgspec.json.decode(msgspec.json.encode(said), type=PolicyInfo) == said


def test_files_that_arguments_name_are_hashed_also_in_lists(tmp_path):
    (tmp_path / "weights").write_text("1")
    args = {"a": "weights", "b": [3, "weights"], "c": {"d": ["weights"], "e": "no"}, "odd": "\0"}
    said = read_policy("zero", args, tmp_path).identify()
    assert (said.args, list(said.files)) == (args, ["a", "b[1]", "c.d[0]"])
    assert len(set(said.files.values())) == 1


def test_an_object_says_what_its_loader_said():
    class Loaded(Still):
        provided = ProvidedInfo(
            scheme="x", package="envhub-x", version="1", files={"a": "sha256:1"}
        )

    assert read_policy(Loaded()).identify().provided == Loaded.provided
    Still.provided = "something else"
    try:
        assert read_policy(Still()).identify().provided is None
    finally:
        del Still.provided


def test_an_object_takes_no_arguments():
    with pytest.raises(UsageError, match="policy_args need a policy given by name; this one is"):
        read_policy(Still(), {"size": 1})


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_name(text):
    with pytest.raises(UsageError, match="The policy's name is empty: name one, such as random"):
        read_policy(text)


@pytest.mark.parametrize("given", ["zero", "expert", Still()])
def test_a_policy_without_a_process_has_no_interpreter(given):
    policy = read_policy(given)
    assert policy.interpreter(AskedInterpreter()) is None
    with pytest.raises(UsageError, match="--policy-python is for a policy with a process of its"):
        policy.interpreter(AskedInterpreter("python3"))


def test_a_scheme_comes_before_a_module():
    policy = read_policy("lerobot:make")
    assert isinstance(policy, Provided)
    assert (policy.scheme, policy.rest) == ("lerobot", "make")
