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
    """Create a kernel for every target from a function over views and numbers (docs/python-kernels.md).

    Args:
        function: The function, or None for a decorator with options.
        workgroup: Invocations of a workgroup along one to three axes, at most 1,024 in all.
        grid: Numbers of workgroups, or a function of the kernel's parameters that returns them. By default the grid
            covers the first view that the kernel writes, axis 0 along its last dimension.
        configs: Configurations: values of static parameters and of `workgroup` by name. The first call on a device
            with a new combination of values for `key` measures which configuration is fastest.
        key: Names of parameters that are numbers, and of sizes of views.

    Raises:
        InvalidArgumentError: The function has no source, or the key is invalid.
        CompileError: A parameter has no type that kernels support; the error has the line.
    """
    if configs is not None:
        from pydispatch.integrations.tuned_kernels import TunedKernel

        return lambda decorated: TunedKernel(decorated, workgroup, grid, configs, key)
    if function is None:
        return lambda decorated: Kernel(decorated, workgroup, grid)
    return Kernel(function, workgroup, grid)
