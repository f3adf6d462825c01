"""The file of an experiment: what it may say, and what is said of one that says something else."""

from pathlib import Path
from textwrap import dedent

import pytest

from envhub.errors import RunDirectoryError, UsageError
from envhub.results.experiment import (
    make_experiment,
    open_experiment,
    read_experiment_file,
    write_experiment,
)
from envhub.results.experiment_file import find_line, parse_experiment

GOOD = dedent(
    """\
    baseline = "old"          # line 1
    seeds = [0, 7]

    [options]
    episodes = 5
    env_args = {speed = 1, gate = "a"}

    [policies]
    zero = "zero"

    [policies.old]
    policy = "./policy.py:old"
    policy_args = {gain = 2.5}

    [policies."new one"]
    policy = "./policy.py"
    episodes = 50

    [benchmarks.walk]
    ref = "./walk"
    tasks = ["near", "far"]
    env_args = {speed = 2}
    timeout = {step = 3}
    """
)


@pytest.fixture
def experiment(tmp_path: Path):
    (tmp_path / "e.toml").write_text(GOOD)
    return read_experiment_file(tmp_path / "e.toml", tmp_path / "out")


def test_options_of_a_cell_are_the_policys_then_the_benchmarks_then_those_of_all(experiment):
    assert [(c.policy, c.benchmark, c.seed, c.directory.name) for c in experiment.cells] == [
        ("zero", "walk", 0, "zero-walk-seed0"),
        ("zero", "walk", 7, "zero-walk-seed7"),
        ("old", "walk", 0, "old-walk-seed0"),
        ("old", "walk", 7, "old-walk-seed7"),
        ("new one", "walk", 0, "new-one-walk-seed0"),
        ("new one", "walk", 7, "new-one-walk-seed7"),
    ]
    shared = {
        "tasks": ["near", "far"],
        "env_args": {"speed": 2, "gate": "a"},
        "timeout": {"step": 3.0},
    }
    assert dict(experiment.cells[2].options) == shared | {
        "episodes": 5,
        "policy_args": {"gain": 2.5},
    }
    assert experiment.cells[4].options["episodes"] == 50
    assert experiment.question.baseline == "old"


