"""Episodes that an engine is given while it runs."""

import select
import threading
import time

from support.engine_runs import play
from support.journals import EPISODES

from envhub.evaluation.schedule import Schedule
from envhub.evaluation.supply import Supply
from envhub.records import Episode


def readable(supply: Supply) -> bool:
    return bool(select.select([supply], [], [], 0)[0])


def test_what_is_added_is_taken_once_and_the_end_comes_last():
    supply = Supply()
    assert supply.take() == []
    assert not readable(supply)
    supply.add(EPISODES[:2])
    supply.add(EPISODES[2:3])
    supply.close()
    assert readable(supply)
    assert supply.take() == [*EPISODES[:3]]
    assert supply.take() is None


def test_a_schedule_takes_more_and_lets_more_workers_help():
    schedule = Schedule(EPISODES[:1], 1)
    assert schedule.take(None) == EPISODES[0]
    assert schedule.take(None) is None
    schedule.add(EPISODES[1:3], 1)
    assert schedule.left == 2
    assert schedule.take(None) == EPISODES[1], "one more may help"
    assert schedule.take("t") == EPISODES[2]
    assert schedule.take("t") is None


def test_an_engine_goes_on_until_its_supply_is_closed():
    whole = play(workers=1)
    supply, seen = Supply(), []

    def give() -> None:
        for record in whole.records:
            before = len(seen)
            supply.add([Episode(record.number, *fields(record))])
            while len(seen) == before:
                time.sleep(0.005)
        supply.close()

    thread = threading.Thread(target=give)
    thread.start()
    late = play(workers=1, supply=supply, watch=seen.append)
    thread.join()
    assert late == whole
    tasks = len({record.task for record in whole.records})
    assert late.engine.progress.opened == tasks, "a worker that waits keeps its env"


def fields(record):
    return record.suite, record.task, record.episode, record.seed, record.init_state
