"""A real Chromium without a window, driven by its DevTools protocol over a pipe: no port, no driver, no library."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

Document = dict[str, Any]

_ARGUMENTS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # tests run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # there is no network
)


_PATIENCE_S = 60


class BrowserError(Exception):
    """The browser ended, or did not do what it was asked for."""


class Browser:
    """One page at a time; leave it with `with`.

    `said` has what the page wrote to the console, whatever the browser itself complained of (a breach of its policy, a
    file that cannot be loaded), and exceptions; `asked` the address of everything that was to be loaded.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._scripts = True
        self._rest = b""
        self._home = tempfile.mkdtemp(prefix="fleet-chromium-")
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        # The protocol is spoken on descriptors 3 and 4.
        line = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        argv = ["bash", "-c", line, "chromium", *_ARGUMENTS, f"--user-data-dir={self._home}", "about:blank"]
        self._process = subprocess.Popen(
            argv,
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._home},
        )
        os.close(to_child)
        os.close(from_child)
        (target,) = (t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **parameters: object) -> Document:
        """One command to the page; raises BrowserError when the browser refuses it."""
        return self._call(method, **parameters)

    def open(self, page: Path, fragment: str = "") -> None:
        """Show a file and wait until it is loaded; what was said of the one before is forgotten."""
        self.said.clear()
        self.asked.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=page.resolve().as_uri() + fragment)
        while self.evaluate("document.readyState + location.href.slice(0, 4)") != "completefile":
            pass
        self.settle()

    def settle(self) -> None:
        """Let the page draw what it has to."""
        if not self._scripts:
            time.sleep(0.3)  # no promise is ever kept
            return
        wait = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))"
        self.call("Runtime.evaluate", expression=wait, awaitPromise=True)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(found["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """One key, as from a keyboard: `Tab`, `Enter`."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, scheme: Literal["light", "dark"]) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def allow_scripts(self, allowed: bool) -> None:
        """Whether pages opened from now on may run scripts; `evaluate` works all the same."""
        self._scripts = allowed
        self.call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def photograph(self, file: Path, *, whole: bool = False) -> None:
        """What is seen, or the whole page, as PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(picture["data"]))

    def _call(self, method: str, **parameters: object) -> Document:
        number = next(self._numbers)
        message: Document = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != number:
                self._note(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                result: Document = answer["result"]
                return result

    def _read(self) -> Document:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], _PATIENCE_S)[0]:
                raise BrowserError(f"chromium says nothing for {_PATIENCE_S} s")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise BrowserError("chromium ended")
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        message: Document = json.loads(first)
        return message

    def _note(self, event: Document) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                words = [str(argument.get("value", argument.get("description"))) for argument in parameters["args"]]
                self.said.append(f"{parameters['type']}: {' '.join(words)}")
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.said.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            case "Log.entryAdded":
                self.said.append(f"{parameters['entry']['level']}: {parameters['entry']['text']}")
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