def test_paths_begin_where_the_file_is(experiment, tmp_path, monkeypatch):
    cell = experiment.cells[2]
    monkeypatch.chdir(tmp_path)
    assert (experiment.policy_text(cell), experiment.ref(cell)) == ("./policy.py:old", "./walk")
    assert experiment.command(cell) == (
        "envhub eval ./walk --policy ./policy.py:old --episodes 5 --task near,far --env-arg "
        "speed=2 --env-arg gate=a --policy-arg gain=2.5 --timeout step=3 --seed 0"
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert (experiment.policy_text(cell), experiment.ref(cell)) == ("../policy.py:old", "../walk")
    monkeypatch.chdir(tmp_path.parent)
    assert experiment.ref(cell) == f"./{tmp_path.name}/walk"
    assert experiment.command(cell).startswith(f"cd {tmp_path} && envhub eval ./walk")
    assert experiment.policy_text(experiment.cells[0]) == "zero"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("[options]", "[options", 4, "is not TOML"),
        ("[options]", "[option]", 4, "no option is called 'option': did you mean 'options'"),
        ("episodes = 50", "epsodes = 50", 17, "did you mean 'episodes'"),
        ("episodes = 50", "episodes = 0", 17, "episodes: expected int >= 1, found 0"),
        ("episodes = 50", 'episodes = "5"', 17, "episodes: expected int, got str, found '5'"),
        ("seeds = [0, 7]", "seeds = []", 2, "seeds: expected list of length >= 1"),
        ("seeds = [0, 7]", "seeds = [0, -1]", 2, "seeds: expected int >= 0"),
        ("seeds = [0, 7]", "seeds = [7, 7]", 2, "names a seed twice"),
        ("seeds = [0, 7]", "episodes = 3", 2, "belongs in a table: [options]"),
        ("seeds = [0, 7]", "workers = 3", 2, "workers is an option of the command line"),
        ('baseline = "old"', 'baseline = "odl"', 1, "no policy is called 'odl': did you mean"),
        ('ref = "./walk"', "", 19, "benchmarks.walk has no ref"),
        ('ref = "./walk"', 'ref = ""', 20, "ref: expected str of length >= 1"),
        ('zero = "zero"', "zero = 3", 9, "zero must be a table or text, found 3"),
        ('"new one"', '"new\\u0007one"', 15, "a name has 1 to 60 printable characters"),
        ("step = 3", "steps = 3", 23, "timeout has no 'steps': did you mean 'step'"),
        ("step = 3", "step = -3", 23, "timeout: expected float > 0.0"),
        ("gain = 2.5", '"no name" = 2.5', 13, "policy_args has a key that must be a name"),
        ("gain = 2.5", "gain = inf", 13, "must be a finite number, text"),
        ("gain = 2.5", "gain = 2020-01-01", 13, "must be a finite number, text"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, line, said):
    assert GOOD.count(old) == 1
    (tmp_path / "e.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        read_experiment_file(tmp_path / "e.toml", tmp_path / "out")
    assert said in str(caught.value)
    assert f"line {line}" in str(caught.value), caught.value
    assert str(caught.value).startswith(str(tmp_path / "e.toml"))
    assert list(tmp_path.iterdir()) == [tmp_path / "e.toml"]


@pytest.mark.parametrize("option", ["trust_remote_code = true", 'sandbox = "none"', "private=true"])
@pytest.mark.parametrize("table", ["[options]", "[policies.old]", "[benchmarks.walk]"])
def test_a_file_gives_no_consent(option, table):
    with pytest.raises(UsageError, match="is said on the command line"):
        parse_experiment(GOOD.replace(table, f"{table}\n{option}"), "e.toml")


@pytest.mark.parametrize("text", ["", "[policies]\na = 'zero'", "[benchmarks]\na = './walk'"])
def test_a_file_that_names_too_little(text):
    with pytest.raises(UsageError, match=r"e.toml(, line \d)?: the file has no (polic|bench)"):
        parse_experiment(text, "e.toml")


def test_two_cells_with_one_directory(tmp_path):
    text = "[policies]\n'a b' = 'zero'\na-b = 'zero'\n[benchmarks]\nwalk = './walk'"
    question, content = parse_experiment(text, "e.toml")
    with pytest.raises(UsageError, match="would both be in a-b-walk-seed0: rename one"):
        make_experiment(question, content, tmp_path, tmp_path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_experiment_file(tmp_path / "no.toml", tmp_path)
    (tmp_path / "e.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_experiment_file(tmp_path / "e.toml", tmp_path)


def test_a_directory_says_what_was_asked_and_only_yours_is_obeyed(experiment):
    write_experiment(experiment)
    for obey in (False, True):
        again = open_experiment(experiment.directory, obey=obey)
        assert (again.cells, again.base, again.question) == (
            experiment.cells, experiment.base, experiment.question,
        )  # fmt: skip
    file = experiment.directory / "experiment.json"
    file.write_text(file.read_text().replace("./policy.py:old", "./policy.py:odd"))
    assert open_experiment(experiment.directory).cells == experiment.cells
    with pytest.raises(RunDirectoryError, match="does not carry your seal"):
        open_experiment(experiment.directory, obey=True)


def test_lines_of_keys():
    text = 'a = 1\n[t."x y"]\nb.c = 2\n["t".z]\n"d" = 3\n'
    assert [find_line(text, path) for path in (
        ("a",), ("t", "x y"), ("t", "x y", "b", "c"), ("t", "z", "d"), ("t", "z", "no"), ("no",),
    )] == [1, 2, 3, 5, 4, None]  # fmt: skip
