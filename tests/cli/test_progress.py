"""What is seen of a run while it goes on; on a real terminal, and elsewhere."""

import os
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from support.episodes import env_error, lost, policy_error, silent, won
from support.processes import wait_until
from support.run_json import changed, info_of
from support.run_tools import ENVHUB, WALK, WALKERS, outcomes, variables

from envhub.cli.progress import LiveWatcher, Watcher, clock, make_watcher
from envhub.declarations import Benchmark, Task
from envhub.errors import PluginError
from envhub.evaluation.engine import Engine
from envhub.evaluation.job import Job
from envhub.evaluation.plan import make_plan
from envhub.options import Limits
from envhub.policies.kinds import Builtin
from envhub.results.run import Run
from envhub.types import PluginSource, WorkerSpec

BENCHMARK = Benchmark("toy", ":make", {"s": (Task("t", "do", 5),)}, episodes=8)


@pytest.fixture
def watcher():
    """A watcher of a run of 8 episodes, of which 2 were there before."""
    before = signal.getsignal(signal.SIGINT)
    made = Watcher(quiet=False)
    plan = make_plan(BENCHMARK, BENCHMARK.suites)
    policy = Builtin("zero")
    job = Job(
        spec=WorkerSpec(PluginSource("toy"), {}, Limits()),
        benchmark=BENCHMARK,
        plan=plan,
        episodes=plan.episodes[2:],
        policy=policy,
        workers=2,
        retries=0,
    )
    engine = Engine(job, lambda record, actions, steps: None)
    made.started(
        Run.of(Path("runs/x"), info_of(changed("plan.episodes", 4))), plan, engine, [won(), lost()]
    )
    yield made
    signal.signal(signal.SIGINT, before)


def message(watcher: Watcher, *records) -> str:
    for record in records:
        watcher.recorded(record)
    return re.sub(r"\d+ steps/s, \d:\d\d left", "N steps/s, T left", watcher.line())


class TestPlainLines:
    def test_nothing_yet(self, watcher):
        """A resumed run counts what it has."""
        assert message(watcher) == "2/8 episodes, so far 50.0% succeeded (6 episodes to come)"

    @pytest.mark.parametrize(
        ("records", "said"),
        [
            ([won()], "3/8 episodes, so far 66.7% succeeded (5 episodes to come)"),
            ([lost(), lost()], "4/8 episodes, so far 25.0% succeeded (4 episodes to come)"),
            (
                [won(), policy_error()],
                "4/8 episodes, so far 50.0% succeeded (4 episodes to come), 1 errored",
            ),
            (
                [won(), env_error()],
                "4/8 episodes, so far 66.7% succeeded (4 episodes to come), 1 errored",
            ),
            ([silent()], "3/8 episodes, so far 50.0% succeeded (5 episodes to come)"),
        ],
    )
    def test_some(self, watcher, records, said):
        assert message(watcher, *records) == f"{said}, N steps/s, T left"

    def test_a_line_now_and_then(self, watcher, capsys):
        watcher.refresh()
        assert capsys.readouterr() == ("", "")
        watcher.every = 0.0
        watcher.refresh()
        assert capsys.readouterr().err.startswith("2/8 episodes, so far 50.0% succeeded")

    def test_the_mean_over_tasks(self, watcher):
        """Not over episodes: those of an easy task end first."""
        watcher._planned_tasks = 3
        records = [*(won(f"t{n}") for n in "000"), lost("t1")]
        assert "so far 50.0% succeeded (mean over 3 of 3 tasks; 2" in message(watcher, *records)

    def test_quiet(self, capsys):
        quiet = make_watcher(quiet=True)
        quiet.every = 0.0
        quiet.refresh()
        assert capsys.readouterr() == ("", "")

    def test_what_an_observer_did(self, watcher, capsys):
        watcher.warning(PluginError("log", "failed: ValueError: no \x1b[2Jdisk.", distribution="d"))
        said = (
            "envhub: Plugin 'log' of d failed: ValueError: no \\x1b[2Jdisk; disabled for the rest "
            "of this run.\n"
        )
        assert capsys.readouterr() == ("", said)

    def test_without_a_terminal_nothing_is_drawn(self):
        assert type(make_watcher(quiet=False)) is Watcher

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(0.0, "0:00"), (59.9, "0:59"), (60, "1:00"), (3599, "59:59"), (3661, "1:01:01")],
    )
    def test_the_time_left(self, seconds, shown):
        assert clock(seconds) == shown


