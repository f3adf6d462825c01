"""What run.json says of a policy."""

import numpy as np
from msgspec.structs import replace

from envhub.results.manifest import describe_policy, foresee_policy
from envhub.types import FileSource, PolicySource


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


def test_files_that_a_policys_arguments_name_are_hashed_also_in_lists(tmp_path):
    file = tmp_path / "weights"
    file.write_text("1")
    args = {"a": str(file), "b": [3, str(file)], "c": {"d": [str(file)], "e": "no file"}}
    described = describe_policy(Still(), Still(), args)
    assert described.args == args
    assert list(described.files) == ["a", "b[1]", "c.d[0]"]
    assert len(set(described.files.values())) == 1


def test_a_policy_before_the_benchmark_is_known(tmp_path):
    """What is foreseen is what is said later on."""
    file = tmp_path / "policy.py"
    file.write_text("")
    (tmp_path / "weights").write_text("")
    args = {"weights": str(tmp_path / "weights"), "no": "where", "odd": "\0", "size": 1}
    module = FileSource(str(tmp_path), "policy.py", "p", "p")
    for text in (str(file), f"{file}:make_other"):
        said = describe_policy(text, PolicySource(module, "make_other", args), args)
        before = replace(said, sha256="", args={}, files={})
        assert foresee_policy(text, args, None, before) == said
        assert list(said.files) == ["weights"]
        assert said.sha256


def test_a_policy_of_the_benchmark_is_named_and_not_a_path(tmp_path):
    module = FileSource(str(tmp_path), "env.py", "p", "p")
    said = describe_policy("expert", PolicySource(module, "make_expert"), {}, in_worker=True)
    assert (said.kind, said.ref, said.path, said.sha256) == ("benchmark", "expert", None, None)
    assert foresee_policy("expert", {}, None, said) == said
