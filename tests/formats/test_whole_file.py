# ruff: noqa: E501  (lines of scripts)
"""Files that are whole or absent, whoever writes them at once, is killed, or finds no space; and the cache on them."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.toolchain import cache as toolchain_cache
from pydispatch.formats.storage import cache, whole_file

RELIABILITY = Path(__file__).parents[1] / "reliability"
KEY = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["unnamed", "named"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files that get their name last, and the way of systems that have no such."""
    if request.param == "named":
        monkeypatch.setattr(whole_file, "_write_unnamed", lambda target, parts: False)
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replaced_as_a_whole(tmp_path: Path, how: str) -> None:
    target = tmp_path / "file"
    for content in (b"first", b"second"):
        whole_file.write(target, (content[:2], memoryview(content)[2:]))
        assert target.read_bytes() == content and names(tmp_path) == ["file"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    with pytest.raises(FileNotFoundError):
        whole_file.write(tmp_path / "missing" / "file", (b"x",))
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        whole_file.write(tmp_path / "folder", (b"x",))
    assert names(tmp_path) == ["file", "folder"]


def test_what_a_killed_process_left_is_taken_away(tmp_path: Path, how: str) -> None:
    target = tmp_path / "file"
    left = {"unnamed": ".file.whole", "named": ".file.0123.tmp"}[how]
    for age in (-7200, 7200):  # clocks may have gone back
        (tmp_path / left).write_bytes(b"of somebody who was killed")
        os.utime(tmp_path / left, (time.time() - age,) * 2)
        whole_file.write(target, (b"mine",))
        assert target.read_bytes() == b"mine" and names(tmp_path) == ["file"]


def test_this_system_has_files_without_a_name(tmp_path: Path) -> None:
    """Else what is killed leaves one file each time."""
    assert whole_file._write_unnamed(tmp_path / "file", (b"x",)) and names(tmp_path) == ["file"]


@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_kill_9(tmp_path: Path, how: str) -> None:
    """tests/reliability/kill9.py --count 1000 is the long form."""
    command = [
        sys.executable,
        "-c",
        f"import kill9, pathlib; print(kill9.run(20, pathlib.Path({str(tmp_path)!r}), {how!r}))",
    ]
    done = subprocess.run(command, cwd=RELIABILITY, capture_output=True, text=True, check=True)
    kills, whole, broken, left = eval(done.stdout.splitlines()[-1])
    assert (kills, broken) == (20, 0) and whole > 20, done.stdout
    assert left <= (4 if how == "unnamed" else 20)


def test_eight_processes_at_once(tmp_path: Path, how: str) -> None:
    """Each writes and reads the same artifact and entries: nobody fails, everybody sees whole ones."""
    os.environ["PYDISPATCH_CACHE_DIR"] = str(tmp_path / "cache")
    target, children = tmp_path / "file", []
    for number in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for turn in range(30):
                    whole_file.write(target, [bytes([number]) * 50_000])
                    seen = target.read_bytes()
                    assert len(seen) == 50_000 and len(set(seen)) == 1
                    toolchain_cache.store(KEY, bytes([turn]) * 50_000)
                    found = toolchain_cache.load(KEY)
                    assert found is not None and len(found) == 50_000 and len(set(found)) == 1
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert names(tmp_path) == ["cache", "file"]


def test_another_process_renames_the_file_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.replace

    def renamed_twice(path: Path, target: Path) -> Path:
        monkeypatch.undo()
        rename(path, target)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", renamed_twice)
    assert whole_file._write_unnamed(tmp_path / "file", (b"x",))
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"x"


# The cache


def damage(folder: Path) -> dict[str, Callable[[Path, bytes], Any]]:
    def is_folder(path: Path, good: bytes) -> None:
        path.unlink()
        (path / "inside").mkdir(parents=True)

    def is_loop(path: Path, good: bytes) -> None:
        path.unlink()
        path.symlink_to(path)

    def is_pipe(path: Path, good: bytes) -> None:
        path.unlink()
        os.mkfifo(path)

    def is_above_a_file(path: Path, good: bytes) -> None:
        path.unlink()
        path.parent.rmdir()
        path.parent.write_bytes(b"")

    def is_deep(path: Path, good: bytes) -> None:
        cache.store(b"[" * 100_000 + b"\n", "objects", KEY[:2], KEY[2:])

    def lists_a_pipe(path: Path, good: bytes) -> None:
        os.mkfifo(folder.parent / "pipe")
        cache.store(json.dumps({str(folder.parent / "pipe"): "x"}).encode() + b"\n", "objects", KEY[:2], KEY[2:])

    return {
        "empty": lambda path, good: path.write_bytes(b""), "folder": is_folder, "loop": is_loop, "pipe": is_pipe,
        "above a file": is_above_a_file, "deep": is_deep, "lists a pipe": lists_a_pipe,
        "sparse": lambda path, good: os.truncate(path, 1 << 40),
        "unreadable": lambda path, good: path.chmod(0),
    }  # fmt: skip


@pytest.mark.parametrize("name", damage(Path()))
def test_entries_that_are_none(folder: Path, name: str) -> None:
    toolchain_cache.store(KEY, b"good")
    assert toolchain_cache.load(KEY) == b"good"
    path = folder / "objects" / KEY[:2] / KEY[2:]
    damage(folder)[name](path, path.read_bytes())
    signal.alarm(30)  # a pipe was waited for
    try:
        found = toolchain_cache.load(KEY)
        assert found is None or (name == "unreadable" and os.getuid() == 0 and found == b"good")
        toolchain_cache.store(KEY, b"again")
    finally:
        signal.alarm(0)
    assert toolchain_cache.load(KEY) == (None if name in ("folder", "above a file") else b"again")


def test_every_byte_and_every_length(folder: Path) -> None:
    toolchain_cache.store(KEY, b"some bytes", [__file__])
    path = folder / "objects" / KEY[:2] / KEY[2:]
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x20]) + good[at + 1 :])
        assert toolchain_cache.load(KEY) is None, at
        path.write_bytes(good[:at])
        assert toolchain_cache.load(KEY) is None, at
    path.write_bytes(good)
    assert toolchain_cache.load(KEY) == b"some bytes"


