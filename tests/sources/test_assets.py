"""Finding the assets of a benchmark, and their digest."""

import shutil

import pytest
from envhub_localhub import Large, LocalHub
from support.looking import install
from support.needs import needs_git

import envhub
from envhub.declarations import Asset, Benchmark, Task
from envhub.errors import InvalidBenchmark, SourceUnavailable, UsageError
from envhub.sources import store
from envhub.sources.assets import find_assets, hash_tree
from envhub.sources.profiles import ASSETS

MESHES = Asset("meshes", "owner/meshes", "TEST_MESHES")
BENCHMARK = Benchmark(
    "reach", ":make", {"near": (Task("a", "reach", 5),)}, assets=(MESHES,)
)  # fmt: skip


@pytest.fixture
def meshes(tmp_path):
    place = tmp_path / "meshes"
    (place / "cups").mkdir(parents=True)
    (place / "cups" / "red.stl").write_bytes(b"red")
    (place / "table.xml").write_bytes(b"table")
    return place


def test_an_argument_comes_before_the_variable(meshes, monkeypatch, tmp_path):
    monkeypatch.setenv("TEST_MESHES", str(tmp_path / "nowhere"))
    (found,) = find_assets(BENCHMARK, {"meshes": str(meshes), "size": 3})
    assert (found.name, found.path, found.digest) == ("meshes", str(meshes), hash_tree(meshes))


def test_the_variable_names_them(meshes, monkeypatch):
    monkeypatch.setenv("TEST_MESHES", str(meshes))
    (found,) = find_assets(BENCHMARK, {})
    assert found.path == str(meshes)


def test_a_relative_path_is_that_of_the_caller(meshes, monkeypatch):
    monkeypatch.chdir(meshes.parent)
    (found,) = find_assets(BENCHMARK, {"meshes": "meshes"})
    assert found.path == str(meshes)


