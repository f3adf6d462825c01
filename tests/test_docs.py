"""The documentation names everything that exists, and nothing that does not."""

import importlib
import inspect
import re
from pathlib import Path

import click
import pytest
from support.paths import DOCS

import envhub
from envhub import hookspecs
from envhub.cli import COMMANDS, group
from envhub.errors import ExitCode
from envhub.options import SourceKeywords
from envhub.sources import download, git, http, hub
from envhub.sources.profiles import BENCHMARK, PROFILES


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, title: str, level: int = 2) -> str:
    begin, end = "#" * level, f"#{{2,{level}}} "
    pattern = rf"^{begin} {re.escape(title)}\n(.*?)(?=^{end}|\Z)"
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    assert found, f"no section {title!r}"
    return found[1]


def hooks() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("envhub_")]


@pytest.mark.parametrize("name", hooks())
def test_every_hook_is_documented_with_its_signature(name: str):
    source = inspect.getsource(getattr(hookspecs, name))
    signature = re.search(r"def .*?:\n", source, re.DOTALL)
    assert signature
    assert signature[0].strip() in section(page("benchmarks"), name, level=3)


def test_no_hook_is_documented_that_does_not_exist():
    assert sorted(re.findall(r"^### (envhub_\w+)$", page("benchmarks"), re.MULTILINE)) == sorted(
        hooks()
    )


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_every_command_is_documented(name: str):
    command = group.get_command(click.Context(group), name)
    assert command is not None
    text = section(page("commands"), name)
    for option in options(command):
        assert f"`{option}" in text, f"{name} {option}"


def options(command: click.Command) -> list[str]:
    """The long options of a command and of its subcommands, but for those that no user gives."""
    shown = (p for p in command.params if not getattr(p, "hidden", False))
    found = [opt for p in shown for opt in p.opts if opt.startswith("--")]
    if isinstance(command, click.Group):
        found += [opt for sub in command.commands.values() for opt in options(sub)]
    return found


def test_no_command_is_documented_that_does_not_exist():
    titles = re.findall(r"^## (.+)$", page("commands"), re.MULTILINE)
    assert sorted(titles) == sorted([*COMMANDS, "Defaults", "Exit codes"])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example_and_the_group_shows_its_first_line(name: str):
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.help
    assert "Example" in command.help
    assert f"envhub {name}" in command.help


def test_every_exit_code_is_documented_and_no_other():
    codes = re.findall(r"^\| (\d+) \|", section(page("commands"), "Exit codes"), re.MULTILINE)
    assert sorted(map(int, codes)) == sorted(ExitCode)


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert set(re.findall(r"^- \[[^]]+\]\(([\w-]+)\.md\)", index, re.MULTILINE)) == pages


def test_the_glossary_has_no_circles():
    rows = dict(re.findall(r"^\| ([\w ]+) \| (.+) \|$", page("glossary"), re.MULTILINE))
    del rows["word"]
    assert list(rows) == sorted(rows)
    uses = {word: {used for used in rows if in_words(used, text)} for word, text in rows.items()}
    explained: set[str] = set()
    while new := {word for word in rows if word not in explained and uses[word] <= explained}:
        explained |= new
    assert not {word: used - explained for word, used in uses.items() if word not in explained}


def in_words(word: str, text: str) -> bool:
    """Whether a sentence uses a word or its plural, outside code and links' targets."""
    forms = f"{word[:-1]}(y|ies)" if word.endswith("y") else f"{word}(e?s)?"
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    return re.search(rf"\b{forms}\b", plain, re.IGNORECASE) is not None


def test_the_readme_leads_to_every_page():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert not [path.name for path in DOCS.glob("*.md") if f"(docs/{path.name})" not in readme]


TEXTS = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.parent.glob("*.md"))]


