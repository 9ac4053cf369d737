"""Exit status and errors of the commands of this folder: `chat.py` and `server.py`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pydispatch as pd

PACKAGES = frozenset(("jax", "onnx", "onnxruntime", "starlette", "tokenizers", "torch", "transformers", "uvicorn"))
"""Packages that modules of this folder import under the names that `pip` has for them."""


def report(error: Exception) -> None:
    """Print an error as one line of the standard error, after the name of the running script."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None and error.name.split(".")[0] in PACKAGES:
        text += f": pip install {error.name.split('.')[0]}"
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)


def run(main: Callable[[], int]) -> None:
    """Run a command and exit with the status that it returns, or with 1 after an error of a file, a model or a device.

    `PYDISPATCH_DEBUG=1` raises the error instead of reporting it.
    """
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130  # as a shell reports a process that SIGINT ended
    except (pd.Error, ImportError, OSError, ValueError) as error:
        if os.environ.get("PYDISPATCH_DEBUG", "0") not in ("", "0"):
            raise
        report(error)
        status = 1
    sys.exit(status)