def limited(code: str, **environment: str | None) -> str:
    """What a process prints."""
    changed = {**os.environ, **{k: v for k, v in environment.items() if v is not None}}
    for key in (k for k, v in environment.items() if v is None):
        changed.pop(key, None)
    done = subprocess.run([sys.executable, "-c", code], env=changed, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


STORE = "from pydispatch.formats.storage import cache; cache.store(b'x' * 100_000, 'a', 'b'); print(cache.load('a', 'b') is not None)"


@pytest.mark.parametrize("place", ["/proc/1", "/dev/full", "/dev/null/x", "/" + "x" * 5000, "~/x\nrelative"])
def test_places_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    nowhere: dict[str, str | None] = {"XDG_CACHE_HOME": place, "HOME": place, "TMPDIR": str(tmp_path)}
    code = f"import os; os.chdir({str(tmp_path)!r}); {STORE}"
    assert (
        limited(code, PYDISPATCH_CACHE_DIR=place, **nowhere) == "True\n"
    )  # in the temporary folder, or below the relative one


def test_no_home_and_no_place_at_all(tmp_path: Path) -> None:
    gone: dict[str, str | None] = dict.fromkeys(("PYDISPATCH_CACHE_DIR", "XDG_CACHE_HOME", "HOME"))
    assert limited(STORE, TMPDIR=str(tmp_path), **gone) == "True\n"
    planted = tmp_path / f"pydispatch-cache-{os.getuid()}"
    assert planted.is_dir() and stat.S_IMODE(planted.stat().st_mode) == 0o700
    planted.chmod(0o777)  # others may write there: not taken
    assert limited(STORE, TMPDIR=str(tmp_path), **gone) == "False\n"


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files fails writes as a full disk does: nothing is kept, nothing is left, nothing raises."""
    code = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    code += f"resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {STORE}"
    assert limited(code, PYDISPATCH_CACHE_DIR=str(tmp_path)) == "False\n"
    assert names(tmp_path / "a") == []


# Artifacts


def test_a_mapped_artifact_keeps_its_bytes_when_another_is_saved_over_it(tmp_path: Path, how: str) -> None:
    text = "func.func @f(%a: tensor<40000xf32>) -> tensor<40000xf32> {{\n%c = arith.constant dense<{}> : tensor<40000xf32>\n"
    text += "%r = arith.addf %a, %c : tensor<40000xf32>\nreturn %r : tensor<40000xf32> }}"
    values = np.arange(40_000, dtype=np.float32)

    def made(shift: int) -> pd.Artifact:
        return pd.compile(text.format('"0x' + (values + shift).tobytes().hex() + '"'))

    path = tmp_path / "a.pdx"
    made(0).save(path)
    assert path.stat().st_size > 100_000  # large enough to be mapped
    program = pd.device("cpu").load(path)
    zero = np.zeros_like(values)
    np.testing.assert_array_equal(program.f(zero), values)
    made(5).save(path)
    np.testing.assert_array_equal(program.f(zero), values)
    np.testing.assert_array_equal(pd.device("cpu").load(path).f(zero), values + 5)
    path.unlink()
    np.testing.assert_array_equal(program.f(zero), values)


def test_saving_to_a_full_disk_keeps_the_old_artifact(tmp_path: Path, how: str) -> None:
    text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\nreturn %a : tensor<4xf32> }"
    path = tmp_path / "a.pdx"
    artifact = pd.compile(text)
    artifact.save(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write the artifact: File too large: '.*a.pdx'"):
            artifact.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_bytes() == before and names(tmp_path) == ["a.pdx"]


def test_the_scripts_of_reliability_can_be_imported() -> None:
    for name in ("kill9", "cycles"):
        assert importlib.util.spec_from_file_location(name, RELIABILITY / f"{name}.py") is not None


def test_the_cache_has_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was used last stays."""
    monkeypatch.setenv(cache.SIZE, "1")
    for number in range(3):
        cache.store(bytes(300_000), "a", str(number))
        os.utime(folder / "a" / str(number), (number, number))
    assert cache.load("a", "0") is not None  # used now
    cache.store(bytes(300_000), "a", "3")
    assert names(folder / "a") == ["0", "2", "3"]
    cache.store(bytes(2_000_000), "a", "large")
    assert names(folder / "a") == ["large"]
    monkeypatch.setenv(cache.SIZE, "0")
    cache.store(b"x", "a", "none")
    assert cache.load("a", "large") is None and names(folder / "a") == ["large"]
    monkeypatch.setenv(cache.SIZE, "much")
    assert cache.limit() == 1 << 30
