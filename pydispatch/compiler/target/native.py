"""This machine as LLVM knows it, less what the system does not let this process use."""

from __future__ import annotations

import functools
import platform

from pydispatch._core import sched
from pydispatch.compiler.worker import llvm_process
from pydispatch.compiler.worker.library import library


@functools.cache
def host() -> tuple[str, str, frozenset[str]]:
    """Return (architecture, LLVM's name of the CPU, the features of it that this process may use, without signs)."""
    arch, name, features = llvm_process.call(_host)
    # A feature that the runtime can detect, but does not detect here, is disabled by the system.
    return arch, name, features - (set(sched.known_cpu_features()) - set(sched.cpu_features()))


def _host() -> tuple[str, str, frozenset[str]]:
    """Return the architecture of this machine, LLVM's name of its CPU, and the CPU's features."""
    llvm = library()
    arch = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    features = llvm.get_host_cpu_features()
    return arch, str(llvm.get_host_cpu_name()), frozenset(name for name, enabled in features.items() if enabled)
