"""The CPUs that code for this machine is compiled for without `cpu=`."""

from __future__ import annotations

import os

VARIABLE = "PYDISPATCH_CPU"
"""The environment variable with the CPUs, separated by commas, that replace the default."""


def default_cpus() -> tuple[str, ...]:
    """Return the names of the CPUs to compile for: those in PYDISPATCH_CPU if it is set, else "generic" and "native".

    "generic" is code that every machine of the architecture runs, "native" is code for this machine.
    """
    named = tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    return named or ("generic", "native")
