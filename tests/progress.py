"""Runs a command and prints a line now and then while it prints nothing, so that a long step is seen to be alive.

    python tests/progress.py LABEL COMMAND [ARGUMENT...]

What the command prints goes through as it comes. After 4 seconds without any, a line such as "  mypy: 12 s" follows,
after two minutes one a minute, so that the end of a log is not such lines alone. Plain lines, no control characters.
The exit code is the command's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import BinaryIO

QUIET, LONG, RARE = 4.0, 120.0, 60.0  # seconds


class Beat:
    """Passes bytes on and fills the pauses between them."""

    def __init__(self, label: str, out: BinaryIO) -> None:
        self.label, self.out = label, out
        self.start = self.last = self.spoke = time.monotonic()  # of the last byte written, of the command's last
        self.at_line_start = True
        self.lock, self.done = threading.Lock(), threading.Event()

    def write(self, data: bytes) -> None:
        with self.lock:
            self._put(data)
            self.spoke = self.last

    def fill(self) -> None:
        """Until `done` is set. For a thread of its own."""
        while not self.done.wait(0.2):
            with self.lock:
                now = time.monotonic()
                if now - self.last >= (QUIET if now - self.spoke < LONG else RARE):
                    line = f"  {self.label}: {now - self.start:.0f} s\n"
                    self._put(("" if self.at_line_start else "\n").encode() + line.encode())

    def _put(self, data: bytes) -> None:
        self.out.write(data)
        self.out.flush()
        self.at_line_start = data.endswith(b"\n")
        self.last = time.monotonic()


def run(label: str, command: list[str]) -> int:
    beat = Beat(label, sys.stdout.buffer)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    except OSError as error:
        print(f"{label}: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    assert process.stdout is not None
    filler = threading.Thread(target=beat.fill, daemon=True)
    filler.start()
    try:
        while data := os.read(process.stdout.fileno(), 65536):
            beat.write(data)
        code = process.wait()
    except KeyboardInterrupt:  # the terminal has sent it to the command too
        code = process.wait()
    finally:
        beat.done.set()
        filler.join()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(run(sys.argv[1], sys.argv[2:]))
