"""Compilation of JAX functions into artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.compiler.driver import arguments
from pydispatch.errors import InvalidArgumentError
from pydispatch.faults import faults_as_internal_errors
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.stablehlo.frontend import FRONTEND
from pydispatch.packages import importing
from pydispatch.tuning.compile import compile as compile_tuned


def from_jax(
    function: Callable[..., Any], *args: Any, params: Any = None, kernels: Mapping[str, Any] | None = None,
    weights: str = "embed", **options: Any,
) -> Artifact:  # fmt: skip
    """Compile a JAX function for arguments like `args` into an artifact with the function `main`.

    Args:
        function: The function, as for `jax.jit`, or one that `jax.jit` has returned.
        args: Pytrees of arrays or of `jax.ShapeDtypeStruct`s, which may have symbolic sizes; their leaves, in order,
            are the arguments of `main`.
        params: Pytree of arrays, the function's first argument, which `args` then lacks. The arrays become weights,
            named by their path ("dense.kernel"). With None all arguments are in `args`.
        kernels: Kernels of the user by the name of the `ffi_call` that each of them computes.
        weights: "embed" to store the weights in the artifact, "external" to pass them when it is loaded.
        options: Targets and other options of `pydispatch.compile`.

    Raises:
        CompileError: The function cannot be compiled. Errors of JAX's tracing are raised unchanged.
    """
    module = jax_source(function, *args, params=params, kernels=kernels, weights=weights)
    return compile_tuned(module, kernels=kernels, **options)


def jax_source(
    function: Callable[..., Any], *args: Any, params: Any = None, kernels: Mapping[str, Any] | None = None,
    weights: str = "embed",
) -> ModuleOp:  # fmt: skip
    """Trace a JAX function for arguments like `args`, and return its program as a source for `compile`.

    Args:
        function: The function, as for `jax.jit`, or one that `jax.jit` has returned.
        args: Pytrees of arrays or of `jax.ShapeDtypeStruct`s, which may have symbolic sizes.
        params: Pytree of arrays, the function's first argument, which `args` then lacks. The arrays become weights,
            named by their path ("dense.kernel"). With None all arguments are in `args`.
        kernels: Kernels of the user by the name of the `ffi_call` that each of them computes.
        weights: "embed" to store the weights in the artifact, "external" to pass them when it is loaded.

    Raises:
        CompileError: The function cannot be compiled. Errors of JAX's tracing are raised unchanged.
    """
    if not callable(function):
        raise InvalidArgumentError(f"function: expected a function of JAX, got {function!r}")
    with importing("from_jax", "jax"):
        import jax
        import numpy as np
    examples = args if params is None else (params, *args)
    leaves = jax.tree_util.tree_flatten_with_path(params)[0] if params is not None else []
    # The leaves of `params`, which are the first arguments of the traced function, by name.
    bound = [(_name(path), np.asarray(leaf)) for path, leaf in leaves]
    text = _text(jax, function, examples)
    read = arguments.read_options(kernels, weights)
    return module_of(text, getattr(function, "__name__", "jax"), ReadOptions(weights, read.kernels, bound))


@faults_as_internal_errors()
def module_of(text: str, name: str, options: ReadOptions) -> ModuleOp:
    """Return the program of StableHLO text as a module. `name` is the name of the JAX function, for messages."""
    return FRONTEND.read(ir.parse(text, name), options)


def _text(jax: Any, function: Callable[..., Any], examples: tuple[Any, ...]) -> str:
    """Return the text of a module in StableHLO: the function, traced for arguments of the shapes of `examples`.

    Functions with symbolic sizes are exported, since `lower` does not support these.
    """
    leaves = jax.tree_util.tree_leaves(examples)
    # Unused arguments stay, so that the arguments of the program are the leaves of `examples`.
    jitted = jax.jit(function, keep_unused=True, donate_argnums=_donated(jax, function, examples))
    if all(isinstance(n, int) for leaf in leaves for n in getattr(leaf, "shape", ())):
        return str(jitted.lower(*examples).as_text(debug_info=True))
    from jax import export

    return str(export.export(jitted)(*examples).mlir_module())


def _donated(jax: Any, function: Callable[..., Any], examples: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the positions in `examples` of the arguments of which the function donates every leaf.

    Arguments without leaves are left out.
    """
    if not hasattr(function, "trace"):  # a plain function: only one that jax.jit has returned donates arguments
        return ()
    arguments, _ = function.trace(*examples).args_info
    leaves = map(jax.tree_util.tree_leaves, arguments)
    return tuple(i for i, info in enumerate(leaves) if info and all(leaf.donated for leaf in info))


def _name(path: Any) -> str:
    """Return the keys, attributes and indices of a path in a pytree, joined by dots, such as "layers.0.kernel"."""
    return ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)
