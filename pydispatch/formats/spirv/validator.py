"""spirv-val, where it is installed."""

from __future__ import annotations

import shutil
import subprocess

SECONDS = 60
"""Time limit; beyond it subprocess.TimeoutExpired is raised."""


def validate(data: bytes) -> str:
    """Return the errors of spirv-val for a module; "" if there are none or spirv-val is not installed."""
    tool = shutil.which("spirv-val")
    if tool is None:
        return ""
    done = subprocess.run(
        [tool, "--target-env", "vulkan1.3", "--scalar-block-layout", "-"],
        input=data,
        capture_output=True,
        timeout=SECONDS,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).decode("utf-8", "replace").strip()
