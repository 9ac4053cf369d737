"""The core is there for one interpreter of a process."""

import subprocess
import sys

TWICE = """
import pydispatch
try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module
failed = module.run_string(module.create(), "import pydispatch")  # before 3.13 it raises by itself
raise SystemExit(getattr(getattr(failed, "formatted", None), "strip", str)())
"""


def test_a_subinterpreter_is_refused() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", TWICE], capture_output=True, text=True)
    assert done.returncode == 1
    assert "it cannot be imported in a subinterpreter. Share a program between threads instead" in done.stderr
