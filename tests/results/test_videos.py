"""Which episodes are drawn, and what is known about their videos."""

import json
import os

import pytest

from envhub.errors import RunDirectoryError, UsageError
from envhub.results.run import open_run
from envhub.results.videos import (
    VideoFacts,
    choose_episodes,
    failed_episode,
    find_episode,
    first_episodes,
    frame_distance,
    keep_facts,
    keep_video,
    known_videos,
    video_path,
    worst_episode,
)


@pytest.fixture
def run(make_run):
    return open_run(make_run("run", near="1101p", far="00e"))


def named(records):
    return [f"{record.task}:{record.episode}" for record in records]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("none", []),
        ("some", ["near:0", "near:2", "far:0"]),
        ("failures", ["near:2", "near:4", "far:0", "far:1", "far:2"]),
        ("far:1, near:0", ["far:1", "near:0"]),
    ],
)
def test_choices(run, text, chosen):
    assert named(choose_episodes(run, text)) == chosen


def test_all_and_a_number_of_them(run):
    assert len(choose_episodes(run, "all")) == 8
    assert named(first_episodes(run, 2)) == ["near:2", "far:0"]
    assert named(first_episodes(run, 6)) == [
        *("near:2", "far:0", "near:4", "far:1", "far:2"),
        "near:0",
    ]
    assert len(first_episodes(run, 99)) == 8


def test_one_that_failed(run, make_run):
    assert named([failed_episode(run), failed_episode(run, "far")]) == ["near:2", "far:0"]
    assert worst_episode(run).success is not True
    assert worst_episode(run, "far").task == "far"
    with pytest.raises(UsageError, match="Did you mean 'far'"):
        worst_episode(run, "fra")
    won = open_run(make_run("won", near="11"))
    assert worst_episode(won).task == "near"
    with pytest.raises(UsageError, match=r"No episode in .*won failed\. --worst draws"):
        failed_episode(won)


def test_the_frames_of_a_long_episode():
    assert [frame_distance(steps) for steps in (0, 1, 200, 201, 520)] == [1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("near", "'near' is not an episode: write TASK:K, such as near:0"),
        ("near:x", "is not an episode"),
        ("", "'' is not an episode"),
        ("near:0,", "'' is not an episode"),
        ("near:10", "has no episode near:10: they are named like near:0, with K from 0 to 9"),
        ("nowhere:0", "has no episode nowhere:0"),
        ("far:9", "far:9 has not been played yet"),
        ("near:9999999999", "is not an episode"),
    ],
)
def test_names_of_no_episode(run, text, said):
    with pytest.raises(UsageError, match=said):
        choose_episodes(run, text)


def test_what_is_known(run):
    record = find_episode(run, "near:2")
    assert known_videos(run, run.records()) == {}
    keep_video(run, record.number, b"film")
    facts = {record.number: VideoFacts(record.trace, 2, None), 19: VideoFacts("sha256:0", 1, 3)}
    keep_facts(run, facts)
    assert known_videos(run, run.records()) == {record.number: facts[record.number]}
    assert video_path(run, record.number).read_bytes() == b"film"


def test_a_video_of_another_record_is_unknown(run):
    keep_video(run, 2, b"film")
    keep_facts(run, {2: VideoFacts("sha256:other", 1, None)})
    assert known_videos(run, run.records()) == {}


@pytest.mark.parametrize(
    "content", ["", "[]", '{"2": 3}', '{"2": {"trace": "x"}}', "[" * 100_000, '{"2": null}']
)
def test_an_index_that_is_none(run, content):
    keep_video(run, 2, b"film")
    (run.directory / "videos" / "index.json").write_text(content)
    assert known_videos(run, run.records()) == {}


def test_an_index_that_is_no_file(run):
    keep_video(run, 2, b"film")
    os.mkfifo(run.directory / "videos" / "index.json")
    assert known_videos(run, run.records()) == {}, "and it does not wait for a writer"


def test_the_index_is_plain(run):
    keep_video(run, 2, b"film")
    keep_facts(run, {2: VideoFacts("sha256:0", 1, 41)})
    content = json.loads((run.directory / "videos" / "index.json").read_text())
    assert content == {"2": {"trace": "sha256:0", "every": 1, "difference": 41}}


def test_a_link_in_place_of_the_folder(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run.directory / "videos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunDirectoryError, match="is a link"):
        keep_video(run, 2, b"film")
    assert not any((tmp_path / "elsewhere").iterdir())
