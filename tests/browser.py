"""A real Chromium for tests, driven over the DevTools protocol through a pair of pipes.

    with chromium(folder) as browser:
        browser.open(url)
        browser.click("text or selector")

It needs only Python and Debian's `chromium`, which is installed if it is missing and the user may
install it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The browser reads commands from file descriptor 3 and writes replies to 4.
_WIRED = """
import fcntl, os, sys
heard, said = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(heard, 3)
os.dup2(said, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 15.0  # seconds


def find_chromium() -> str:
    """The path of chromium. Installs it if possible; otherwise skips the test."""
    names = ("chromium", "chromium-browser", "google-chrome")
    if found := next(filter(None, map(shutil.which, names)), None):
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("There is no chromium, and it cannot be installed without root and apt-get.")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for args in (["update", "-qq"], ["install", "-y", "-qq", "chromium"]):
        done = subprocess.run(["apt-get", *args], env=quiet, capture_output=True, text=True)
    if found := shutil.which("chromium"):
        return found
    pytest.skip(f"There is no chromium, and apt-get could not install it: {done.stderr[-300:]}")


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """`folder` is an empty folder for its profile."""
    program = find_chromium()
    heard_in, heard_out = os.pipe()  # the browser reads 3 and writes 4
    said_in, said_out = os.pipe()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _WIRED, str(heard_in), str(said_out)),
            *(program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"),
        ],
        pass_fds=(heard_in, said_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(folder)},
    )
    os.close(heard_in)
    os.close(said_out)
    browser = Browser(heard_out, said_in)
    try:
        browser.attach()
        yield browser
    finally:
        with contextlib.suppress(OSError, AssertionError):
            browser.call("Browser.close", page=False)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(heard_out)


class Browser:
    """One page. `requested` are its requests, `complaints` its errors and exceptions."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._number = 0
        self._replies: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._page = ""
        self._ended = False
        self.requested: list[str] = []
        self.complaints: list[str] = []
        threading.Thread(target=self._listen, args=(back,), daemon=True).start()

    # ------------------------------------------------------------ the protocol

    def _listen(self, back: int) -> None:
        with os.fdopen(back, "rb") as stream:
            held = b""
            while piece := stream.read1(1 << 16):  # type: ignore[attr-defined]
                *messages, held = (held + piece).split(b"\0")
                for message in messages:
                    self._hear(json.loads(message))
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    def _hear(self, message: dict[str, Any]) -> None:
        with self._arrived:
            if "id" in message:
                self._replies[message["id"]] = message
                self._arrived.notify_all()
                return
        told = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(told["request"]["url"])
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                what = details.get("exception", {}).get("description", details["text"])
                self.complaints.append(what)
            case "Log.entryAdded" if told["entry"]["source"] != "network":
                self.complaints.append(told["entry"]["text"])
            case "Runtime.consoleAPICalled" if told["type"] == "error":
                self.complaints.append(json.dumps(told["args"]))

    def call(self, method: str, *, page: bool = True, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if page:
            message["sessionId"] = self._page
        os.write(self._to, json.dumps(message).encode() + b"\0")
        with self._arrived:
            arrived = self._arrived.wait_for(
                lambda: number in self._replies or self._ended, _PATIENCE
            )
            assert arrived, f"{method} got no reply"
            assert number in self._replies, f"the browser ended before it replied to {method}"
            reply = self._replies.pop(number)
        assert "error" not in reply, f"{method}: {reply.get('error')}"
        result: dict[str, Any] = reply["result"]
        return result

    def attach(self) -> None:
        targets = self.call("Target.getTargets", page=False)["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = self.call("Target.attachToTarget", page=False, targetId=target, flatten=True)
        self._page = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    # ------------------------------------------------------------ what a person does

    def open(self, url: str) -> None:
        """As in a new tab, without the state of an earlier page."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.protocol.startsWith('http')")

    def click(self, selector: str) -> None:
        """Clicks the middle of the first visible element that matches."""
        found = f"""[...document.querySelectorAll({json.dumps(selector)})]
            .find(each => each.checkVisibility())"""
        self.until(f"Boolean({found})")
        self.js(f"{found}.scrollIntoView({{block: 'center'}})")
        x, y = self.js(f"""(() => {{
            const box = {found}.getClientRects()[0];
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        where = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)

    def write(self, selector: str, text: str) -> None:
        self.until(f"Boolean(document.querySelector({json.dumps(selector)}))")
        self.js(f"""(() => {{
            const field = document.querySelector({json.dumps(selector)});
            field.focus();
            field.select?.();
        }})()""")
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "", shift: bool = False) -> None:
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        named["modifiers"] = 8 if shift else 0
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def view(self, width: int, height: int, *, scheme: str = "light") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    # ------------------------------------------------------------ what a person sees

    def js(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """Waits until the expression is true and returns its value."""
        ends = time.perf_counter() + _PATIENCE
        by_value = f"(found => found instanceof Node || found)({expression})"
        while time.perf_counter() < ends:
            if found := self.js(by_value):
                return found
            time.sleep(0.02)
        shown = self.js("document.body?.innerText")
        raise AssertionError(f"never true: {expression}\n{shown}\n{self.complaints}")

    def text(self, selector: str = "body") -> str:
        found: str = self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return found

    def wait_for(self, text: str, selector: str = "body") -> None:
        place = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{place} !== null && {place}.innerText.includes({json.dumps(text)})")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def controls(self) -> list[tuple[str, str]]:
        """(role, name) of every control in the accessibility tree."""
        roles = {
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "radio",
            "DisclosureTriangle",
        }
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored") and node["role"]["value"] in roles
        ]
