"""The report in a real browser: every control, on a desk, on a phone, in the dark, on paper."""

import json

import pytest
from support.browser import Browser
from support.forgery import load_arrays
from support.manifests import write_run
from support.needs import axe_script, needs_axe, needs_chromium
from support.replays import REPLAYED, make_recorded

import envhub
from envhub.api import _Callbacks
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.videos import draw_videos
from envhub.results.report.page import report
from envhub.results.run import open_run
from envhub.results.videos import VideoFacts, choose_episodes, keep_facts, known_videos

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser, tmp_path):
    """Opens a page about a run written by hand, as on a desk."""

    def go(place="", change=lambda info: None, **tasks):
        tasks = tasks or {"near": "1101p0", "far": "111111"}
        path = report(write_run(tmp_path / "run", change, **tasks))
        browser.resize(1200, 900)
        browser.media(prefers_color_scheme="light")
        browser.open(path.as_uri() + place)
        return browser

    yield go
    assert browser.complaints() == []


def shown(browser):
    """The title of the dialog; None if it is closed."""
    return browser.run(
        "document.getElementById('episode').open ? document.getElementById('name').textContent : "
        "null"
    )


def visible_tasks(browser):
    rows = "[...document.querySelectorAll('.task')].filter((row) => !row.hidden)"
    return browser.run(f"{rows}.map((row) => row.dataset.name)")


def test_a_click_on_a_cell_opens_its_episode(page):
    browser = page()
    x, y = browser.run(
        "(() => { const b = document.querySelector('.strip').getBoundingClientRect(); "
        "return [b.x + 2 * 6 + 2, b.y + 7]; })()"
    )
    browser.click(x, y)
    assert shown(browser) == "near, episode 2"
    assert browser.run("location.hash") == "#near.2"
    assert "envhub replay" in browser.run("document.getElementById('draw').textContent")
    browser.click_on("#next")
    assert shown(browser) == "near, episode 3"
    browser.click_on("#before")
    browser.click_on("#before")
    assert shown(browser) == "near, episode 1"
    browser.click_on("#close")
    assert shown(browser) is None
    browser.until("location.hash === ''")


def test_by_keyboard_alone(page):
    browser = page()
    browser.run("document.querySelector('.strip').focus()")
    browser.press("Enter")
    assert shown(browser) == "near, episode 0"
    browser.press("ArrowRight")
    assert shown(browser) == "near, episode 1"
    browser.press("ArrowLeft")
    assert shown(browser) == "near, episode 0"
    browser.press("ArrowLeft")
    assert shown(browser) == "near, episode 0"
    browser.press("Escape")
    assert shown(browser) is None
    assert browser.run("document.activeElement.classList.contains('strip')")


def test_every_control_can_be_reached_with_tab(page):
    browser = page()
    seen = set()
    for _ in range(40):
        browser.press("Tab")
        seen.add(browser.run("document.activeElement.id || document.activeElement.className.baseVal"
                             " || document.activeElement.tagName"))  # fmt: skip
    assert {"copy", "find", "failing", "byrate", "strip", "A", "SUMMARY"} <= seen


def test_an_address_and_a_link_open_an_episode(page):
    browser = page("#near.4")
    assert shown(browser) == "near, episode 4"
    assert "ValueError in the policy" in browser.run("document.getElementById('error').textContent")
    browser.press("Escape")
    browser.run("document.querySelector('details').open = true")
    browser.click_on(".episodes a")
    browser.until("document.getElementById('episode').open")
    assert shown(browser).startswith("near, episode ")
    browser.press("Escape")
    for wrong in ("#near.99", "#nothing.0", "#%.0", "#"):
        browser.run(f"location.hash = {wrong!r}")
        assert shown(browser) is None


def test_filters(page):
    browser = page()
    assert visible_tasks(browser) == ["near", "far"]
    browser.click_on("#failing")
    assert visible_tasks(browser) == ["near"]
    browser.click_on("#failing")
    browser.click_on("#find")
    browser.ask("Input.insertText", text="FA")
    assert visible_tasks(browser) == ["far"]
    browser.run("document.getElementById('find').value = ''")
    browser.click_on("#byrate")
    assert visible_tasks(browser) == ["near", "far"]


def fifty(info):
    info["plan"]["episodes"] = 50


def listed(browser):
    cells = "document.querySelectorAll('#list th')"
    return browser.run(f"[...{cells}].map((cell) => cell.textContent)")