def outside_code(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors(path: Path) -> list[str]:
    """The anchors of a page's headings, as forges and MyST make them."""
    titles = re.findall(r"^#+ (.+)$", outside_code(path), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title).lower() for title in titles]
    return [re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(path: Path):
    for text, target in re.findall(r"\[([^]]*)\]\(([^)\s]*)\)", outside_code(path)):
        assert text, f"an empty link to {target} shows nothing on a forge"
        place, _, anchor = target.partition("#")
        if "://" in target:
            continue
        led = (path.parent / place).resolve() if place else path
        assert led.exists(), target
        assert not anchor or anchors(led).count(anchor) == 1, target


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_pages_are_plain_markdown(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^(```|:::)\{", text, re.MULTILINE), "a forge shows no directives"
    lines = outside_code(path).splitlines()
    long = [line for line in lines if len(line) > 100 and not re.match(r"\||    |!?\[|#", line)]
    assert [line for line in long if len(re.sub(r"`[^`]+`|\]\([^)]*\)", "", line)) > 100] == []


SHOWN = [
    (path.name, *found)
    for path in sorted(DOCS.glob("*.md"))
    for found in re.findall(
        r"^<!-- (examples/\S+) -->\n```\w+\n(.*?)^```$",
        path.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
]


def test_code_that_a_page_shows_is_that_of_its_file():
    assert len(SHOWN) >= 12
    for page_name, place, code in SHOWN:
        assert code == (DOCS / place).read_text(encoding="utf-8"), (page_name, place)


def test_the_api_says_of_each_name_what_its_docstring_says():
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", page("api"), re.MULTILINE)
    assert len(rows) > 30
    for name, text in rows:
        module, _, attribute = name.rpartition(".")
        doc = inspect.getdoc(getattr(importlib.import_module(module), attribute))
        assert doc is not None
        assert " ".join(doc.split("\n\n")[0].split()) == text, name


def test_the_readme_names_only_commands_that_exist():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^    envhub (\w+)", readme, re.MULTILINE)) <= set(COMMANDS)
    targets = set(re.findall(r"make (\w+)", readme))
    makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
    assert targets <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def test_the_architecture_names_only_modules_that_exist():
    """`folder.module`, `folder/module.py` and `folder/` are written as code; each must be there."""
    text = page("architecture")
    package = Path(envhub.__file__).parent
    spans = [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"── ([\w.]+)", text)]
    folders = {path.name for path in package.iterdir() if path.is_dir()}
    named = {span.rstrip("/") for span in spans if re.split(r"[./]", span)[0] in folders}
    assert len(named) > 20
    for name in named:
        parts = re.split(r"[./]", name.removesuffix(".py"))
        path = package.joinpath(*parts)
        module_of_function = package.joinpath(*parts[:-1]).with_suffix(".py")
        assert path.is_dir() or path.with_suffix(".py").exists() or module_of_function.exists(), (
            name
        )


def test_every_folder_says_in_which_process_it_runs():
    for path in Path(envhub.__file__).parent.glob("*/__init__.py"):
        if path.parent.name not in ("cli", "testing"):
            assert re.search(r"host|worker|both sides", path.read_text()), path


@pytest.mark.parametrize("name", SourceKeywords.__annotations__)
def test_every_option_of_a_source_is_documented(name: str):
    assert re.search(rf"^\| `{name}` \|", page("make-env"), re.MULTILINE)


def test_the_limits_of_requests_are_those_of_the_code():
    limits = section(page("hub"), "What a Hub can do")
    answer = (http.ANSWER_BYTES >> 20, http.ANSWER_SECONDS, http.SILENCE)
    listing = (hub._MAX_ENTRIES, hub._MAX_PAGES, hub._LISTING_SECONDS)
    files = (download._SECONDS, download._BYTES_PER_SECOND >> 10)
    large, trees = git._MAX_FILE_BYTES >> 20, git._MAX_OBJECT_BYTES >> 20
    for row in (
        "an answer | {} MB, {:.0f} seconds, {:.0f} seconds of silence |".format(*answer),
        "files or commits | {:,} entries, {} pages, {:.0f} seconds |".format(*listing),
        f"{http._HOPS} redirects, to https only; {http._ATTEMPTS} broken connections in a row |",
        "all files | {:.0f} seconds, and one second more for every {} KB |".format(*files),
        f"git | {git._TIMEOUT:.0f} seconds per call, {large} MB per file, {trees} MB of trees, ",
        f" MB of trees, {git._MAX_DEPTH} directories deep |",
    ):
        assert row in limits
    fetched = f"at most {BENCHMARK.max_files:,} with {BENCHMARK.max_bytes >> 20} MB together"
    assert fetched in section(page("hub"), "What is fetched, and how it is checked")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.kind)
def test_the_kinds_of_fetched_files_are_those_of_the_code(profile):
    limit = f"{profile.max_files:,} files, {profile.max_bytes >> 20:,} MB"
    row = f"| {profile.kind} | {profile.repositories} | `{profile.folder}/` | {limit} |"
    assert row in section(page("hub"), "Kinds of files")


def test_the_policy_that_knows_of_its_latency_is_shown_as_it_is():
    code = (DOCS / "examples" / "policies" / "plan_ahead.py").read_text(encoding="utf-8")
    shown = (DOCS / "latency.md").read_text(encoding="utf-8").partition("```python\n")[2]
    assert shown.partition("\n```\n")[0] in code
