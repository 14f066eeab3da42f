"""A real browser for tests: headless Chromium over its DevTools protocol. Skips where there is none."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell")
SHOTS = os.environ.get("KEVOLVE_SHOTS")  # a folder to keep screenshots in, for people to look at


def find_browser() -> str:
    """The browser's path; skips the test if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    return found


class Tab:
    """One page. Methods raise AssertionError with the browser's own words where it complains."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            answer = json.loads((await asyncio.wait_for(self._socket.receive(), 60)).data)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(answer["params"]["exceptionDetails"].get("exception", {}).get("description", ""))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    async def open(self, address: str) -> None:
        await self.call("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_for(self, expression: str, seconds: float = 30) -> Any:
        """Until the expression is true; fails with what is on the page instead."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (
            found := await self.value(f"(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()")
        ):
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"never true: {expression}\non the page: {(await self.text())[:2000]}")
            await asyncio.sleep(0.1)
        return found

    async def text(self) -> str:
        """All that can be read on the page."""
        return str(await self.value("document.body ? document.body.innerText : ''"))

    async def shot(self, name: str, width: int = 1280, height: int = 900, dark: bool = False) -> bytes:
        """A picture of the page's top, also kept where KEVOLVE_SHOTS says."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        picture = base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            (Path(SHOTS) / f"{name}.png").write_bytes(picture)
        return picture


def browse(visit: Callable[[Tab], Awaitable[Any]], *flags: str) -> Any:
    """Let `visit` use a fresh browser, and end the browser."""
    return asyncio.run(_browse(visit, find_browser(), *flags))


async def _browse(visit: Callable[[Tab], Awaitable[Any]], browser: str, *flags: str) -> Any:
    import aiohttp

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        process = subprocess.Popen(
            [browser, *fixed, "--window-size=1280,900", f"--user-data-dir={profile}", *flags, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [page for page in json.loads(await answer.text()) if page["type"] == "page"]
                async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    tab = Tab(socket)
                    await tab.call("Page.enable")
                    await tab.call("Runtime.enable")
                    return await visit(tab)
        finally:
            process.terminate()
            process.wait(20)


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        await asyncio.sleep(0.05)
    raise AssertionError(f"the browser ended with {process.returncode} before it could be asked anything")
