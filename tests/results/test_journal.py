"""A run's directory: whole or not at all, whatever happens."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.journals import EPISODES, failed, record
from support.needs import needs_own_mount
from support.paths import TESTS

from envhub.declarations import Benchmark, Task
from envhub.errors import ExitCode, RunDirectoryError
from envhub.evaluation.plan import make_plan
from envhub.records import EpisodeError
from envhub.results.journal import (
    Journal,
    PlannedEpisodes,
    check_directory,
    create_directory,
    discard_directory,
    has_records,
    is_vacant,
    read_records,
    read_run,
    record_from_json,
    record_to_json,
    write_json,
)

PLANNED = {(episode.task, episode.index): episode for episode in EPISODES}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "one"
    create_directory(path)
    return path


@pytest.fixture
def journal(directory: Path):
    opened = Journal(directory)
    yield opened
    opened.close()


def lines(directory: Path) -> bytes:
    return (directory / "episodes.jsonl").read_bytes()


def changed(**fields: object) -> str:
    return json.dumps({**record_to_json(record(0)), **fields})


def actions(number: int) -> np.ndarray:
    return np.arange(2 * number, dtype=np.float32).reshape(number, 2)


# Records


def test_a_record_is_there_as_soon_as_it_is_appended(journal, directory):
    for number in (2, 0):
        journal.append(record(number), actions(number))
        # By another process: what it sees does not sit in a buffer of this one.
        seen = subprocess.check_output(["cat", directory / "episodes.jsonl"])
        assert json.loads(seen.splitlines()[-1])["episode"] == number
        kept = np.load(directory / "actions" / f"{number}.npy", allow_pickle=False)
        assert kept.dtype == np.float32
        assert np.array_equal(kept, actions(number))
    assert list(journal.records(EPISODES)) == [2, 0]


def test_a_line_is_as_documented(journal, directory):
    journal.append(record(3), None)
    content = json.loads(lines(directory))
    assert list(content) == [
        *("suite", "task", "episode", "seed", "init_state", "status", "success", "success_step"),
        *("end", "return", "steps", "out_of_bounds", "trace", "seconds", "attempts", "error"),
    ]
    assert (content["return"], content["error"]) == (0.1 + 0.2, None)
    journal.append(failed(4), None)
    error = json.loads(lines(directory).splitlines()[1])["error"]
    assert list(error) == ["where", "type", "message", "step", "traceback"]


def test_an_episode_without_steps_has_no_actions(journal, directory):
    journal.append(failed(0), None)
    assert list((directory / "actions").iterdir()) == []


def test_the_last_line_for_an_episode_counts(journal):
    journal.append(failed(1), None)
    journal.append(record(0), None)
    journal.append(record(1), None)
    assert journal.records(EPISODES) == {1: record(1), 0: record(0)}


TEXTS = st.text(max_size=30)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ERRORS = st.builds(
    EpisodeError, st.sampled_from(["env", "policy", "worker"]), TEXTS, TEXTS, st.integers(0, 9)
)
RECORDS = st.builds(
    record,
    st.integers(0, 8),
    seed=st.integers(0, 2**63 - 1),
    init_state=st.none() | st.integers(0, 9),
    status=st.sampled_from(["ok", "env_error", "policy_error", "timeout", "worker_died"]),
    success=st.none() | st.booleans(),
    return_=FLOATS,
    seconds=st.floats(0, 1e300),
    error=st.none() | ERRORS,
)


@settings(deadline=None)
@given(RECORDS)
def test_a_record_is_the_same_after_writing_and_reading(one):
    line = json.dumps(record_to_json(one))
    assert "\n" not in line
    assert record_from_json(json.loads(line), one.number) == one


# Torn and foreign lines


def test_a_torn_last_line_is_dropped_at_every_byte(directory):
    whole = b"".join(
        json.dumps(record_to_json(one)).encode() + b"\n" for one in (record(0), failed(1))
    )
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        (directory / "episodes.jsonl").write_bytes(whole[:cut])
        assert list(read_records(directory, PLANNED)) == [0]  # without a journal: nothing changes
        assert lines(directory) == whole[:cut]
    journal = Journal(directory)
    assert lines(directory) == whole[:first]
    journal.append(record(2), None)
    journal.close()
    assert list(read_records(directory, PLANNED)) == [0, 2]


@pytest.mark.parametrize("torn", [b"{", b"x" * 65535, b"x" * 65536, b"x" * 200_001])
@pytest.mark.parametrize("before", [b"", b"\n", b"y" * 65535 + b"\n", b"y" * 65536 + b"\n"])
def test_torn_lines_of_any_length_are_cut(directory, before, torn):
    (directory / "episodes.jsonl").write_bytes(before + torn)
    Journal(directory).close()
    assert lines(directory) == before


def test_whole_files_are_left_alone(directory):
    for content in (b"", b"{}\n", b"{}\n{}\n"):
        (directory / "episodes.jsonl").write_bytes(content)
        Journal(directory).close()
        assert lines(directory) == content


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("oops", "Expecting value: line 1 column 1"),
        ("[]", "it is not a JSON object"),
        ("{}", "Object missing required field `suite`"),
        (changed(task="other"), "episode 0 of task 'other' is not in the plan"),
        (changed(episode=9), "episode 9 of task 't' is not in the plan"),
        (changed(seed=8), "its seed is 8, and the plan's is 7"),
        (changed(suite="other"), "its suite is 'other', and the plan's is 's'"),
        (changed(init_state=1), "its init_state is 1, and the plan's is None"),
        (changed(success="yes"), "success: Expected `bool | null`, got `str`"),
        (changed(steps=True), "steps: Expected `int`, got `bool`"),
        (changed(status="fine"), "status: Invalid enum value 'fine'"),
        (changed(episode=[]), "episode: Expected `int`, got `array`"),
        (changed(error={"where": "env"}), "error: Object missing required field `type`"),
        ("[" * 100_000, "it is nested deeper than 64 levels"),
        ("[" * 100 + "]" * 100, "it is nested deeper than 64 levels"),
        ("NaN", "NaN is not a number of JSON"),
        ("[1e999]", "1e999 is too large"),
        (changed(steps=10**400), "steps: Expected `int` <= 9223372036854775807"),
        (changed(steps=-1), "steps: Expected `int` >= 0"),
        (changed(status="x" * 10_000), "status: Invalid enum value 'xxx"),
    ],
)
def test_a_line_that_is_no_record_of_this_run_is_named(journal, directory, line, said):
    journal.append(record(0), None)
    with (directory / "episodes.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RunDirectoryError) as caught:
        journal.records(EPISODES)
    assert f"{directory}/episodes.jsonl, line 2, is not a record of this run: {said}" in str(
        caught.value
    )
    assert str(caught.value).endswith("Delete the line; --resume then runs the episode again.")


def test_no_file_is_no_record(tmp_path):
    assert read_records(tmp_path, PLANNED) == {}


# Other files


def test_other_files_are_whole_or_not_there(journal, directory):
    journal.write("summary.json", {"a": 1})
    inode = (directory / "summary.json").stat().st_ino
    journal.write("summary.json", {"a": 2})
    # Written beside and moved over, so that a reader has the old one or the new one.
    assert (directory / "summary.json").stat().st_ino != inode
    assert json.loads((directory / "summary.json").read_text()) == {"a": 2}
    assert sorted(os.listdir(directory)) == [
        *(".lock", "actions", "episodes.jsonl", "logs", "summary.json")
    ]


def test_what_is_not_json_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


# A disk that is full: a real one, of 64 KiB, in a mount namespace of its own.

FULL_DISK = """
import json, sys
from pathlib import Path
from support.journals import EPISODES, record
from envhub.errors import RunDirectoryError
from envhub.results.journal import Journal
import numpy as np

