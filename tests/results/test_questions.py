"""How often a question was asked on this machine."""

import json
import multiprocessing

import pytest
from support.run_json import MANIFEST, changed, info_of
from support.run_tools import WALK, envhub

from envhub.results.questions import Asked, count_question, hash_question, questions_path


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_STATE_DIR", str(tmp_path / "state"))


def test_runs_and_their_seeds_are_counted():
    assert count_question(info_of()) == Asked(1, 1)
    assert count_question(info_of(changed("plan.seed", 5))) == Asked(2, 2)
    assert count_question(info_of()) == Asked(3, 2)
    assert count_question(info_of(changed("policy.sha256", "cd"))) == Asked(1, 1)
    assert count_question(info_of(changed("plan.episodes", 3))) == Asked(1, 1)
    text = questions_path().read_text()
    assert "walk" not in text
    assert "policy" not in text


def test_what_is_not_counted():
    assert hash_question(info_of(changed("policy.kind", "object"))) is None
    assert count_question(info_of(changed("policy.kind", "object"))) is None
    assert count_question(info_of(changed("shard", {"index": 2, "of": 3}))) is None
    assert count_question(info_of(changed("shard", {"index": 1, "of": 3}))) == Asked(1, 1)


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 5}', '{"a": [0, []]}', '{"a": [1, ["x"]]}']
)
def test_a_damaged_file_counts_anew(content):
    questions_path().parent.mkdir(parents=True)
    questions_path().write_text(content)
    assert count_question(info_of()) == Asked(1, 1)
    assert count_question(info_of()) == Asked(2, 1)


def test_the_file_is_bounded():
    questions_path().parent.mkdir(parents=True)
    many = {str(number): [1, [0]] for number in range(3000)}
    questions_path().write_text(json.dumps(many))
    count_question(info_of())
    kept = json.loads(questions_path().read_text())
    assert len(kept) == 2000
    assert list(kept)[-2] == "2999"
    for seed in range(60):
        asked = count_question(info_of(changed("plan.seed", seed)))
    assert asked == Asked(61, 50)


def _count(times):
    for _ in range(times):
        count_question(info_of(MANIFEST))


def test_processes_share_it():
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_count, args=(20,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert count_question(info_of()) == Asked(61, 1)


def test_it_is_told_from_the_second_on_and_never_ends_a_run(tmp_path):
    state = tmp_path / "state"
    question = ("eval", WALK, "--task", "near", "--episodes", 1, "--policy", "zero", "--workers", 0)
    said = [
        envhub(
            *question, "--seed", seed, "--out", tmp_path / f"{seed}", ENVHUB_STATE_DIR=str(state)
        )
        for seed in (0, 1)
    ]
    assert [each.code for each in said] == [0, 0]
    assert "of this question" not in said[0].err
    assert "This is run 2 of this question on this machine, with 2 seeds." in said[1].err
    again = envhub("eval", "--resume", tmp_path / "0", ENVHUB_STATE_DIR=str(state))
    assert (again.code, "of this question" in again.err) == (0, False)
    (state / "questions.json").unlink()
    (state / "questions.json").mkdir()
    answer = envhub(*question, "--out", tmp_path / "kept", ENVHUB_STATE_DIR=str(state))
    assert answer.code == 0
    assert f"{state}/questions.json cannot be kept" in answer.err
