"""A real Chromium, asked over its debugging pipe: pages are opened, clicked, printed and seen."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

_SECONDS = 60.0
_FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--mute-audio", "--remote-debugging-pipe"),
    # Its own sandbox needs privileges that containers lack; the page is ours.
    *("--no-sandbox", "--disable-dev-shm-usage"),
)


class Browser:
    """One page of a browser; use it in a `with` statement."""

    def __init__(self, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()

        def arrange() -> None:
            # Chromium reads from 3 and writes to 4; by way of higher ones, which overlap with none.
            high = os.dup2(commands, 60), os.dup2(answers, 61)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [str(shutil.which("chromium")), *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            env={**os.environ, "HOME": str(profile)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=arrange,
            close_fds=False,
        )
        os.close(commands)
        os.close(answers)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in pages if each["type"] == "page")
        answer = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.setLifecycleEventsEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol, and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, address: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._go("about:blank")  # another place on the same page would not load it again
        self.events.clear()
        self._go(address)

    def _go(self, address: str) -> None:
        loader = self.ask("Page.navigate", url=address).get("loaderId")
        while loader is not None and not any(
            event.get("method") == "Page.lifecycleEvent"
            and event["params"]["name"] == "load"
            and event["params"]["loaderId"] == loader
            for event in self.events
        ):
            self.events.append(self._receive())

    def run(self, expression: str) -> Any:
        """Evaluate an expression in the page, and wait for it if it is a promise."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true."""
        end = time.monotonic() + _SECONDS
        while not (value := self.run(expression)):
            assert time.monotonic() < end, expression
            time.sleep(0.02)
        return value

    def press(self, key: str) -> None:
        """Press a key, as `Enter`, `Tab`, `Escape` or `ArrowRight`."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        facts = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **facts, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **facts)

    def click(self, x: float, y: float) -> None:
        """Click somewhere in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_on(self, selector: str) -> None:
        """Click in the middle of an element."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: "
            "'center'}); const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.click(*place)

    def resize(self, width: int, height: int) -> None:
        """Make the window as large as that of a phone, say."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def media(self, **features: str) -> None:
        """Set what the user prefers, as `prefers_color_scheme="dark"`."""
        listed = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.ask("Emulation.setEmulatedMedia", features=listed)

    def picture(self, path: Path) -> None:
        """Save what the whole page looks like."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def printed(self) -> bytes:
        """Return the page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF")["data"])

    def complaints(self) -> list[str]:
        """What the browser objects to: violations of the page's policy, and exceptions."""
        self.run("1")  # what came before has arrived then
        said = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                entry = event["params"]["entry"]
                if entry["level"] == "error":
                    said.append(entry["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                said.append(str(event["params"]["exceptionDetails"].get("text")))
        return said

    def wait_for_complaints(self, count: int) -> None:
        """Wait until there are as many as that."""
        end = time.monotonic() + _SECONDS
        while len(self.complaints()) < count:
            assert time.monotonic() < end, self.complaints()
            time.sleep(0.02)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._answers, 2**20)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer
