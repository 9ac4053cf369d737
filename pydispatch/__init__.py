"""Compiles custom dispatch programs with your own kernels into one self-contained file and runs it.

artifact = pydispatch.compile("example.mlir", object_search_path=["build"])
program = pydispatch.device("cpu").load(artifact)
y = program.mixed_invocation(a, b)
"""

from __future__ import annotations

import importlib
from pathlib import Path
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
    from typing_extensions import Unpack

    from pydispatch._core.future import Future
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.integrations.gradients import vjp
    from pydispatch.integrations.imported_functions import imported
    from pydispatch.integrations.python_kernels import kernel
    from pydispatch.integrations.python_programs import program
    from pydispatch.integrations.torch_operator import to_torch
    from pydispatch.integrations.xla import to_jax
    from pydispatch.kernels.annotations import View, partial, static
    from pydispatch.kernels.functions import (
        atomic_add,
        atomic_max,
        atomic_min,
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
        shared,
        where,
    )
    from pydispatch.kernels.tiles.functions import arange, full, load, zeros
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
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "barrier",
    "bf16",
    "bitcast",
    "cdiv",
    "ceil",
    "compile",
    "cond",
    "cos",
    "device",
    "devices",
    "dlpack",
    "erf",
    "exp",
    "exp2",
    "f16",
    "f32",
    "f64",
    "floor",
    "fma",
    "from_jax",
    "from_torch",
    "full",
    "get_include",
    "global_id",
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
    "program",
    "ptx",
    "reduce",
    "rsqrt",
    "shader",
    "shared",
    "sin",
    "sqrt",
    "state",
    "static",
    "tanh",
    "to_jax",
    "to_torch",
    "trace",
    "vjp",
    "where",
    "zeros",
]  # fmt: skip

# Imported on first use: a machine that only runs artifacts needs only NumPy.
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
    **dict.fromkeys(
        (
            "CFunction", "CustomOperation", "WholeKernel", "argmax", "bf16", "ceil", "cos", "erf", "exp", "exp2", "f16",
            "f32", "f64", "floor", "i1", "i8", "i16", "i32", "i64", "index", "log", "log2", "matcher", "maximum",
            "minimum", "pattern", "ptx", "reduce", "rsqrt", "shader", "sin", "sqrt", "tanh",
        ),
        "pydispatch.patterns",
    ),
    **dict.fromkeys(
        (
            "atomic_add", "atomic_max", "atomic_min", "barrier", "bitcast", "cdiv", "fma", "global_id", "grid_size",
            "group_id", "group_max", "group_min", "group_size", "group_sum", "local_id", "shared", "where",
        ),
        "pydispatch.kernels.functions",
    ),
    **dict.fromkeys(("arange", "full", "load", "max", "min", "sum", "zeros"), "pydispatch.kernels.tiles.functions"),
    **dict.fromkeys(("View", "partial", "static"), "pydispatch.kernels.annotations"),
    "imported": "pydispatch.integrations.imported_functions",
    "kernel": "pydispatch.integrations.python_kernels",
    "program": "pydispatch.integrations.python_programs",
    **dict.fromkeys(("cond", "loop"), "pydispatch.programs.control"),
    "state": "pydispatch.programs.state",
    "vjp": "pydispatch.integrations.gradients",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("pydispatch")
    if name not in _LAZY:
        raise AttributeError(f"module 'pydispatch' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "__version__"})


def compile(source: Any, **options: Unpack[CompileOptions]) -> Artifact:
    """Compiles a program into an artifact. Needs the extra "compiler".

    source: MLIR text, the path of a `.mlir` file or a model, a parsed module, a kernel or program in Python or a list
    of these, or an object that a frontend reads.
    targets: "cpu" for this machine, or "x86_64", "aarch64", "riscv64", "vulkan", "cuda", or "sm_80" and the like;
    without it the module's `hal.device.targets` hold, else this machine's CPU.
    cpu: "generic", "native", "x86-64-v3", ... or several, each a variant of its own. Without cpu and cpu_features, code
        for this machine has both: "generic", which runs on every machine of the architecture, and "native".
    cpu_features: LLVM features, "+avx2,+fma".
    object_search_path: where object files are looked for, after the folder of the source file; a file there and another
    one of that path here are an error. The working directory is used last, with a warning. dump: a folder for every
    intermediate. transform_spec, pdl_spec: specs that match and replace, each like `source`, a list of these, or a
    mapping from the phase that they attach to (see docs/match-and-replace.md).
    patterns: Python patterns. require_match: one that matches nothing is an error, not a warning. explain: print to
    stderr which operations went into which dispatch and why neighbours did not.
    reassociate: sums and products of floats may be computed in another order than the written one, the same in every
    run, and a softmax divides once for a row; without it they are computed one by one and unfused, matrix products too,
    which is slow.
    kernels: of custom operations of a model, by name: {"mylib::swish": pydispatch.CFunction("swish.c", "swish")}.
    weights: "embed" keeps the arrays of a model in the artifact; "external" leaves them out, and `device.load(artifact,
    parameters={"model": file})` gives them by their names.
    inputs: shapes in place of those that a model states, by the names of its inputs: {"image": (1, 3, "h", "w")}.
    constants: elements of inputs of a model that are no arguments then, by name.
    progress: is called now and then, from any thread, once a compilation takes longer than two seconds: with a
    `progress.Progress`, which has the phase, the dispatch whose code was made last, and an estimate.
    tune: seconds that are measured at most, besides what compiling takes, to choose between ways to compute; 0 takes
    what was measured before and measures nothing; None takes the defaults (docs/tuning.md).
    tune_on: the CPU device to measure on, with its plugins and imports; None for all CPUs of this machine.

    Raises CompileError, with the place in the source, when the program cannot be compiled, and InvalidArgumentError for
    an option of another type.
    """
    from pydispatch import bytecode
    from pydispatch.garbage import rarely_collected
    from pydispatch.packages import running

    with rarely_collected(), bytecode.kept(), running("compiling", "compiler", CompileError):
        from pydispatch.tuning.compile import compile as compile_

        return compile_(source, **options)


def from_jax(function: Any, *args: Any, params: Any = None, **options: Unpack[CompileOptions]) -> Artifact:
    """Compiles a function of JAX; see `pydispatch.integrations.jax.from_jax`."""
    from pydispatch.packages import importing, running

    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.jax import from_jax as from_jax_
    with running("compiling", "compiler", CompileError):
        return from_jax_(function, *args, params=params, **options)


def from_torch(
    model: Any, args: Any = (), keywords: Any = None, *, dynamic_shapes: Any = None, **options: Unpack[CompileOptions]
) -> Artifact:
    """Compiles a model or an exported program of PyTorch; see `pydispatch.integrations.torch.from_torch`."""
    from pydispatch.packages import importing, running

    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.torch import from_torch as from_torch_
    with running("compiling", "compiler", CompileError):
        return from_torch_(model, args, keywords, dynamic_shapes=dynamic_shapes, **options)


def get_include() -> str:
    """The directory of the C headers (`#include "pydispatch/library.h"`)."""
    package = Path(__file__).resolve().parent
    for folder in (package / "include", package.parent / "csrc" / "include"):
        if (folder / "pydispatch" / "library.h").exists():
            return str(folder)
    raise Error("the C headers are not installed with this copy of pydispatch")
