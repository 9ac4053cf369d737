"""Functions of JAX → artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.compiler.driver import arguments
from pydispatch.errors import InvalidArgumentError
from pydispatch.faults import translated
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.stablehlo.frontend import FRONTEND
from pydispatch.packages import importing
from pydispatch.tuning.compile import compile as compile_tuned


def from_jax(
    function: Callable[..., Any], *args: Any, params: Any = None, kernels: Mapping[str, Any] | None = None,
    weights: str = "embed", **options: Any,
) -> Artifact:  # fmt: skip
    """Compile a function of JAX for arguments like `args`: arrays, or `jax.ShapeDtypeStruct`s, also of symbolic sizes.

    params, weights, kernels: as of `jax_source`. Further options as for `pydispatch.compile`. The artifact's function
    is `main`; its arguments are the leaves of `args`.

    Raises CompileError for what cannot be compiled, and whatever JAX raises when it traces the function.
    """
    module = jax_source(function, *args, params=params, kernels=kernels, weights=weights)
    return compile_tuned(module, kernels=kernels, **options)


def jax_source(
    function: Callable[..., Any], *args: Any, params: Any = None, kernels: Mapping[str, Any] | None = None,
    weights: str = "embed",
) -> ModuleOp:  # fmt: skip
    """Trace a function of JAX for arguments like `args`, and return its program as a source for `compile`.

    params: a tree of arrays that is the function's first argument; they become weights, named by their place in the
    tree ("dense.kernel"). weights, kernels: as for `pydispatch.compile`; a kernel has the name of an `ffi_call`.

    Raises CompileError for what cannot be compiled, and whatever JAX raises when it traces the function.
    """
    if not callable(function):
        raise InvalidArgumentError(f"function: expected a function of JAX, got {function!r}")
    with importing("from_jax", "jax"):
        import jax
        import numpy as np
    examples = args if params is None else (params, *args)
    leaves = jax.tree_util.tree_flatten_with_path(params)[0] if params is not None else []
    bound = [(_name(path), np.asarray(leaf)) for path, leaf in leaves]
    text = _text(jax, function, examples)
    read = arguments.read_options(kernels, weights)
    return module_of(text, getattr(function, "__name__", "jax"), ReadOptions(weights, read.kernels, bound))


@translated()
def module_of(text: str, name: str, options: ReadOptions) -> ModuleOp:
    """Read the program of StableHLO text. name: of the function, for messages."""
    return FRONTEND.read(ir.parse(text, name), options)


def _text(jax: Any, function: Callable[..., Any], examples: tuple[Any, ...]) -> str:
    """Return the function as StableHLO. Sizes that are symbols need an export, which checks what it calls."""
    leaves = jax.tree_util.tree_leaves(examples)
    jitted = jax.jit(function, keep_unused=True)
    if all(isinstance(n, int) for leaf in leaves for n in getattr(leaf, "shape", ())):
        return str(jitted.lower(*examples).as_text(debug_info=True))
    from jax import export

    return str(export.export(jitted)(*examples).mlir_module())


def _name(path: Any) -> str:
    """Return the keys of a path in a pytree, joined by dots."""
    return ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)
