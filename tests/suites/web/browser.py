"""Pages in headless Chromium, on its WebGPU in software: what they report, and how they look."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
    "--hide-scrollbars",
)  # fmt: skip
WAITING = '<img src="/waits" alt="" hidden>'
"""The load event, and with it the screenshot, comes when the page has reported."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/waits":
            self.server.is_reported.wait(self.server.seconds)
            self.send_error(404)
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.server.report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.is_reported.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
        self.seconds, self.is_reported, self.report = seconds, threading.Event(), None


def show(folder: Path, page: str, picture: Path, size: tuple[int, int] = (800, 600), seconds: float = 120) -> Any:
    """What a page of a folder POSTs to /report; `picture` becomes a PNG of it. Fails after `seconds`."""
    assert CHROMIUM is not None
    server = _Server(folder, seconds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    profile = picture.with_suffix(".profile")
    words = [
        CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--screenshot={picture}",
        f"--window-size={size[0]},{size[1]}", f"http://127.0.0.1:{server.server_port}/{page}",
    ]  # fmt: skip
    browser = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        said, _ = browser.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(browser.pid, signal.SIGKILL)
        said, _ = browser.communicate()
    finally:
        server.shutdown()
        server.server_close()
        shutil.rmtree(profile, ignore_errors=True)
    assert server.report is not None, f"{page} reported nothing\n{said.decode(errors='replace')}"
    return server.report
