"""Compile models and programs with your own kernels into one file, and run it on CPUs and GPUs.

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
    from collections.abc import Mapping

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
    "u8",
    "u16",
    "u32",
    "u64",
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
            "atomic_max",
            "atomic_min",
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
            "shared",
            "where",
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
    """Compile a program or a model into an artifact.

    Needs the extra `compiler`.

    Args:
        source: MLIR text, the path of a `.mlir` file or of a model (`.onnx`, `.pt2`), a parsed module, a kernel or
            program in Python or a list of these, or any object that a frontend reads. Several sources for one artifact
            are a mapping: `{"prefill": source, "decode": source}`; each public function has its key as its name (of a
            source with several functions: "key_name"), and equal weights and states are stored once.
        targets: "cpu" for this machine, or "x86_64", "aarch64", "riscv64", "vulkan", "webgpu", "cuda", "sm_80" and the
            like; one or several. Default: the module's `hal.device.targets`, else this machine's CPU.
        cpu: "generic", "native", "x86-64-v3" and the like; of several, each becomes a variant. Default: "generic",
            which runs on every machine of the architecture, and "native".
        cpu_features: LLVM features, "+avx2,+fma".
        object_search_path: Folders with object files, searched after the folder of the source file. A file in both is
            an error. The working directory is searched last, with a warning.
        dump: A folder that receives every intermediate.
        transform_spec: Transform dialect specs that match and replace: one, a list, or a mapping from the phase that
            they attach to (see docs/match-and-replace.md). Each is given like `source`.
        pdl_spec: PDL specs that match and replace, in the same forms.
        patterns: Patterns in Python.
        require_match: Raise an error for a pattern that matches nothing, instead of a warning.
        explain: Print to stderr which operations each dispatch contains, and why neighbours were not fused.
        reassociate: Let sums and products of floats be computed in another order than the written one, the same in
            every run, and softmax divide once per row. If False, each operation is computed as written and unfused,
            which is slow.
        kernels: Kernels of custom operations of a model, by name:
            `{"mylib::swish": pydispatch.CFunction("swish.c", "swish")}`.
        weights: "embed" stores the arrays of a model in the artifact; "external" leaves them out, and
            `device.load(artifact, parameters={"model": file})` supplies them by name.
        inputs: Shapes that replace those of a model, by input name: `{"image": (1, 3, "h", "w")}`.
        constants: Values of model inputs that become constants instead of arguments, by input name.
        progress: A callback for compilations that take longer than two seconds, called from any thread with a
            `progress.Progress`: the phase, the dispatch that was compiled last, and an estimate of the time left.
        tune: Seconds to spend on measuring alternative kernels, in addition to compiling. 0 uses stored measurements
            only; None uses the defaults (see docs/tuning.md).
        tune_on: The CPU device to measure on, with its plugins and imports. Default: all CPUs of this machine.

    Returns:
        The artifact, with code for every target.

    Raises:
        CompileError: The program cannot be compiled; the message has the position in the source.
        InvalidArgumentError: An option has a wrong type or value.

    Example:
        >>> artifact = pd.compile("program.mlir", targets=("cpu", "vulkan"))
        >>> artifact.save("program.pdx")
    """
    from pydispatch import bytecode
    from pydispatch.garbage import rarely_collected
    from pydispatch.packages import running

    with rarely_collected(), bytecode.cached(), running("compiling", "compiler", CompileError):
        from pydispatch.tuning.compile import compile as compile_

        return compile_(source, **options)


def from_jax(function: Any, *args: Any, params: Any = None, **options: Unpack[CompileOptions]) -> Artifact:
    """Compile a function of JAX.

    Args:
        function: A function that `jax.jit` accepts.
        args: Example arguments: arrays, or `jax.ShapeDtypeStruct`, also with symbolic sizes.
        params: A tree of arrays that is passed as the first argument and stored in the artifact as weights.
        options: As for `compile`.

    Returns:
        An artifact whose function `main` takes the arguments without `params`.

    Raises:
        CompileError: JAX cannot export the function, or an operation has no implementation.
    """
    from pydispatch.packages import importing, running

    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.jax import from_jax as from_jax_
    with running("compiling", "compiler", CompileError):
        return from_jax_(function, *args, params=params, **options)


def jax_source(
    function: Any, *args: Any, params: Any = None, kernels: Mapping[str, Any] | None = None, weights: str = "embed"
) -> Any:
    """Trace a function of JAX, and return its program as a source for `compile`, alone or with others in one artifact.

    Args:
        function: A function that `jax.jit` accepts.
        args: Example arguments: arrays, or `jax.ShapeDtypeStruct`, also with symbolic sizes.
        params: A tree of arrays that is passed as the first argument and stored in the artifact as weights.
        kernels: As for `compile`.
        weights: As for `compile`.

    Returns:
        A module; its text is MLIR.

    Raises:
        CompileError: JAX cannot export the function, or an operation has no implementation.

    Example:
        >>> prefill = pd.jax_source(model.prefill, tokens, params=params)
        >>> decode = pd.jax_source(model.decode, token, cache, params=params)
        >>> artifact = pd.compile({"prefill": prefill, "decode": decode})   # one copy of the weights
    """
    from pydispatch.packages import importing, running

    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.jax import jax_source as jax_source_
    with running("compiling", "compiler", CompileError):
        return jax_source_(function, *args, params=params, kernels=kernels, weights=weights)


def from_torch(
    model: Any, args: Any = (), keywords: Any = None, *, dynamic_shapes: Any = None, **options: Unpack[CompileOptions]
) -> Artifact:
    """Compile a model or an exported program of PyTorch.

    Args:
        model: A `torch.nn.Module`, which is exported by `torch.export`, or a `torch.export.ExportedProgram`.
        args: Example positional arguments of the module.
        keywords: Example keyword arguments of the module.
        dynamic_shapes: Dynamic sizes, as `torch.export.export` takes them.
        options: As for `compile`.

    Returns:
        An artifact whose function `main` takes the inputs of the model.

    Raises:
        CompileError: PyTorch cannot export the model, or an operator has no implementation.
    """
    from pydispatch.packages import importing, running

    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.torch import from_torch as from_torch_
    with running("compiling", "compiler", CompileError):
        return from_torch_(model, args, keywords, dynamic_shapes=dynamic_shapes, **options)


def get_include() -> str:
    """Return the folder of the C headers, for `#include "pydispatch/library.h"`."""
    package = Path(__file__).resolve().parent
    for folder in (package / "include", package.parent / "csrc" / "include"):
        if (folder / "pydispatch" / "library.h").exists():
            return str(folder)
    raise Error("the C headers are not installed with this copy of pydispatch")


def get_cython_include() -> str:
    """Return the folder in which Cython finds `pydispatch._core`, for `cythonize(..., include_path=[...])`.

    That is the folder of the package; of an editable install, whose Cython sources are in another folder, a folder of
    links that is made in its `build`.

    Raises:
        Error: this copy of pydispatch has no Cython declarations.
    """
    from pydispatch.cython_sources import folder

    return folder()