def choose(browser, box, value):
    browser.run(
        f"(() => {{ const box = document.getElementById({box!r}); box.value = {value!r}; "
        "box.dispatchEvent(new Event('input')); })()"
    )


def test_episodes_are_filtered_and_walked_through(page):
    browser = page(change=fifty, near="1101p0" + "1" * 44, far="01")
    assert listed(browser) == ["near, 2", "near, 4", "near, 5", "far, 0"]
    assert browser.run("document.getElementById('count').textContent") == "4 of 52 episodes"
    browser.click_on("#list tr:nth-child(3) a")
    assert shown(browser) == "near, episode 5"
    browser.click_on("#next")
    assert shown(browser) == "far, episode 0"
    assert browser.run("document.getElementById('next').disabled")
    browser.press("Escape")
    choose(browser, "outcome", "s")
    choose(browser, "which", "FAR")
    assert listed(browser) == ["far, 1"]
    choose(browser, "which", "")
    assert len(listed(browser)) == 20
    browser.click_on("#more")
    assert len(listed(browser)) == 48
    browser.click_on("#filmed")
    assert listed(browser) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_long_names_hide_no_number_and_no_strip(browser, tmp_path, width):
    """As LIBERO's: a name of 75 characters beside 50 episodes."""
    name = "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_it_back_then"

    def named(info):
        info["plan"]["tasks"] = {name: info["plan"]["tasks"]["near"]}
        info["plan"] |= {"suites": {"s": [name]}, "episodes": 50}

    browser.resize(width, 900)
    browser.open(report(write_run(tmp_path / "run", named, **{name: "110" * 16 + "11"})).as_uri())
    assert browser.run("document.documentElement.scrollWidth") <= width
    for part in (".task .strip", ".task td.number", ".task th"):
        box = browser.run(
            f"(() => {{ const b = document.querySelector({part!r}).getBoundingClientRect(); "
            "return [b.left, b.right, b.width]; })()"
        )
        assert 0 <= box[0] < box[1] <= width, part
        assert part != ".task .strip" or box[2] == 300
    browser.run(f"location.hash = '#{name}.2'")
    browser.until("document.querySelector('dialog').open")
    assert name in browser.run("document.querySelector('#command').textContent")
    wide = "(() => { const d = document.querySelector('dialog'); return d.scrollWidth - "
    assert browser.run(f"{wide} d.clientWidth; }})()") == 0
    assert browser.complaints() == []


def test_the_line_is_copied_or_selected(page):
    browser = page()
    browser.click_on("#copy")
    browser.until(
        "document.getElementById('copy').textContent === 'Copied' || "
        "String(getSelection()).startsWith('./env | policy zero')"
    )


def test_rewards_and_a_traceback(browser, tmp_path):
    run = envhub.evaluate(
        REPLAYED, "zero", tasks="at-end", episodes=3, workers=1, out=tmp_path / "run"
    )
    failed = next(record for record in run.records() if not record.success)
    browser.open(f"{report(run).as_uri()}#at-end.{failed.episode}")
    assert browser.run("document.querySelector('figcaption').textContent").startswith(
        "Reward of each step, from -"
    )
    drawn = browser.run("document.getElementById('line-of-rewards').getAttribute('d')")
    assert drawn.count("L") == failed.steps - 1
    numbers = load_arrays(run.directory, failed.number)[0].reshape(failed.steps, -1).shape[1]
    lines = browser.run("document.querySelectorAll('#acting > svg path').length")
    assert lines == numbers + 1, "one for each number, and that of the step"
    choose(browser, "step", "3")
    assert browser.run("document.getElementById('at').textContent").startswith(
        f"3 of {failed.steps}, reward about -"
    )
    place = 256 * 2 / (failed.steps - 1)
    moved = browser.run("document.querySelector('.cursor').getAttribute('d')")
    assert moved == f"M{place:.1f} 0V64"


