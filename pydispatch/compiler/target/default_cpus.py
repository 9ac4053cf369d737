"""The CPUs that code for this machine is compiled for without `cpu=`."""

from __future__ import annotations

import os

VARIABLE = "PYDISPATCH_CPU"
"""The environment variable with the CPUs, separated by commas, that replace the default."""


def default_cpus() -> tuple[str, ...]:
    """Return the CPU names: generic code, which every machine of the architecture runs, and code for this machine."""
    named = tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    return named or ("generic", "native")
