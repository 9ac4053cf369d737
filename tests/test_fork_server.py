"""Programs that the fork server runs end and print as in a process that is started for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import fork_server
import pytest

PROGRAMS = {
    "arguments": ["-c", "import sys; print(sys.argv, __name__, sys.path[0]); print('é', file=sys.stderr)", "a", "-b"],
    "status": ["-c", "import sys; print('before'); sys.exit(3)"],
    "text": ["-c", "import sys; sys.exit('a reason')"],
    "at exit": ["-c", "import atexit; atexit.register(print, 'the end'); print('first')"],
    "file": ["program.py", "1"],
    "module": ["-m", "program", "2"],
    "command": ["-m", "pydispatch.cli", "inspect", "missing.pdx"],
    "environment": ["-c", "import os, pathlib; print(os.environ['WORD'], 'HOME' in os.environ, pathlib.Path.cwd())"],
    "a process of its own": ["-c", "import subprocess; subprocess.run(['sh', '-c', 'echo x; echo y >&2'])"],
}


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nprint(sys.argv[1:], __name__, __file__)\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "WORD": "word"}
    started = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env=environment)
    forked = fork_server.run(words, tmp_path, environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_errors_and_signals() -> None:
    done = fork_server.run(["-c", "1 / 0"])
    assert done.returncode == 1 and done.stderr.endswith("ZeroDivisionError: division by zero\n")
    done = fork_server.run(["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
    assert done.returncode == -signal.SIGKILL and (done.stdout, done.stderr) == ("", "")
    assert fork_server.run(["-c", "print('still there')"]).stdout == "still there\n"


def test_programs_leave_nothing_behind() -> None:
    fork_server.run(["-c", "import os, pydispatch; os.environ['LEFT'] = 'x'; pydispatch.left = True"])
    done = fork_server.run(["-c", "import os, pydispatch; print('LEFT' in os.environ, hasattr(pydispatch, 'left'))"])
    assert done.stdout == "False False\n"