def test_a_video_plays(browser, tmp_path):
    run = make_recorded(tmp_path / "run", tasks="at-end", episodes=1)
    records = choose_episodes(run, "all")
    assert draw_videos(run, records, RerunOptions("report"), _Callbacks()) == []
    (number,) = facts = known_videos(run, records)
    keep_facts(run, {number: VideoFacts(facts[number].trace, 1, 41)})
    (tmp_path / "a b").mkdir()
    for path in (report(run), report(run, tmp_path / "a b" / "page.html")):
        browser.open(f"{path.as_uri()}#at-end.0")
        video = "document.getElementById('video')"
        browser.until(f"{video}.readyState >= 1 || {video}.error")
        assert browser.run(f"{video}.error && {video}.error.message") is None
        assert browser.run(f"[{video}.videoWidth, {video}.videoHeight]") == [8, 6]
        assert browser.run(f"{video}.duration") == pytest.approx(10 / 8 + 1, abs=0.3)
        browser.run(f"{video}.muted = true, {video}.play()")
        browser.until(f"{video}.currentTime > 0.1")
        browser.run(f"{video}.pause()")
        choose(browser, "step", "9")
        browser.until(f"!{video}.seeking && document.getElementById('step').value === '9'")
        assert browser.run(f"{video}.currentTime") == pytest.approx(9.5 / 8, abs=0.13)
        choose(browser, "speed", "4")
        assert browser.run(f"{video}.playbackRate") == 4
        said = browser.run("document.getElementById('replayed').textContent")
        assert said.startswith("Replayed differently from step 41")
        browser.run("document.getElementById('video').focus()")
        browser.press("Escape")
        browser.until(f"{video}.paused")
        assert browser.complaints() == []


def test_nothing_but_the_page_itself_is_allowed(page):
    """What a hostile text would need."""
    browser = page()
    for attempt in (
        (
            "document.body.append(Object.assign(document.createElement('script'), "
            "{textContent: 'window.taken = 1'}))"
        ),
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.taken = 1\">')",
        "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"data:text/html,x\">')",
    ):
        browser.run(f"{attempt}; 1")
    assert browser.run("window.taken") is None
    browser.wait_for_complaints(3)
    browser.open("about:blank")


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page, width, scheme):
    browser = page()
    browser.resize(width, 800)
    browser.media(prefers_color_scheme=scheme)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("location.hash = '#near.4'")
    browser.until("document.getElementById('episode').open")
    box = browser.run("document.getElementById('episode').getBoundingClientRect().width")
    assert box <= width
    dark = browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    assert dark is (scheme == "dark")


def test_without_a_script(browser, tmp_path):
    path = report(write_run(tmp_path / "run", near="1101p0"))
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(path.as_uri())
        text = json.dumps(browser.ask("DOM.getDocument", depth=-1, pierce=True))
        assert "Without JavaScript" in text
        assert "policy_error: ValueError" in text
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_on_paper(page):
    browser = page()
    paper = browser.printed()
    assert paper.startswith(b"%PDF")
    assert 1 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 4


@needs_axe
@pytest.mark.parametrize(
    ("place", "scheme", "width"),
    [("", "light", 1200), ("", "dark", 1200), ("", "light", 360), ("#near.4", "light", 1200)],
)
def test_axe_finds_no_serious_violation(page, place, scheme, width):
    browser = page(place)
    browser.resize(width, 800)
    browser.media(prefers_color_scheme=scheme)
    browser.run(f"{axe_script()}; 1")
    found = browser.run("axe.run().then((all) => all.violations)")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []
    browser.open("about:blank")  # axe itself tries what the page's policy forbids


@needs_axe
def test_the_other_pages_have_no_serious_violation(browser, tmp_path):
    one, other = (write_run(tmp_path / name, near="1101p0", far="111") for name in ("a", "b"))
    browser.media(prefers_color_scheme="light")
    for path in (report(one, other=other), report(tmp_path)):
        for width in (360, 1200):
            browser.resize(width, 800)
            browser.open(path.as_uri())
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.complaints() == []
            browser.run(f"{axe_script()}; 1")
            found = browser.run("axe.run().then((all) => all.violations)")
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []


def test_a_large_run_opens(browser, tmp_path):
    names = [f"pick_up_the_object_number_{i}_and_place_it" for i in range(130)]

    def many(info):
        info["plan"]["tasks"] = dict.fromkeys(names, info["plan"]["tasks"]["near"])
        info["plan"]["suites"] = {f"s{i}": names[i * 26 : i * 26 + 26] for i in range(5)}
        info["plan"]["episodes"] = 50

    place = write_run(tmp_path / "large", many, **dict.fromkeys(names, "11011" * 10))
    assert len(open_run(place).records()) == 6500
    browser.open(report(place).as_uri())
    took = browser.run(
        "(() => { const t = performance.getEntriesByType('navigation')[0]; "
        "return t.loadEventEnd - t.startTime; })()"
    )
    print(f"6,500 episodes: {(place / 'report.html').stat().st_size:,} bytes, {took:.0f} ms")
    assert browser.run("document.querySelectorAll('.task').length") == 130
