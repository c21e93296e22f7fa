"""A headless Chromium by its DevTools protocol, over a pipe: what a page logs, loads, shows."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess

PROGRAM = shutil.which("chromium")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


@contextlib.contextmanager
def opened(folder, seconds: float = 60):
    """A page of a fresh browser, whose profile is in `folder`; it ends with the block.

    seconds: the longest wait for one message of the browser.
    """
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # Chromium reads commands from 3 and writes answers to 4.
    words = [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    shell = f'exec "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "bash", *words],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    page = Page(to_write, from_read, seconds)
    try:
        page.attach()
        yield page
        page.call("Browser.close")
        process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
        os.close(to_write)
        os.close(from_read)


class Page:
    """One tab: commands and their answers, and every event that came meanwhile."""

    def __init__(self, commands: int, answers: int, seconds: float):
        self.commands, self.answers, self.seconds = commands, answers, seconds
        self.rest, self.number, self.session, self.events = b"", 0, None, []

    def attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session and not method.startswith("Browser."):
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self) -> dict:
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], self.seconds)[0]:
                raise TimeoutError("chromium does not answer")
            self.rest += os.read(self.answers, 1 << 20)
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def look(self, width: int, height: int, theme: str):
        """Sets the size of the window and the preferred colour theme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        media = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=media)

    def go(self, address: str):
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, expression: str):
        """The value of an expression of the page's own language."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def complaints(self) -> list[str]:
        """What the console has: errors, warnings, refusals, whatever the page printed."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self.events if e.get("method") in kinds]

    def shoot(self, path, height: int | None = None):
        """A png of what is seen, or of the page from its top down to a height."""
        params = {}
        if height:
            width = self.ask("innerWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            params = {"clip": clip, "captureBeyondViewport": True}
        found = self.call("Page.captureScreenshot", format="png", **params)
        path.write_bytes(base64.b64decode(found["data"]))
