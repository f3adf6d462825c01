import pytest

from envhub.declarations import Benchmark, Task
from envhub.errors import UnknownName, UsageError
from envhub.evaluation.plan import select

REACH, PUSH, PICK, OPEN = (Task(name, name, 10) for name in ("reach", "push", "pick", "open"))
BENCHMARK = Benchmark(
    "arm",
    ":make",
    {"easy": (REACH, PUSH), "hard": (PICK, OPEN, PUSH), "held-out": (OPEN,)},
    default=("hard",),
)
NO_DEFAULT = Benchmark("arm", ":make", BENCHMARK.suites)
WITH_ALL = Benchmark("arm", ":make", {"easy": (REACH,), "all": (PUSH, PICK)}, default=("easy",))


@pytest.mark.parametrize(
    ("benchmark", "suites", "tasks", "expected"),
    [
        # Suites
        (BENCHMARK, (), (), {"hard": "pick open push"}),
        (NO_DEFAULT, (), (), {"easy": "reach push", "hard": "pick open push", "held-out": "open"}),
        (BENCHMARK, ["easy"], (), {"easy": "reach push"}),
        (BENCHMARK, ["held-out", "easy"], (), {"held-out": "open", "easy": "reach push"}),
        (BENCHMARK, ["easy,held-out"], (), {"easy": "reach push", "held-out": "open"}),
        (BENCHMARK, "easy , held-out,,", (), {"easy": "reach push", "held-out": "open"}),
        (BENCHMARK, ["easy", "easy"], (), {"easy": "reach push"}),
        (BENCHMARK, iter(["easy"]), iter(["push"]), {"easy": "push"}),
        # Every suite, unless one is called so
        (
            BENCHMARK,
            ["all"],
            (),
            {"easy": "reach push", "hard": "pick open push", "held-out": "open"},
        ),
        (
            BENCHMARK,
            ["easy", "all"],
            (),
            {"easy": "reach push", "hard": "pick open push", "held-out": "open"},
        ),
        (WITH_ALL, ["all"], (), {"all": "push pick"}),
        (WITH_ALL, (), (), {"easy": "reach"}),
        # Tasks: once, in the default suite if it is there, else wherever it is
        (BENCHMARK, (), ["push"], {"hard": "push"}),
        (BENCHMARK, (), ["reach"], {"easy": "reach"}),
        (BENCHMARK, (), ["open", "reach"], {"hard": "open", "easy": "reach"}),
        (BENCHMARK, (), "reach,open", {"hard": "open", "easy": "reach"}),
        (NO_DEFAULT, (), ["push", "open"], {"easy": "push", "hard": "open"}),
        # Of one suite, and by pattern
        (BENCHMARK, (), ["easy/push"], {"easy": "push"}),
        (BENCHMARK, (), ["easy/push", "push"], {"hard": "push", "easy": "push"}),
        (BENCHMARK, ["hard"], ["hard/push"], {"hard": "push"}),
        (BENCHMARK, (), ["p*"], {"hard": "pick push"}),
        (BENCHMARK, (), ["*"], {"hard": "pick open push", "easy": "reach"}),
        (BENCHMARK, (), ["pic?,[r]each"], {"hard": "pick", "easy": "reach"}),
        (BENCHMARK, (), ["*/open"], {"hard": "open", "held-out": "open"}),
        (BENCHMARK, (), ["h*/*"], {"hard": "pick open push", "held-out": "open"}),
        (BENCHMARK, ["easy", "hard"], ["pu*"], {"easy": "push", "hard": "push"}),
        # In the benchmark's order
        (BENCHMARK, (), ["push", "pick", "push"], {"hard": "pick push"}),
        # In every suite that is named
        (BENCHMARK, ["easy", "hard"], ["push"], {"easy": "push", "hard": "push"}),
        (BENCHMARK, ["easy", "hard"], ["reach"], {"easy": "reach"}),
        (BENCHMARK, ["all"], ["open"], {"hard": "open", "held-out": "open"}),
    ],
)
def test_select(benchmark, suites, tasks, expected):
    found = select(benchmark, suites, tasks)
    assert list(found) == list(expected)
    assert {s: " ".join(task.name for task in chosen) for s, chosen in found.items()} == expected


@pytest.mark.parametrize(
    ("suites", "tasks", "problem", "matches"),
    [
        (["esy"], (), "No suite is called 'esy'. Did you mean 'easy'?", ("easy",)),
        (["easy", "x"], (), "No suite is called 'x'. Available: all, easy, hard, held-out.", ()),
        (["al"], (), "No suite is called 'al'. Did you mean 'all'?", ("all",)),
        (["Easy"], (), "No suite is called 'Easy'. Did you mean 'easy'?", ("easy",)),
        ((), ["rech"], "No task is called 'rech'. Did you mean 'reach'?", ("reach",)),
        ((), ["reach", "x"], "No task is called 'x'. Available: open, pick, push, reach.", ()),
        (["easy"], ["pick"], "No task of easy is called 'pick'. Available: push, reach.", ()),
        (
            ["easy", "held-out"],
            ["pik"],
            "No task of easy, held-out is called 'pik'. Available: open, push, reach.",
            (),
        ),
        (["all"], ["pik"], "No task of easy, hard, held-out is called 'pik'.", ("pick",)),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(suites, tasks, problem, matches):
    with pytest.raises(UnknownName) as caught:
        select(BENCHMARK, suites, tasks)
    assert problem in str(caught.value)
    assert caught.value.matches == matches


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
@pytest.mark.parametrize("kind", ["suite", "task"])
def test_an_empty_name_is_refused(text, kind):
    with pytest.raises(UsageError, match=f"^The name of a {kind} is empty: name one, or leave --"):
        select(BENCHMARK, **{f"{kind}s": [text]})


@pytest.mark.parametrize(
    ("suites", "name", "said"),
    [
        ((), "easy/pusch", "No task is called 'easy/pusch'. Did you mean 'easy/push'"),
        ((), "easy/pick", "No task is called 'easy/pick'. Did you mean 'hard/pick'"),
        ((), "x*", "No task is called 'x*'. Available: open, pick, push, reach."),
        (["easy"], "hard/push", "No task of easy is called 'hard/push'. Did you mean 'easy/push'"),
        ((), "easy/hard/push", "No task is called 'easy/hard/push'."),
        ((), "/push", "No task is called '/push'."),
    ],
)
def test_what_matches_no_task_is_refused(suites, name, said):
    with pytest.raises(UnknownName) as caught:
        select(BENCHMARK, suites, [name])
    assert str(caught.value).startswith(said)