class TestCtrlC:
    def test_once_and_twice(self, watcher, capsys):
        os.kill(os.getpid(), signal.SIGINT)
        assert watcher.interrupted
        assert watcher.engine.stopping
        # Not from within the handler, which may cut into something that is being written.
        assert capsys.readouterr() == ("", "")
        for _ in range(3):
            watcher.refresh()
        said = "Finishing the episodes under way; press Ctrl-C again to stop at once.\n"
        assert capsys.readouterr() == ("", said)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    def test_amidst_a_picture(self, watcher):
        """The picture is finished first; who cannot wait for that presses once more."""
        shown: list[str] = []

        def show() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            shown.append("half")
            if len(shown) < 3:
                os.kill(os.getpid(), signal.SIGINT)
            shown.append("whole")

        watcher.every, watcher.show = 0.0, show
        with pytest.raises(KeyboardInterrupt):
            watcher.refresh()
        assert shown == ["half", "whole"]
        with pytest.raises(KeyboardInterrupt):
            watcher.refresh()
        assert shown == ["half", "whole"]

    def test_afterwards_it_means_what_it_always_did(self, watcher):
        watcher.finish()
        watcher.finish()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert not watcher.interrupted


class Screen:
    """A terminal, as far as rich uses one; anything else that is sent fails the test."""

    CODES = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")

    def __init__(self, width: int) -> None:
        self.rows, self.row, self.column = [""], 0, 0
        self.width, self.cursor = width, True

    def feed(self, text: str) -> None:
        position = 0
        while position < len(text):
            code = self.CODES.match(text, position)
            if code:
                self._obey(*code.groups())
                position = code.end()
            else:
                self._put(text[position])
                position += 1

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

    def _obey(self, private: str, number: str, kind: str) -> None:
        match private, number, kind:
            case "?", "25", "l" | "h":
                self.cursor = kind == "h"
            case "", "2", "K":
                self.rows[self.row] = ""
            case "", _, "A":
                self.row = max(0, self.row - int(number or 1))
            case "", _, "m":
                return
            case _:
                raise AssertionError((private, number, kind))

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.rows.extend([""] * (self.row + 1 - len(self.rows)))
        else:
            assert character.isprintable(), ascii(character)
            if self.column == self.width:
                self._put("\r")
                self._put("\n")
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += 1


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *arguments: object, width: int = 100) -> None:
        self.screen = Screen(width)
        self._ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (30, width))
        modes = termios.tcgetattr(theirs)
        modes[3] |= termios.NOFLSH  # or Ctrl-C throws away what we have not read yet
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        self._text = b""
        # setsid makes it the controlling terminal, so that Ctrl-C is typed and not sent.
        self.command = subprocess.Popen(
            ["setsid", "--ctty", ENVHUB, *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=variables(TERM="xterm-256color"),
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.command.kill()
        self.command.wait()
        os.close(self._ours)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def read(self) -> bool:
        """Take in what is shown; False once the other side has gone."""
        try:
            self._text += os.read(self._ours, 65536)
        except OSError:
            return False
        # A character may still be cut in two, or a code.
        whole = re.match(rb"(?s).*(?=\x1b[^A-Za-z]*\Z)|(?s:.*)", self._text)
        assert whole
        try:
            text = whole[0].decode()
        except UnicodeDecodeError:
            return True
        self._text = self._text[whole.end() :]
        self.screen.feed(text)
        return True

    def read_until(self, shown: str) -> None:
        while shown not in self.screen.text:
            assert self.read(), self.screen.text

    def read_all(self) -> int:
        while self.read():
            pass
        return self.command.wait()


@pytest.fixture
def gate(tmp_path):
    directory = tmp_path / "gate"
    directory.mkdir()
    return directory


class TestTerminal:
    def test_a_live_picture_that_leaves_nothing_behind(self, tmp_path, gate):
        (gate / "near.2").touch()
        out = tmp_path / "run"
        with Terminal(
            *("eval", WALK, "--task", "near", "--episodes", 4, "--workers", 1),
            *("--env-arg", f"gate={gate}", "--out", out),
        ) as terminal:
            terminal.read_until("2/4 episodes")
            terminal.read_until("0: near #2")
            rows = [row.rstrip() for row in terminal.screen.rows]
            assert rows[0] == "No --policy: evaluating random actions."
            assert rows[1] == "━" * 30 + "╺" + "━" * 29  # half of it is done
            assert re.fullmatch(
                r"2/4 episodes, so far \d+\.\d% succeeded \(2 episodes to come\), "
                r"[\d,]+ steps/s, \d+:\d\d left",
                rows[2],
            )
            assert rows[3] == "  0: near #2"
            assert not terminal.screen.cursor
            (gate / "near.2").unlink()
            assert terminal.read_all() == 0
        screen = terminal.screen
        assert screen.cursor
        lines = screen.text.split("\n")
        assert lines[0] == "No --policy: evaluating random actions."
        assert f"{WALK}, policy random" in "".join(lines[1:3])  # folded if the path is long
        assert any(line.split()[:4] == ["success", "95", "%", "interval"] for line in lines[2:4])
        assert lines[-2:] == [str(out), ""]
        assert "━" not in screen.text
        assert "#" not in screen.text

    def test_ctrl_c_is_typed(self, tmp_path, gate):
        (gate / "near.1").touch()
        out = tmp_path / "run"
        with Terminal(
            *("eval", WALK, "--task", "near", "--episodes", 4, "--workers", 1),
            *("--policy", f"{WALKERS}:noisy"),
            *("--env-arg", f"gate={gate}", "--out", out),
            width=200,
        ) as terminal:
            wait_until((gate / "near.1.waiting").exists)
            terminal.read_until("0: near #1")
            terminal.type(b"\x03")
            terminal.read_until(
                "Finishing the episodes under way; press Ctrl-C again to stop at once."
            )
            terminal.read_until("0: near #1")
            terminal.type(b"\x03")
            assert terminal.read_all() == 130
        assert terminal.screen.cursor
        assert [row for row in terminal.screen.text.split("\n") if row and row != "^C"] == [
            "Finishing the episodes under way; press Ctrl-C again to stop at once.",
            f"Interrupted. Resume with: envhub eval --resume {out}",
        ]
        assert list(outcomes(out)) == [("near", 0)]

    def test_quiet(self, tmp_path):
        out = tmp_path / "run"
        with Terminal(
            *("eval", WALK, "--task", "near", "--episodes", 1, "--workers", 0, "--quiet"),
            *("--policy", "zero", "--json", "--out", out),
        ) as terminal:
            assert terminal.read_all() == 0
        assert terminal.screen.text.startswith("{")
        assert terminal.screen.text.endswith("}\n")

    def test_many_workers_do_not_fill_the_screen(self):
        watcher = LiveWatcher(quiet=False)
        watcher.slots = lambda: [f"t #{index}" for index in range(20)]
        from rich.console import Console

        console = Console(width=60, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
        with console.file:
            console.print(watcher._picture())
        lines = console.export_text().splitlines()
        assert lines[-2:] == ["  7: t #7".ljust(len(lines[-2])), "  and 12 more workers".ljust(60)]
