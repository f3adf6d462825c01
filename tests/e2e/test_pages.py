"""Every `console` block of the documentation is run, and prints what the page shows."""

import pytest
from support.needs import needs_bash, needs_sandbox
from support.pages import agrees, commands_of, run_page
from support.paths import DOCS

PAGES = ("start", "benchmarks")


def check(page, place, expected=0, **more):
    for command, code, printed in run_page(page, place, **more):
        assert agrees(command.shown, printed), f"{command.line}\n{printed}"
        assert code == expected, f"{command.line}\n{printed}"


@needs_bash
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_print_what_the_page_shows(page, tmp_path):
    check(page, tmp_path)


@needs_bash
@needs_sandbox
def test_the_tutorial_from_a_gymnasium_file_to_a_pinned_reference(local_hub, tmp_path):
    assert len(commands_of("tutorial")) <= 11
    (tmp_path / "my_gym_env.py").write_bytes((DOCS / "examples/my_gym_env.py").read_bytes())
    hub = {"HF_ENDPOINT": local_hub.endpoint, "HF_TOKEN": local_hub.token}
    check("tutorial", tmp_path, **hub)
    card = (tmp_path / "slide" / "README.md").read_text(encoding="utf-8")
    assert "envhub check: " in card
    assert "| Slide |" in card


def test_no_other_page_has_console_blocks():
    having = {path.stem for path in DOCS.glob("*.md") if "```console" in path.read_text()}
    assert having == {*PAGES, "tutorial"}


def test_a_difference_is_noticed():
    assert agrees(("a", "...", "b"), "a\nx\ny\nb\n")
    assert agrees(("a ... c",), "a b c\n")
    assert not agrees(("a", "b"), "a\nx\nb\n")
    assert not agrees(("a.c",), "abc\n")
    assert not agrees((), "something\n")