directory = Path(sys.argv[1])
journal = Journal(directory)
journal.write("summary.json", {"a": 1})
filler = directory / "filler"
try:
    filler.write_bytes(bytes(2**20))
except OSError:
    pass
problems = []
for write in (
    lambda: journal.write("summary.json", {"a": "x" * 5000}),
    lambda: journal.append(record(0), np.zeros(5000, np.float32)),
):
    try:
        write()
    except RunDirectoryError as error:
        problems.append(str(error))
kept = json.loads((directory / "summary.json").read_text())
recorded = (directory / "episodes.jsonl").read_text()
left = sorted(path.name for path in directory.rglob("*.part"))
filler.unlink()
journal.append(record(0), np.zeros(5000, np.float32))
after = list(journal.records(EPISODES))
print(json.dumps([problems, kept, recorded, left, after]))
"""


@needs_own_mount
def test_no_space_for_a_file(directory):
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    run = 'mount -t tmpfs -o size=64k tmpfs "$2" && exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        [*inside, run, sys.executable, FULL_DISK, directory],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    problems, kept, recorded, left, after = json.loads(done.stdout)
    assert problems == 2 * [
        (
            f"No space is left for {directory}. All records so far are complete: free some space "
            f"and resume with envhub eval --resume {directory}"
        )
    ]
    assert (kept, recorded, left, after) == ({"a": 1}, "", [], [0])


def test_a_record_that_only_partly_fits_is_torn_and_dropped(directory):
    """A limit on the file's size cuts the write in the middle, as a full disk may."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from support.journals import record\n"
        "from envhub.results.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "journal.append(record(0), None)\n"
        "size = Path(sys.argv[1], 'episodes.jsonl').stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, size + 10))\n"
        "journal.append(record(1), None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, directory],
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert f"RunDirectoryError: {directory} cannot be written: File too large." in done.stderr
    assert len(lines(directory).splitlines()[1]) == 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    journal = Journal(directory)
    journal.append(record(1), None)
    assert journal.records(EPISODES) == {0: record(0), 1: record(1)}
    journal.close()


