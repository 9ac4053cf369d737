"""Kills a process that writes artifacts and cache entries, again and again: the next one reads only whole files.

`python tests/reliability/kill9.py --count 1000`: exit status 0 or 1, and a last line of counts.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import Program
from pydispatch.formats.storage import cache, whole_file


def write_for_ever(folder: Path, made: list[Artifact], how: str, pipe: int) -> None:
    """What the process does that is killed. how: "unnamed" or "named", see `pydispatch.formats.storage.whole_file`.
    pipe: gets a byte once each kind of file was written, however slow the machine is."""
    if how == "named":
        whole_file._write_unnamed = lambda target, parts: False
    number = 0
    while True:
        number += 1
        made[number % 3].save(folder / "a.pdx")
        body = os.urandom(200_000)
        cache.store(hashlib.sha256(body).digest() + body, "objects", str(number % 3))
        if number == 1:
            os.write(pipe, b".")


def run(count: int, folder: Path, how: str) -> tuple[int, int, int, int]:
    """(kills, whole files read, broken files, most files that were left over) of `count` kills."""
    os.environ["PYDISPATCH_CACHE_DIR"] = str(folder / "cache")
    program = Program()
    program.add_function("f", "() -> ()")
    made = [Artifact.build([("f", "() -> ()")], program.encode(), constants=[np.full(300_000, n)]) for n in range(3)]
    dice, whole, broken, left = random.Random(count), 0, 0, 0
    for kill in range(count):
        began, pipe = os.pipe()
        writer = os.fork()
        if writer == 0:
            try:
                write_for_ever(folder, made, how, pipe)
            finally:
                os._exit(1)
        os.close(pipe)
        assert os.read(began, 1) == b"."
        os.close(began)
        time.sleep(dice.random() * 0.02)
        os.kill(writer, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(writer, 0)[1]) == signal.SIGKILL
        target = folder / "a.pdx"
        if target.exists():
            try:
                Artifact.from_file(target).verify()
                whole += 1
            except Exception as error:
                print(f"kill {kill}: {error}")
                broken += 1
        for place in range(3):
            data = cache.load("objects", str(place))
            if data is not None and hashlib.sha256(data[32:]).digest() == data[:32]:
                whole += 1
            elif (folder / "cache" / "objects" / str(place)).exists():
                print(f"kill {kill}: the cache entry {place} is broken")
                broken += 1
        left = max(left, sum(name.name.startswith(".") for name in folder.rglob("*")))
    return count, whole, broken, left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        kills, whole, broken, left = run(count, Path(folder), "unnamed")
    most = 4  # one for each target
    print(f"kill9: {kills} kills, {whole} whole files read, {broken} broken, at most {left} left over")
    return int(broken > 0 or whole == 0 or left > most)


if __name__ == "__main__":
    sys.exit(main())
