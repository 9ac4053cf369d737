"""Starts programs in Python by forking a process that has imported the package.

Each process of tests has one server. The server imports the compiler and the command line, opens no device, and forks
for each program, which has its own arguments, folder, environment and streams. Importing the compiler takes longer than
most programs of tests run. Tests of startup, of imports and of variables that are read at import start `sys.executable`
instead.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEAD = 8
"""The prefix of a message: its length, little endian."""


def run(
    words: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with words as its command line has them: -c CODE, -m MODULE or FILE, and arguments.

    The status is that of the process: negative for a signal.
    """
    arguments = [str(word) for word in words]
    environment = dict(os.environ if env is None else env)
    request = {"words": arguments, "cwd": str(cwd or Path.cwd()), "environment": environment}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = int(_exchange(json.dumps(request).encode(), [out.fileno(), err.fileno()]))
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(["python", *arguments], status, *texts)


def _exchange(message: bytes, streams: list[int]) -> bytes:
    server = _server()
    socket.send_fds(server, [len(message).to_bytes(HEAD, "little")], streams)
    server.sendall(message)
    answer = server.recv(64)
    if not answer:
        raise RuntimeError("the fork server has ended")
    return answer


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    words = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    theirs.close()
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def _serve(client: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and send its status. Return the request in the forked process, None at the client's end."""
    while True:
        head, streams, *_ = socket.recv_fds(client, HEAD, 2)
        if not head:
            return None
        size, message = int.from_bytes(head, "little"), b""
        while len(message) < size:
            message += client.recv(size - len(message))
        child = os.fork()
        if child == 0:
            client.close()
            for number, stream in enumerate(streams, 1):
                os.dup2(stream, number)
                os.close(stream)
            return dict(json.loads(message))
        for stream in streams:
            os.close(stream)
        client.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(request: dict[str, Any]) -> None:
    """Run the program of a request in this process."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    kind, *rest = request["words"]
    if kind == "-c":
        code, *rest = rest
        sys.argv, sys.path[0] = ["-c", *rest], ""
        module = sys.modules["__main__"] = type(sys)("__main__")
        exec(compile(code, "<string>", "exec"), module.__dict__)
    elif kind == "-m":
        name, *rest = rest
        sys.argv, sys.path[0] = ["-m", *rest], request["cwd"]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [kind, *rest], str(Path(kind).parent)
        runpy.run_path(str(Path(kind).absolute()), run_name="__main__")


def main() -> None:
    import pydispatch.cli.__main__
    import pydispatch.compiler.driver.pipeline  # noqa: F401

    del sys.modules["pydispatch.cli.__main__"]  # runpy warns about it
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main()
