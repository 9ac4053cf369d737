"""Compile models and programs with your own kernels into one file, and run it on CPUs and GPUs.

artifact = pydispatch.compile("example.mlir", object_search_path=["build"])
program = pydispatch.device("cpu").load(artifact)
y = program.mixed_invocation(a, b)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pydispatch.errors import (
    ArtifactError,
    CheckError,
    CommandError,
    CompileError,
    CompileWarning,
    DeviceUnavailableError,
    Error,
    InternalError,
    InvalidArgumentError,
    KernelError,
    MissingImportError,
    OutOfMemoryError,
)
from pydispatch.runtime.device import device, devices

if TYPE_CHECKING:
    from pydispatch import generate as generate
    from pydispatch._core.future import Future
    from pydispatch.compilation import compile, from_jax, from_torch, jax_source
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.include_folders import get_cython_include, get_include
    from pydispatch.integrations.derived_programs import grad, value_and_grad
    from pydispatch.integrations.gradients import vjp
    from pydispatch.integrations.imported_functions import imported
    from pydispatch.integrations.python_kernels import kernel
    from pydispatch.integrations.python_programs import program
    from pydispatch.integrations.torch_operator import to_torch
    from pydispatch.integrations.xla import to_jax
    from pydispatch.kernels.annotations import View, partial, static
    from pydispatch.kernels.functions import (
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_exchange,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_xor,
        barrier,
        bitcast,
        cdiv,
        fma,
        global_id,
        grid_size,
        group_id,
        group_max,
        group_min,
        group_size,
        group_sum,
        local_id,
        private,
        shared,
        subgroup_ballot,
        subgroup_max,
        subgroup_min,
        subgroup_shuffle,
        subgroup_sum,
        where,
    )
    from pydispatch.kernels.functions import range as range  # no part of *, like the next ones
    from pydispatch.kernels.tiles.functions import arange, argmin, cumsum, full, load, reshape, scan, zeros
    from pydispatch.kernels.tiles.functions import max as max  # no part of *, where they would hide those of Python
    from pydispatch.kernels.tiles.functions import min as min
    from pydispatch.kernels.tiles.functions import sum as sum
    from pydispatch.options import CompileOptions
    from pydispatch.patterns import (
        CFunction,
        CustomOperation,
        WholeKernel,
        argmax,
        bf16,
        ceil,
        cos,
        erf,
        exp,
        exp2,
        f8E4M3FN,
        f8E5M2,
        f16,
        f32,
        f64,
        floor,
        i1,
        i8,
        i16,
        i32,
        i64,
        index,
        log,
        log2,
        matcher,
        maximum,
        minimum,
        pattern,
        ptx,
        reduce,
        rsqrt,
        shader,
        sin,
        sqrt,
        tanh,
        u8,
        u16,
        u32,
        u64,
    )
    from pydispatch.programs.control import cond, loop
    from pydispatch.programs.state import state
    from pydispatch.runtime.buffer import Buffer
    from pydispatch.runtime.dlpack import dlpack
    from pydispatch.runtime.program.program import Program
    from pydispatch.runtime.tracing import trace

__all__ = [
    "Artifact",
    "ArtifactError",
    "Buffer",
    "CFunction",
    "CheckError",
    "CommandError",
    "CompileError",
    "CompileOptions",
    "CompileWarning",
    "CustomOperation",
    "DeviceUnavailableError",
    "Error",
    "Future",
    "InternalError",
    "InvalidArgumentError",
    "KernelError",
    "MissingImportError",
    "OutOfMemoryError",
    "Program",
    "View",
    "WholeKernel",
    "arange",
    "argmax",
    "argmin",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "barrier",
    "bf16",
    "bitcast",
    "cdiv",
    "ceil",
    "compile",
    "cond",
    "cos",
    "cumsum",
    "device",
    "devices",
    "dlpack",
    "erf",
    "exp",
    "exp2",
    "f8E4M3FN",
    "f8E5M2",
    "f16",
    "f32",
    "f64",
    "floor",
    "fma",
    "from_jax",
    "from_torch",
    "full",
    "get_cython_include",
    "get_include",
    "global_id",
    "grad",
    "grid_size",
    "group_id",
    "group_max",
    "group_min",
    "group_size",
    "group_sum",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "imported",
    "index",
    "jax_source",
    "kernel",
    "load",
    "local_id",
    "log",
    "log2",
    "loop",
    "matcher",
    "maximum",
    "minimum",
    "partial",
    "pattern",
    "private",
    "program",
    "ptx",
    "reduce",
    "reshape",
    "rsqrt",
    "scan",
    "shader",
    "shared",
    "sin",
    "sqrt",
    "state",
    "static",
    "subgroup_ballot",
    "subgroup_max",
    "subgroup_min",
    "subgroup_shuffle",
    "subgroup_sum",
    "tanh",
    "to_jax",
    "to_torch",
    "trace",
    "u8",
    "u16",
    "u32",
    "u64",
    "value_and_grad",
    "vjp",
    "where",
    "zeros",
]  # fmt: skip

# Modules of the public names that are imported on first use: a machine that only runs artifacts needs only NumPy.
_LAZY = {
    "Artifact": "pydispatch.formats.artifact.artifact",
    "Buffer": "pydispatch.runtime.buffer",
    "CompileOptions": "pydispatch.options",
    "Future": "pydispatch._core.future",
    "Program": "pydispatch.runtime.program.program",
    "dlpack": "pydispatch.runtime.dlpack",
    "to_jax": "pydispatch.integrations.xla",
    "to_torch": "pydispatch.integrations.torch_operator",
    "trace": "pydispatch.runtime.tracing",
    **dict.fromkeys(("compile", "from_jax", "from_torch", "jax_source"), "pydispatch.compilation"),
    **dict.fromkeys(("get_cython_include", "get_include"), "pydispatch.include_folders"),
    **dict.fromkeys(
        (
            "CFunction",
            "CustomOperation",
            "WholeKernel",
            "argmax",
            "bf16",
            "ceil",
            "cos",
            "erf",
            "exp",
            "exp2",
            "f16",
            "f8E4M3FN",
            "f8E5M2",
            "f32",
            "f64",
            "floor",
            "i1",
            "i8",
            "i16",
            "i32",
            "i64",
            "index",
            "log",
            "log2",
            "matcher",
            "maximum",
            "minimum",
            "pattern",
            "ptx",
            "reduce",
            "rsqrt",
            "shader",
            "sin",
            "sqrt",
            "tanh",
            "u8",
            "u16",
            "u32",
            "u64",
        ),
        "pydispatch.patterns",
    ),
    **dict.fromkeys(
        (
            "atomic_add",
            "atomic_and",
            "atomic_cas",
            "atomic_exchange",
            "atomic_max",
            "atomic_min",
            "atomic_or",
            "atomic_xor",
            "barrier",
            "bitcast",
            "cdiv",
            "fma",
            "global_id",
            "grid_size",
            "group_id",
            "group_max",
            "group_min",
            "group_size",
            "group_sum",
            "local_id",
            "private",
            "range",
            "shared",
            "subgroup_ballot",
            "subgroup_max",
            "subgroup_min",
            "subgroup_shuffle",
            "subgroup_sum",
            "where",
        ),
        "pydispatch.kernels.functions",
    ),
    **dict.fromkeys(
        ("arange", "argmin", "cumsum", "full", "load", "max", "min", "reshape", "scan", "sum", "zeros"),
        "pydispatch.kernels.tiles.functions",
    ),
    **dict.fromkeys(("View", "partial", "static"), "pydispatch.kernels.annotations"),
    "imported": "pydispatch.integrations.imported_functions",
    "kernel": "pydispatch.integrations.python_kernels",
    "program": "pydispatch.integrations.python_programs",
    **dict.fromkeys(("cond", "loop"), "pydispatch.programs.control"),
    "state": "pydispatch.programs.state",
    **dict.fromkeys(("grad", "value_and_grad"), "pydispatch.integrations.derived_programs"),
    "vjp": "pydispatch.integrations.gradients",
}


_MODULES = ("generate",)
"""Modules that are part of the public interface, imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a public name on its first use; later uses find it among the globals."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("pydispatch")
    if name in _MODULES:
        return importlib.import_module(f"pydispatch.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'pydispatch' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES, "__version__"})