# Directories


def test_a_new_directory(tmp_path):
    create_directory(tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a" / "b") == ["logs"]
    (tmp_path / "empty").mkdir()
    create_directory(tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == ["logs"]


def test_a_directory_that_holds_something_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError) as caught:
        create_directory(tmp_path)
    assert str(caught.value) == f"{tmp_path} exists and is not empty. Choose another --out."
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError) as caught:
        create_directory(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} exists and is not empty. Resume it with envhub eval --resume {tmp_path}, or "
        "choose another --out."
    )
    assert caught.value.exit_code == ExitCode.USAGE
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "run.json"]


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"/file exists and is not empty\. Choose another"):
        create_directory(tmp_path / "file")
    with pytest.raises(RunDirectoryError, match=r"/file/run cannot be written: Not a directory\.$"):
        create_directory(tmp_path / "file" / "run")
    with pytest.raises(RunDirectoryError, match=r"/proc/x cannot be written: "):
        create_directory(Path("/proc/x"))


def test_a_directory_that_is_gone(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"cannot be written: No such file or directory\.$"):
        Journal(tmp_path / "gone")


def test_a_run_that_never_began_leaves_nothing(directory):
    Journal(directory).close()
    (directory / "logs" / "worker-0.log").write_text("hello")
    discard_directory(directory)
    assert not directory.exists()
    discard_directory(directory)


def test_what_is_not_ours_is_not_discarded(directory):
    (directory / "notes.txt").write_text("mine")
    discard_directory(directory)
    assert os.listdir(directory) == ["notes.txt"]


def test_a_run_is_not_discarded(directory):
    Journal(directory).close()
    (directory / "run.json").write_text("{}")
    before = sorted(os.listdir(directory))
    discard_directory(directory)
    assert sorted(os.listdir(directory)) == before


# Whether a run was begun there


def test_a_directory_without_records_is_vacant(directory):
    Journal(directory).close()
    (directory / "run.json").write_text("{")
    (directory / ".run.json-1.part").touch()
    (directory / "episodes.jsonl").write_text("{")
    assert is_vacant(directory)
    assert not has_records(directory)
    (directory / "episodes.jsonl").write_text("{\n")
    assert has_records(directory)
    assert not is_vacant(directory)


def test_a_directory_with_something_else_is_not_vacant(directory):
    (directory / "notes.txt").touch()
    assert not is_vacant(directory)


