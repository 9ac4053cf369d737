"""`pydispatch.kernel`, which turns a Python function into a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from pydispatch.integrations.called_kernels import Kernel
from pydispatch.kernels.kernel import Grid

if TYPE_CHECKING:
    from pydispatch.integrations.tuned_kernels import TunedKernel


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(*, workgroup: Sequence[int] | int = (64,), grid: Grid = None) -> Callable[[Callable[..., Any]], Kernel]: ...
@overload
def kernel(
    *, workgroup: Sequence[int] | int = (64,), grid: Grid = None, configs: Sequence[Mapping[str, Any]],
    key: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], TunedKernel]: ...  # fmt: skip
def kernel(
    function: Callable[..., Any] | None = None, /, *, workgroup: Sequence[int] | int = (64,), grid: Grid = None,
    configs: Sequence[Mapping[str, Any]] | None = None, key: Sequence[str] = (),
) -> Any:  # fmt: skip
    """Create a kernel for every target from a function over views and numbers.

    workgroup: invocations of a workgroup along one to three axes, at most 1,024 in all. grid: numbers of workgroups, or
    a function of the kernel's parameters that gives them; without it the first view that the kernel writes is covered,
    axis 0 along its last dimension. configs: values of static parameters, and of `workgroup`, of which the first call
    on a device, and with other values of key, measures the fastest; key: names of sizes and of numbers among the
    parameters. docs/python-kernels.md has the language. InvalidArgumentError for a function that has no source and for
    a wrong key, CompileError, with the line, for parameters that are none of a kernel.
    """
    if configs is not None:
        from pydispatch.integrations.tuned_kernels import TunedKernel

        return lambda decorated: TunedKernel(decorated, workgroup, grid, configs, key)
    if function is None:
        return lambda decorated: Kernel(decorated, workgroup, grid)
    return Kernel(function, workgroup, grid)