def test_nobody_says_where_they_are_and_there_is_no_network(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TEST_MESHES", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LocalHub(tmp_path / "hub") as gone:
        monkeypatch.setenv("HF_ENDPOINT", gone.endpoint)
    with pytest.raises(SourceUnavailable) as caught:
        find_assets(BENCHMARK, {})
    assert str(caught.value) == (
        "reach needs the files of the Hub dataset owner/meshes, which are not part of its package "
        "and not stored here. owner/meshes@main could not be requested: ConnectError "
        f"({gone.endpoint}). Check the network, and HF_ENDPOINT if it is set. Where there is a "
        "network: `envhub assets fetch reach`. Or name the directory of a copy with --env-arg "
        "meshes=DIR or TEST_MESHES."
    )


@pytest.mark.parametrize("text", ["/nowhere/at/all", "/dev/null"])
def test_a_place_that_is_not_a_directory(text):
    with pytest.raises(UsageError) as caught:
        find_assets(BENCHMARK, {"meshes": text})
    assert str(caught.value).startswith(
        f"{text} is not a directory. Name a copy of the Hub dataset"
    )


def test_a_link_that_leads_nowhere(meshes):
    (meshes / "lost.stl").symlink_to("nowhere")
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        find_assets(BENCHMARK, {"meshes": str(meshes)})


def test_the_digest_is_that_of_names_and_contents(meshes, tmp_path):
    before = hash_tree(meshes)
    copy = tmp_path / "copy"
    shutil.copytree(meshes, copy)
    (copy / ".cache").mkdir()
    (copy / ".cache" / "notes").write_text("of the Hub's client")
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in meshes.iterdir():
        (linked / path.name).symlink_to(path)
    assert hash_tree(copy) == hash_tree(linked) == before
    (copy / "table.xml").write_bytes(b"Table")
    assert hash_tree(copy) != before
    (meshes / "table.xml").rename(meshes / "chair.xml")
    assert hash_tree(meshes) != before


@pytest.mark.parametrize(
    ("name", "repo", "variable", "problem"),
    [
        ("a-b", "owner/x", "X", "it needs a plain name"),
        ("a", "x", "X", "repo must be 'owner/name', found 'x'"),
        ("a", "owner/x", "x y", "variable must be the name of an environment variable"),
    ],
)
def test_assets_that_cannot_be(name, repo, variable, problem):
    with pytest.raises(InvalidBenchmark) as caught:
        Asset(name, repo, variable)
    assert problem in str(caught.value)


def test_assets_must_be_a_tuple():
    with pytest.raises(InvalidBenchmark, match="assets must be a tuple of Asset"):
        Benchmark("reach", ":make", {"near": (Task("a", "reach", 5),)}, assets=[MESHES])


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    place = tmp_path / "site"
    install(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", str(place))


def test_a_run_records_the_content_and_not_the_place(plugin, meshes, tmp_path, monkeypatch):
    shutil.copytree(meshes, tmp_path / "copy")
    shutil.copytree(meshes, tmp_path / "other")
    (tmp_path / "other" / "table.xml").write_bytes(b"a larger table")

    def run(out, **env_args):
        return envhub.evaluate(
            "looking", "zero", workers=1, episodes=1, env_args=env_args, out=tmp_path / out
        )

    here, elsewhere, another = (
        run(f"run-{name}", meshes=str(tmp_path / name)) for name in ("meshes", "copy", "other")
    )
    monkeypatch.setenv("TEST_MESHES", str(meshes))
    named = run("run-named")
    assert [record.return_ for record in here.records()] == [10.0]
    assert [record.return_ for record in another.records()] == [28.0]
    assert named.info["benchmark"]["assets"] == {"meshes": hash_tree(meshes)}
    assert named.info["benchmark"]["env_args"] == {}
    protocols = [each.info["protocol"] for each in (here, elsewhere, named, another)]
    assert protocols[0] == protocols[1] == protocols[2] != protocols[3]


def test_make_env_hands_them_over_too(plugin, meshes, monkeypatch):
    monkeypatch.setenv("TEST_MESHES", str(meshes))
    env = envhub.make_env("looking")["near"]["look"]
    env.reset()
    _, rewards, *_ = env.step(env.action_space.sample())
    env.close()
    assert list(rewards) == [5.0]


@pytest.fixture
def dataset(hub, meshes, monkeypatch):
    """The same files as a dataset, one of them in large-file storage."""
    monkeypatch.delenv("TEST_MESHES", raising=False)
    hub.create("owner/meshes", kind="dataset")
    files = {"cups/red.stl": Large(b"red"), "table.xml": b"table"}
    return hub.commit("owner/meshes", files, kind="dataset")


def test_they_are_fetched_if_nobody_names_them(hub, dataset, meshes):
    lines = []
    (found,) = find_assets(BENCHMARK, {}, lines.append)
    assert found.digest == hash_tree(meshes)
    assert found.source == f"owner/meshes@{dataset}"
    assert found.path == str(store.stored_path("owner/meshes", dataset, ASSETS) / "files")
    assert lines[0] == "Fetching the Hub dataset owner/meshes: 2 files ..."
    assert lines[-1] == "  owner/meshes: 0 of 0 MB downloaded"
    hub.close()
    assert find_assets(BENCHMARK, {}) == (found,)


def test_a_directory_of_the_users_comes_first(hub, dataset, meshes, monkeypatch):
    find_assets(BENCHMARK, {})
    hub.requests.clear()
    (named,) = find_assets(BENCHMARK, {"meshes": str(meshes)})
    assert (named.path, named.source) == (str(meshes), None)
    monkeypatch.setenv("TEST_MESHES", str(meshes))
    (named,) = find_assets(BENCHMARK, {})
    assert (named.path, named.source) == (str(meshes), None)
    assert hub.requests == []


@needs_git
def test_a_run_records_the_commit_and_its_workers_share_the_files(
    hub, dataset, meshes, plugin, tmp_path
):
    run = envhub.evaluate("looking", "zero", workers=2, episodes=4, out=tmp_path / "fetched")
    assert [record.return_ for record in run.records()] == [10.0] * 4
    assert run.info["benchmark"]["assets"] == {"meshes": hash_tree(meshes)}
    assert run.info["benchmark"]["asset_sources"] == {"meshes": f"owner/meshes@{dataset}"}
    content = [request for request in hub.requests if request.path.endswith("/table.xml")]
    assert len(content) == 1
    own = {"meshes": str(meshes)}
    other = envhub.evaluate("looking", "zero", env_args=own, episodes=4, out=tmp_path / "own")
    assert other.info["benchmark"]["asset_sources"] == {}
    assert other.info["protocol"] == run.info["protocol"]


def test_a_new_commit_changes_nothing_by_itself(hub, dataset, plugin, tmp_path):
    envhub.evaluate("looking", "zero", workers=1, episodes=1, out=tmp_path / "first")
    hub.commit("owner/meshes", {"table.xml": "a larger table"}, kind="dataset")
    run = envhub.evaluate("looking", "zero", workers=1, episodes=1, out=tmp_path / "second")
    assert [record.return_ for record in run.records()] == [10.0]
