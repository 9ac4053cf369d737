"""Files that users name: what is no regular file is refused with its kind, and nothing hangs or is read without end."""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pydispatch as pd
from pydispatch import files, packages
from pydispatch.errors import SystemError_


@pytest.mark.parametrize(
    ("path", "why"),
    [("/dev/zero", "a device"), ("/dev/full", "a device"), ("/tmp", "a folder"), ("/dev/missing", "No such file")],
)
def test_what_is_no_file(path: str, why: str) -> None:
    for call in (files.read, files.read_text, files.open_binary, files.open_mapped):
        with pytest.raises(SystemError_, match=f"cannot read '{path}': .*{why}"):
            call(path)
    with pytest.raises(pd.CompileError, match=f"cannot read '{path}'.*{why}"):
        pd.compile(path)
    with pytest.raises(pd.Error, match=f"'{path}'"):
        pd.device("cpu").load(path)


def test_a_file_whose_reads_fail() -> None:
    path = "/proc/self/mem"  # opens, and has nothing at address 0
    for call in (files.read, files.read_text, lambda name: files.read_head(name, 8)):
        with pytest.raises(SystemError_, match=f"cannot read '{path}': Input/output error"):
            call(path)
    with pytest.raises(pd.CompileError, match=f"cannot read '{path}': Input/output error"):
        pd.compile(path)
    with pytest.raises(pd.Error, match=f"'{path}'"):
        pd.device("cpu").load(path)


def test_sockets_and_pipes_without_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(SystemError_, match="it is a socket"):
            files.read("socket")
    with pytest.raises(SystemError_, match="nobody writes into; start the writer first"):
        files.read("pipe")
    with pytest.raises(SystemError_, match="a pipe, which cannot be mapped"):
        files.open_mapped("pipe")


def test_a_pipe_with_a_writer_is_read_whole() -> None:
    reader, writer = os.pipe()
    content = bytes(range(256)) * 2000

    def write() -> None:
        with os.fdopen(writer, "wb") as stream:
            stream.write(content)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert files.read(f"/dev/fd/{reader}") == content
    finally:
        thread.join()
        os.close(reader)


def test_the_limit_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mlir"
    path.write_text("func.func @f() { return }")
    assert files.read(path, limit=25) == path.read_bytes()
    with pytest.raises(SystemError_, match="it has 25 bytes; at most 24 bytes are read"):
        files.read(path, limit=24)
    os.truncate(path, (1 << 30) + 1)  # a hole: nothing is read of it
    with pytest.raises(pd.CompileError, match="at most 1 GiB are read"):
        pd.compile(path)
    reader, writer = os.pipe()
    os.write(writer, b"x" * 100)
    os.close(writer)
    with pytest.raises(SystemError_, match="more than 99 bytes, the most that is read"):
        files.read(f"/dev/fd/{reader}", limit=99)
    os.close(reader)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", ""])
def test_what_is_no_path(name: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="plugin: "):
        files.path_of("plugin", name, "a path")


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (ModuleNotFoundError("No module named 'llvmlite'", name="llvmlite"),
         r"^error: compiling needs the package llvmlite: pip install 'pydispatch\[compiler\]'$"),
        (ImportError("libx.so: failed to map segment from shared object", name="llvmlite.binding"),
         r"llvmlite.binding cannot be imported: libx.so: failed to map segment.*; give the process more memory"),
        (OSError("broken.so: invalid ELF header"), r"broken.so: invalid ELF header; install it again: pip install --for"),  # noqa: E501
        (MemoryError(), r"MemoryError; give the process more memory"),
        (RuntimeError("no codec"), r"no codec; install it again"),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_imported(cause: Exception, message: str) -> None:
    with (
        pytest.raises(pd.CompileError, match=message) as error,
        packages.importing("compiling", "compiler", pd.CompileError),
    ):
        raise cause
    assert error.value.__cause__ is cause


def test_what_runs_keeps_its_own_errors() -> None:
    with pytest.raises(AttributeError), packages.running("compiling", "compiler", pd.CompileError):
        raise AttributeError("a fault of ours")
    with (
        pytest.raises(pd.OutOfMemoryError, match="compiling: out of memory; give the process more"),
        packages.running("compiling", "compiler", pd.CompileError),
    ):
        raise MemoryError


def test_a_broken_compiler_package(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "xdsl").mkdir()
    (tmp_path / "xdsl" / "__init__.py").write_text("raise ImportError('its half is missing')")
    script = "import pydispatch as pd\ntry: pd.compile('x.mlir')\nexcept pd.CompileError as e: print(e)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert "its half is missing; install it again" in done.stdout


def test_a_record_begins_while_another_ends() -> None:
    """Another thread may run before any instruction of the interpreter: here, it enters a block before each of them."""

    def end_and_begin(step: int) -> list[AbstractContextManager[files.Reads]]:
        """End a block; return the block that is entered before instruction `step` of that, none after the last one."""
        steps = iter(range(1_000_000))
        entered: list[AbstractContextManager[files.Reads]] = []

        def trace(frame: FrameType, event: str, _: object) -> Any:
            frame.f_trace_opcodes = frame.f_code.co_filename == files.__file__
            if event == "opcode" and next(steps) == step:
                entered.append(files.recording())
                records.append(entered[0].__enter__())
            return trace

        ending, earlier = files.recording(), sys.gettrace()
        ending.__enter__()
        sys.settrace(trace)
        try:
            ending.__exit__(None, None, None)
        finally:
            sys.settrace(earlier)
        return entered

    records: list[files.Reads] = []
    step = 0
    while entered := end_and_begin(step):
        files.record_accesses([f"{step}.c"])
        entered[0].__exit__(None, None, None)
        step += 1
    assert step > 1
    assert [record.existing for record in records] == [{f"{step}.c"} for step in range(len(records))]
