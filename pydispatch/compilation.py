"""The public functions that compile. They load the compiler when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydispatch import bytecode
from pydispatch.errors import CompileError
from pydispatch.garbage import rarely_collected
from pydispatch.options import CompileOptions, documented
from pydispatch.packages import importing, running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from pydispatch.formats.artifact.artifact import Artifact


@documented
def compile(source: Any, **options: Unpack[CompileOptions]) -> Artifact:
    """Compile a program or a model into an artifact.

    Needs the extra `compiler`.

    Args:
        source: MLIR text, the path of a `.mlir` file or of a model (`.onnx`, `.pt2`), a parsed module, a kernel or
            program in Python or a list of these, or any object that a frontend reads. Several sources for one artifact
            are a mapping: `{"prefill": source, "decode": source}`; each public function has its key as its name (of a
            source with several functions: "key_name"), and equal weights and states are stored once.
        options: The keys of `CompileOptions`; each is documented there.

    Returns:
        The artifact, with code for every target.

    Raises:
        CompileError: The program cannot be compiled; the message has the position in the source.
        InvalidArgumentError: An option has a wrong type or value.
        TypeError: There is no such option.

    Example:
        >>> artifact = pd.compile("program.mlir", targets=("cpu", "vulkan"))
        >>> artifact.save("program.pdx")
    """
    # Collections of garbage are rare meanwhile, bytecode of generated dataclasses is cached, and an import that fails
    # raises CompileError.
    with rarely_collected(), bytecode.cached(), running("compiling", "compiler", CompileError):
        from pydispatch.tuning.compile import compile as compile_

        return compile_(source, **options)


def from_jax(function: Any, *args: Any, params: Any = None, **options: Unpack[CompileOptions]) -> Artifact:
    """Compile a function of JAX.

    Args:
        function: A function that `jax.jit` accepts. An argument that it donates (`jax.jit(f, donate_argnums=0)`) is
            updated in place on the CPU by calls with a result in its memory (`out=(cache, None)`).
        args: Example arguments: arrays, or `jax.ShapeDtypeStruct`, also with symbolic sizes.
        params: A tree of arrays that is passed as the first argument and stored in the artifact as weights.
        options: The options of `compile`, keys of `CompileOptions`.

    Returns:
        An artifact whose function `main` takes the arguments without `params`.

    Raises:
        CompileError: An operation has no implementation. Errors of JAX's tracing are raised unchanged.
    """
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
        kernels: Kernels of custom operations, by name: `{"mylib::swish": pydispatch.CFunction("swish.c", "swish")}`.
        weights: "embed" stores the arrays of `params` in the artifact; "external" leaves them out, to be supplied by
            name when the artifact is loaded.

    Returns:
        A module; its text is MLIR.

    Raises:
        CompileError: An operation has no implementation. Errors of JAX's tracing are raised unchanged.

    Example:
        >>> prefill = pd.jax_source(model.prefill, tokens, params=params)
        >>> decode = pd.jax_source(model.decode, token, cache, params=params)
        >>> artifact = pd.compile({"prefill": prefill, "decode": decode})  # shared weights
    """
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
        options: The options of `compile`, keys of `CompileOptions`.

    Returns:
        An artifact whose function `main` takes the inputs of the model.

    Raises:
        CompileError: An operator has no implementation. Errors of PyTorch's export are raised unchanged.
    """
    with importing("compiling", "compiler", CompileError):
        from pydispatch.integrations.torch import from_torch as from_torch_
    with running("compiling", "compiler", CompileError):
        return from_torch_(model, args, keywords, dynamic_shapes=dynamic_shapes, **options)
