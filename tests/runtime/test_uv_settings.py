"""The user's settings of indexes, proxies and certificates reach uv; nothing else does."""

import os
import sys
from pathlib import Path

import pytest

from envhub.runtime import uv_settings
from envhub.runtime.uv_settings import uv_variables

ALWAYS = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
NO_FILES = {"PIP_CONFIG_FILE": os.devnull}


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch, tmp_path):
    """The machine's own configuration is none of these tests'."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(uv_settings, "_SYSTEM", tmp_path / "machine")


def chosen(**given: str) -> dict[str, str]:
    found = uv_variables({"HOME": "/nowhere", **given})
    assert {name: found.pop(name) for name in ALWAYS} == ALWAYS
    del found["HOME"]
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"UV_DEFAULT_INDEX": "https://a"}, {"UV_DEFAULT_INDEX": "https://a"}),
        ({"UV_INDEX_LAB_PASSWORD": "x"}, {"UV_INDEX_LAB_PASSWORD": "x"}),
        ({"HTTPS_PROXY": "p", "no_proxy": "q"}, {"HTTPS_PROXY": "p", "no_proxy": "q"}),
        ({"SSL_CERT_FILE": "/c"}, {"SSL_CERT_FILE": "/c"}),
        ({"PIP_INDEX_URL": "https://a"}, {"UV_DEFAULT_INDEX": "https://a"}),
        (
            {"PIP_EXTRA_INDEX_URL": "https://a  https://b"},
            {"UV_INDEX": "https://a https://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        ({"PIP_CERT": "/c"}, {"SSL_CERT_FILE": "/c"}),
        ({"PIP_CERT": "/c", "SSL_CERT_FILE": "/d"}, {"SSL_CERT_FILE": "/d"}),
        # Nothing else of pip's is translated: uv has settings of its own for it.
        ({"PIP_FIND_LINKS": "/a", "PIP_NO_INDEX": "1", "PIP_PROXY": "p", "PIP_TIMEOUT": "9"}, {}),
        # uv's own settings of indexes are not mixed with pip's.
        ({"PIP_INDEX_URL": "a", "UV_FIND_LINKS": "/b"}, {"UV_FIND_LINKS": "/b"}),
        # What would change what is installed, and secrets of others.
        (
            {"UV_COMPILE_BYTECODE": "1", "UV_PYTHON": "3.9", "UV_OVERRIDE": "x", "HF_TOKEN": "s",
             "AWS_SECRET_ACCESS_KEY": "s", "PYTHONPATH": "x", "UV_NO_BINARY": "1",
             "VIRTUAL_ENV": "x"},
            {},
        ),
    ],
)  # fmt: skip
def test_variables(given, expected):
    assert chosen(**NO_FILES, **given) == expected


def test_what_is_relative_is_made_absolute(tmp_path):
    (tmp_path / "wheels").mkdir()
    found = chosen(**NO_FILES, UV_FIND_LINKS="wheels,https://a,absent", UV_CACHE_DIR="wheels")
    assert found["UV_FIND_LINKS"] == f"{tmp_path}/wheels,https://a,absent"
    assert found["UV_CACHE_DIR"] == f"{tmp_path}/wheels"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_of_pip_in_its_order(tmp_path):
    home = tmp_path / "home"
    places = [
        tmp_path / "dirs/pip/pip.conf",
        tmp_path / "machine/pip.conf",
        home / ".pip/pip.conf",
        home / ".config/pip/pip.conf",
        tmp_path / "prefix/pip.conf",
        tmp_path / "own.conf",
    ]
    given = {"HOME": str(home), "XDG_CONFIG_DIRS": str(tmp_path / "dirs")}
    given["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    for number, place in enumerate(places):
        write(place, f"[global]\nindex-url = https://{number}\n")
        assert chosen(**given) == {"UV_DEFAULT_INDEX": f"https://{number}",
                                   "XDG_CONFIG_DIRS": given["XDG_CONFIG_DIRS"]}  # fmt: skip
    write(places[-1], "[install]\nindex_url = https://i\n[global]\nindex-url = https://g\n")
    assert chosen(**given)["UV_DEFAULT_INDEX"] == "https://i"
    assert chosen(**given, PIP_INDEX_URL="https://v")["UV_DEFAULT_INDEX"] == "https://v"
    write(places[-1], "no sections")
    assert chosen(**given)["UV_DEFAULT_INDEX"] == "https://4"
    assert "UV_DEFAULT_INDEX" not in chosen(**{**given, **NO_FILES})


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ('[[index]]\nurl = "https://u"\ndefault = true\n', True),
        ('[pip]\nindex-url = "https://u"\n', True),
        ("native-tls = true\n", False),
        ("no toml", False),
    ],
)
def test_a_configuration_of_uv_counts_more_than_pip(tmp_path, text, counts):
    write(tmp_path / ".config/uv/uv.toml", text)
    found = chosen(HOME=str(tmp_path), PIP_INDEX_URL="https://p", **NO_FILES)
    assert ("UV_DEFAULT_INDEX" not in found) == counts
    found = chosen(HOME=str(tmp_path), PIP_INDEX_URL="https://p", UV_NO_CONFIG="1", **NO_FILES)
    assert "UV_DEFAULT_INDEX" in found
