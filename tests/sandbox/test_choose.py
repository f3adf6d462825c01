"""Which sandbox is chosen, and the command line that it makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import needs_bubblewrap, needs_landlock, needs_sandbox
from support.sandboxes import choose_elsewhere, fake_tool

from envhub.errors import HomeExposed, SandboxUnavailable
from envhub.sandbox.choose import choose, command, protect
from envhub.sandbox.inside import Protection


class TestChoosing:
    def test_what_works_is_taken(self, kind):
        assert choose(kind) == kind

    @needs_sandbox
    def test_none_is_never_chosen_unasked(self):
        assert choose("none") == "none"
        assert choose("auto") in ("bubblewrap", "landlock")

    def test_a_missing_one_is_an_error(self, directory):
        head, text = choose_elsewhere("bubblewrap", str(directory))
        assert head == "2 bubblewrap ['bubblewrap']"
        assert text.startswith(
            "The sandbox 'bubblewrap' does not work here: bubblewrap: bwrap is not on PATH. "
        )
        assert "--sandbox none" in text

    def test_one_that_cannot_shut_in_is_an_error(self, directory):
        script = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1"
        _, text = choose_elsewhere("bubblewrap", fake_tool(directory, script))
        assert "bubblewrap: bwrap: No permissions to create new namespace. " in text
        _, text = choose_elsewhere("bubblewrap", fake_tool(directory, "exit 3"))
        assert "bubblewrap: bwrap ended with exit code 3. " in text

    @needs_landlock
    def test_auto_then_takes_the_other(self, directory):
        assert choose_elsewhere("auto", fake_tool(directory, "exit 3")) == ["landlock landlock"]

    @needs_bubblewrap
    def test_an_interpreter_whose_path_has_dots_is_no_reason_for_a_weaker_one(self, tmp_path):
        """As that of `cd docs; ../.venv/bin/python -m envhub`; workers are started with it too."""
        script = (
            "import sys; from envhub.sandbox.choose import why_unavailable, filesystem;"
            "from envhub.types import HERE; assert '..' in sys.executable;"
            "print(why_unavailable('bubblewrap'), HERE.python,"
            "any('..' in path.parts for path in filesystem.interpreter_paths()))"
        )
        python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
        dotted = os.path.relpath(sys.executable, tmp_path)
        done = subprocess.run(
            [dotted, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == (f"None {python} False\n", "")

    def test_it_is_tried_once(self, directory):
        path = fake_tool(directory, f"echo x >> '{directory}/tries'; exit 3")
        choose_elsewhere("auto", path)
        # its options, and one start
        assert (directory / "tries").read_text() == "x\nx\n"

    def test_nothing_works(self):
        exc = SandboxUnavailable("auto", {"bubblewrap": "a", "landlock": "b"})
        assert str(exc).startswith("No sandbox works here: bubblewrap: a; landlock: b. ")
        assert exc.problems == {"bubblewrap": "a", "landlock": "b"}


class TestProtection:
    def test_what_a_run_records(self):
        assert protect("none", network=False, memory_mb=64).to_json() == {
            "sandbox": "none", "network": True, "memory_mb": None,
        }  # fmt: skip

    @pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
    def test_of_a_sandbox(self, kind):
        protection = protect(kind, network=False, memory_mb=64)
        assert protection == Protection(kind, False, 64)
        assert Protection(**protection.to_json()) == protection


class TestCommand:
    NONE = Protection("none", True, None)
    LANDLOCK = Protection("landlock", False, None)
    BUBBLEWRAP = Protection("bubblewrap", False, None)

    def test_only_bubblewrap_changes_it(self, tmp_path):
        for protection in (self.NONE, self.LANDLOCK):
            argv = command(protection, ("a", "b"), scratch=tmp_path, readable=[])
            assert argv == ["a", "b"]

    @pytest.mark.parametrize("protection", [LANDLOCK, BUBBLEWRAP])
    def test_no_directory_that_holds_the_home(self, protection, tmp_path, monkeypatch):
        home = tmp_path / "home" / "me"
        home.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        (tmp_path / "link").symlink_to(home)
        for path in (home, home.parent, Path("/"), tmp_path / "link"):
            with pytest.raises(HomeExposed) as caught:
                command(protection, ["x"], scratch=tmp_path / "scratch", readable=[path])
            assert caught.value.path == path
            assert f"show {path} to foreign code" in str(caught.value)
