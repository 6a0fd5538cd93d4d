"""A real headless browser for tests of pages: Chromium, spoken to through its debugging pipe.

Nothing but the standard library and a Chromium (or Chrome) on the PATH is needed; `BROWSER` is its path or None. Messages
are those of the Chrome DevTools Protocol, one JSON text after the other with a null byte behind each.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)
_PATIENCE = 120.0  # seconds; a browser that starts on a busy machine may take some


class Page:
    """A page of the browser. `problems` are errors and warnings of its console, exceptions of its scripts and what the
    browser complains of; `requests` are the addresses that it asked for, its own file and `data:` aside."""

    def __init__(self, to: int, back: int):
        self._to, self._back, self._number, self._rest = to, back, 0, b""
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    def open(self, path: Path, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        """Open a file and wait until it is loaded."""
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)
        address = path.absolute().as_uri()
        self._own = address
        self._ask("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """The value of an expression in the page. Raises AssertionError for one that throws."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """What a mouse does: mousePressed, mouseReleased, mouseMoved or mouseWheel, at a place of the window."""
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        """Click on the middle of an element as a mouse does."""
        x, y = self.place(selector)
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        found = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        path.write_bytes(base64.b64decode(found["data"]))

    # Messages ---------------------------------------------------------------------------------------------------

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        said = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            said["sessionId"] = self._session
        os.write(self._to, json.dumps(said).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._number:
                assert "error" not in heard, f"{method}: {heard['error']['message']}"
                return heard["result"]
            self._event(heard.get("method", ""), heard.get("params", {}))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._back], [], [], _PATIENCE)[0], "the browser does not answer"
            found = os.read(self._back, 1 << 20)
            assert found, "the browser has ended"
            self._rest += found
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith("data:") and url.partition("#")[0] != getattr(self, "_own", None):
                self.requests.append(url)


@contextmanager
def browser() -> Iterator[Page]:
    """A new browser with an empty page; it ends with the block. Without BROWSER there is none."""
    assert BROWSER is not None
    (reads, ours_out), (ours_in, writes) = os.pipe(), os.pipe()
    # The browser reads from file 3 and writes to file 4: the ends of ours that it gets must have other numbers.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]
    command = f'exec "$0" "$@" 3<&{theirs[0]} 4>&{theirs[1]}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = [
            "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={home}",
        ]  # fmt: skip
        process = subprocess.Popen(
            ["/bin/bash", "-c", command, BROWSER, *options], pass_fds=theirs,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for end in (reads, writes, *theirs):
            os.close(end)
        try:
            yield Page(ours_out, ours_in)
        finally:
            os.close(ours_out)
            os.close(ours_in)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


__all__ = ["BROWSER", "Page", "browser"]
