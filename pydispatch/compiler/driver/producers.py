"""Versions of the tools that decide the bytes of an artifact."""

from __future__ import annotations

from functools import cache

from pydispatch.compiler import devlib
from pydispatch.compiler.worker import llvm_process
from pydispatch.distributions import version


def producers() -> dict[str, str]:
    """Return the versions of the tools that decide the bytes of an artifact, by tool."""
    llvm = ".".join(str(n) for n in llvm_process.version())
    return {"llvm": llvm, **_packages(), "toolchain": devlib.compiler()}


@cache
def _packages() -> dict[str, str]:
    """Return the versions of the packages that code generation depends on, by name."""
    return {name: version(name) or "unknown" for name in ("llvmlite", "xdsl")}
