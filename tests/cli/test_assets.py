"""`envhub assets`, as a process."""

import json
import os
import subprocess
import sys

import pytest
from envhub_localhub import Large
from support.looking import install

ENVHUB = [sys.executable, "-c", "from envhub.cli import main; main()"]
MESH = bytes(range(256)) * 8000


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("TEST_MESHES", raising=False)
    local_hub.create("owner/meshes", kind="dataset")
    commit(local_hub, "table")
    return local_hub


def commit(hub, table):
    files = {"red.stl": Large(MESH), "table.xml": table}
    return hub.commit("owner/meshes", files, kind="dataset")


def envhub(*arguments, code=0, **variables):
    done = subprocess.run(
        [*ENVHUB, *arguments], env=os.environ | variables, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def listed():
    return json.loads(envhub("assets", "list", "--json")[0])["assets"]


def test_fetch_list_update_remove(hub):
    first = hub.commit_of("owner/meshes", kind="dataset")
    assert envhub("assets", "list")[0] == "No assets are kept.\n"
    out, _ = envhub("assets", "fetch", "looking")
    assert out.startswith(f"owner/meshes@{first}  2 files, 2 MB\n")
    [facts] = listed()
    assert (facts["repo"], facts["commit"], facts["state"]) == ("owner/meshes", first, "whole")
    assert (facts["files"], facts["bytes"]) == (2, len(MESH) + 5)
    assert out.splitlines()[1] == facts["path"]
    assert envhub("assets", "list")[0].startswith(f"owner/meshes@{first}       2 MB  whole  20")

    second = commit(hub, "a larger table")
    assert envhub("assets", "fetch", "owner/meshes")[0].startswith(f"owner/meshes@{first}")
    out, err = envhub("assets", "update", "looking")
    assert out.startswith(f"owner/meshes@{second}")
    assert err == "owner/meshes: the files have changed.\n"
    assert envhub("assets", "update", "looking")[1] == "owner/meshes: the files are the same.\n"
    assert [facts["commit"] for facts in listed()] == [second]

    assert envhub("assets", "remove", "looking")[0] == "Removed owner/meshes\n"
    assert listed() == []
    _, err = envhub("assets", "remove", "owner/meshes", code=2)
    assert err.startswith("envhub: No set of assets is called 'owner/meshes'")


def test_a_damaged_set_is_listed_as_such_and_used_when_it_is_fetched_again(hub, tmp_path):
    _, err = envhub(*RUN, "--out", str(tmp_path / "a"))
    assert "Fetching the Hub dataset owner/meshes: 2 files ...\n" in err
    assert "  owner/meshes: 2 of 2 MB downloaded\n" in err
    [facts] = listed()
    path = f"{facts['path']}/table.xml"
    os.chmod(path, 0o644)
    with open(path, "w") as file:
        file.write("Table")
    [facts] = listed()
    assert (facts["state"], facts["bytes"], facts["path"]) == ("damaged", None, None)
    envhub("assets", "fetch", "looking")
    assert [facts["state"] for facts in listed()] == ["whole"]
    hub.close()
    out, err = envhub(*RUN, "--out", str(tmp_path / "b"), "--json")
    assert json.loads(out)["overall"]["mean_return"] == 10.0
    assert "owner/meshes" not in err
    assert envhub("assets", "remove", "--all")[0] == "Removed owner/meshes\n"
    assert listed() == []


RUN = ("eval", "looking", "--policy", "zero", "--episodes", "1", "--workers", "1")


@pytest.mark.parametrize("variables", [{}, {"HF_HUB_OFFLINE": "1"}], ids=["down", "offline"])
def test_nothing_stored_and_no_network(hub, tmp_path, variables):
    hub.close()
    _, err = envhub(*RUN, "--out", str(tmp_path / "run"), code=6, **variables)
    assert err.startswith("envhub: looking needs the files of the Hub dataset owner/meshes, which")
    assert "`envhub assets fetch looking`" in err
    assert err.endswith("with --env-arg meshes=DIR or TEST_MESHES.\n")
    assert ("HF_HUB_OFFLINE is set" in err) == bool(variables)
    if not variables:
        _, err = envhub("assets", "fetch", "looking", code=6)
        assert err.startswith("envhub: owner/meshes@main ")


def test_a_benchmark_without_assets(hub, tmp_path):
    place = tmp_path / "site" / "envhub_looking.py"
    place.write_text(place.read_text().replace(", assets=assets)", ")"))
    _, err = envhub("assets", "fetch", "looking", code=2)
    assert err == "envhub: looking needs no files besides those of its package.\n"
