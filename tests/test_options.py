from typing import get_type_hints

import pytest

import envhub
from envhub.errors import UsageError
from envhub.options import SourceKeywords, SourceOptions


def test_the_options_are_the_keywords():
    assert get_type_hints(SourceKeywords) == get_type_hints(SourceOptions)
    given = SourceKeywords(trust_remote_code=True, sandbox="landlock", runtime="here")
    assert SourceOptions.of("make_env", given) == SourceOptions(
        trust_remote_code=True, sandbox="landlock", runtime="here"
    )


def test_a_keyword_that_is_not_an_option_is_named_with_its_function():
    with pytest.raises(TypeError) as caught:
        SourceOptions.of("make_env", {"trust_remotecode": True})
    assert str(caught.value) == (
        "make_env() got an unexpected keyword argument 'trust_remotecode'. Did you mean "
        "'trust_remote_code'?"
    )
    with pytest.raises(TypeError, match=r"'task'\. Did you mean 'tasks'"):
        envhub.evaluate("./nowhere", task="near")
    with pytest.raises(UsageError, match="n_envs must be a whole number from 1 to 4096"):
        envhub.make_env("./nowhere", n_envs=10**9)