def test_links_and_pipes_are_refused(directory, tmp_path):
    Journal(directory).close()
    check_directory(directory)
    check_directory(tmp_path / "gone")
    (tmp_path / "outside").write_text("mine")
    (directory / "summary.json").symlink_to(tmp_path / "outside")
    with pytest.raises(RunDirectoryError) as caught:
        check_directory(directory)
    assert str(caught.value) == (
        f"{directory}/summary.json is a link, or something else than a file of its own. A run "
        "writes only to its own directory: put a file there, or start a new run in another "
        "directory."
    )


@pytest.mark.parametrize("name", ["episodes.jsonl", ".lock"])
def test_no_link_is_ever_written_through(directory, tmp_path, name):
    (directory / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RunDirectoryError, match="Too many levels of symbolic links"):
        Journal(directory)
    assert not (tmp_path / "outside").exists()


def test_episodes_of_a_plan_are_those_that_were_planned():
    tasks = (Task("a", "a", 5, init_states=2), Task("b", "b", 5), Task("c", "c", 5))
    suites = {"x": tasks[:2], "y": (tasks[1], tasks[2])}
    plan = make_plan(Benchmark("t", ":make", suites), suites, episodes=3, seed=4)
    planned = PlannedEpisodes(plan.info("reset"))
    assert [planned[e.task, e.index] for e in plan.episodes] == list(plan.episodes)
    for key in (("a", 3), ("a", -1), ("d", 0)):
        with pytest.raises(KeyError):
            planned[key]


# One process at a time


def test_only_one_process_has_it(journal, directory):
    before = lines(directory)
    script = (
        "import sys\nfrom pathlib import Path\nfrom envhub.results.journal import Journal\n"
        "Journal(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, directory], capture_output=True, text=True, check=False
    )
    said = f"Another process is writing to {directory}; wait for it, or stop it."
    assert done.stderr.strip().endswith(f"RunDirectoryError: {said}")
    with pytest.raises(RunDirectoryError, match="Another process"):
        Journal(directory)
    assert lines(directory) == before


def test_it_is_let_go_of(directory):
    for _ in range(3):
        Journal(directory).close()
    (directory / "actions").rmdir()
    (directory / "actions").write_text("in the way")
    for _ in range(2):  # one that failed holds it no more, either
        with pytest.raises(RunDirectoryError, match=r"cannot be written: File exists\.$"):
            Journal(directory)


def test_others_may_read_it(journal, directory):
    journal.append(record(0), actions(1))
    journal.write("run.json", {})
    mask = os.umask(0)
    os.umask(mask)
    for name in ("episodes.jsonl", "run.json", "actions/0.npy"):
        mode = stat.S_IMODE((directory / name).stat().st_mode)
        assert mode == 0o666 & ~mask, name


def test_a_missing_part_is_made_again(directory):
    (directory / "logs").rmdir()
    journal = Journal(directory)
    assert journal.logs.is_dir()
    journal.close()


# run.json


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"is not a run: it has no run\.json\. `envhub runs DIR` lists"),
        ("{", r"run\.json is damaged: .*\. Restore the file"),
        ("[]", "has the format None; this version of EnvHub reads 1 and 2. Use the version"),
        ('{"format": 3}', "has the format 3; this version of EnvHub reads 1 and 2"),
        ('{"format": "1"}', "has the format '1'"),
        ('{"format": true}', "has the format True; this version of EnvHub reads 1 and 2. Use"),
        ("[" * 100_000, r"run\.json is damaged: it is nested deeper than 64 levels\."),
        ('{"format": NaN}', r"run\.json is damaged: NaN is not a number of JSON\."),
        (" " * 2**22 + "{}", "cannot be read: it has 4,194,306 bytes, and may have 4,194,304"),
    ],
)
def test_a_directory_without_a_run_that_can_be_read(tmp_path, content, said):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=said):
        read_run(tmp_path)


def test_what_is_no_directory_holds_no_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match=r"file/run\.json cannot be read"):
        read_run(tmp_path / "file")


def test_a_run_is_read(tmp_path):
    write_json(tmp_path / "run.json", {"format": 1, "name": "☃"})
    assert read_run(tmp_path) == {"format": 1, "name": "☃"}
