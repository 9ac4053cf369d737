"""Kernels written in Python that are called like functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pydispatch.errors import InvalidArgumentError, KernelError
from pydispatch.integrations.complete_views import CompleteViews
from pydispatch.kernels.kernel import Grid, KernelSource
from pydispatch.runtime.buffer import Buffer, HostMemory

CHECKS = "checks=1"
"""The option of CPU devices for whose buffers kernels check their indices."""
Loaded = tuple[Callable[..., Any], "int | tuple[int, ...]"]
"""A function of a loaded program, and which of its arguments it writes."""


class Kernel(KernelSource):
    """A kernel: called with arrays, it changes the views that it writes in place.

    `kernel(x, y, 2.0)` runs over the grid that the kernel states, `kernel[10, 4](x, y, 2.0)` over 10 x 4 workgroups.
    The first call compiles for the device of the arrays: the CPU for those of NumPy and other arrays in its memory, a
    device for its buffers. `pydispatch.compile(kernel)` gives an artifact whose function has the kernel's name and
    returns the views that it writes.
    """

    def __init__(
        self, function: Callable[..., Any], workgroup: Sequence[int] | int, grid: Grid, statics: Any = None,
        checks: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(function, workgroup, grid, statics, checks)
        self.derivative: Any = None  # see `pydispatch.vjp`
        self.__name__, self.__doc__ = self.name, function.__doc__
        self.__wrapped__ = function
        self._view = next((index for index, parameter in enumerate(self.passed) if parameter.is_view), 0)
        self._count = len(self.passed)
        self._host: Loaded | None = None
        self._loaded: dict[tuple[str, bool], Loaded] = {}

    def specialize(self, **statics: Any) -> Kernel:
        """Return the kernel with these values of static parameters. InvalidArgumentError for a name that is no static
        parameter.
        """
        return Kernel(self.source.function, self.workgroup, self.grid, {**self.statics, **statics}, self.checks)

    def code(self, target: str = "cpu", **options: Any) -> str:
        """Return the code for a target, "cpu", "cuda", "webgpu" or "vulkan": assembler, PTX, WGSL, or disassembled
        SPIR-V. options: those of `pydispatch.compile`. Raises as `mlir`, and CompileError.
        """
        from pydispatch.integrations.generated_code import code

        return code(self, target, **options)

    def _repr_html_(self) -> str:
        """Return the source and the code for each target, side by side, in notebooks."""
        from pydispatch.integrations.generated_code import html_of

        return html_of(self)

    def checked(self) -> Kernel:
        """Return the kernel compiled with checks, which run on CPUs.

        Calls raise KernelError, with the line, where an index is outside of its view, and where two invocations access
        an element of which one writes it, with no barrier between them. They raise it, too, when elements are left
        unwritten of a view that the kernel writes and never reads, unless its annotation has `pydispatch.partial`.
        """
        return Kernel(self.source.function, self.workgroup, self.grid, self.statics, True)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Callable[..., None]:
        """Return a function that launches the kernel over a grid of that many workgroups."""
        counts = [*(grid if isinstance(grid, tuple) else (grid,)), 1, 1][:3]

        def launch(*args: Any) -> None:
            if are_traced(args):
                launched(self, args, counts)
                return
            if not all(isinstance(count, (int, np.integer)) and count >= 0 for count in counts):
                raise InvalidArgumentError(
                    f"kernel '{self.name}': grid: expected one to three numbers of workgroups, got {grid!r}"
                )
            self.check_count(args)
            if not self.checks and CHECKS in self._device(args):
                self._with_checks[grid](*args)
                return
            function, written = self._on(args, True)
            args = _in_process(args)
            try:
                function(*args, *counts, out=_written(args, written))
            except (KernelError, InvalidArgumentError) as error:
                raise self._explained(error) from None

        return launch

    def __call__(self, *args: Any) -> None:
        """Run the kernel on arrays and numbers; the views that it writes are changed in place.

        InvalidArgumentError for arguments that do not fit, CompileError in the first call for what is no kernel, and
        what a call of a loaded program raises.
        """
        if len(args) != self._count or type(args[self._view]) is not np.ndarray or self._host is None:
            if are_traced(args):
                launched(self, args, None)
                return
            self.check_count(args)
            if not self.checks and CHECKS in self._device(args):
                self._with_checks(*args)
                return
            function, written = self._on(args, False)
            args = _in_process(args)
        else:
            function, written = self._host
        try:
            function(*args, out=args[written] if type(written) is int else _written(args, written))
        except (KernelError, InvalidArgumentError) as error:
            raise self._explained(error) from None

    def _explained(self, error: KernelError | InvalidArgumentError) -> KernelError | InvalidArgumentError:
        """Return an error with the source line of its assertion. A workgroup on a CPU returns the code of the
        assertion; other devices run the kernel to its end, and its program names the failed assertion.
        """
        asserts = self.launched.asserts
        if isinstance(error, InvalidArgumentError):
            text = next((text for text in asserts.values() if text in str(error)), None)
            return error if text is None else KernelError(f"{text}, in '{self.name}'")
        text = asserts.get(error.code or 0)
        if text is None:
            return error
        message = f"{text}, in workgroup {error.workgroup} of '{self.name}'"
        return KernelError(message, error.executable, error.export, error.workgroup, error.code)

    def check_count(self, args: tuple[Any, ...]) -> None:
        """InvalidArgumentError unless there are as many arguments as parameters."""
        if len(args) != self._count:
            names = ", ".join(parameter.name for parameter in self.passed)
            raise InvalidArgumentError(f"kernel '{self.name}' takes {self._count} arguments ({names}), got {len(args)}")

    def _device(self, args: tuple[Any, ...]) -> str:
        view = args[self._view]
        return view.device if type(view) is Buffer else "cpu"

    @cached_property
    def _with_checks(self) -> Kernel:
        return self.checked()

    def _on(self, args: tuple[Any, ...], grid_in_call: bool) -> Loaded:
        """Return the kernel's function on the device of its arrays; the first call on a device compiles it."""
        view, device = args[self._view], self._device(args)
        loaded = self._loaded.get((device, grid_in_call))
        if loaded is None or is_closed(loaded[0]):
            require_open(view)
            loaded = self._loaded[device, grid_in_call] = self._load(device, grid_in_call)
            if type(view) is not Buffer and not grid_in_call:
                self._host = loaded
        return loaded

    def _load(self, device: str, grid_in_call: bool) -> Loaded:
        import pydispatch

        lowered = self.lowered(grid_in_call)
        has_stamps = bool(lowered.complete) and device.startswith("cpu")
        text = lowered.program(self.name, with_stamps=has_stamps)
        artifact = pydispatch.compile(text, **options_of(device))
        function: Callable[..., Any] = pydispatch.device(device).load(artifact).functions[self.name]
        if has_stamps:
            function = CompleteViews(function, lowered, self.source)
        return function, lowered.written[0] if len(lowered.written) == 1 else lowered.written


def are_traced(args: tuple[Any, ...]) -> bool:
    """Return whether the arguments include arrays of a program that is being traced."""
    return any(getattr(type(argument), "is_traced", False) for argument in args)


def launched(kernel: KernelSource, args: tuple[Any, ...], grid: Sequence[Any] | None) -> None:
    """Call a kernel in that program."""
    from pydispatch.programs.launch import launch

    launch(kernel, args, grid)


def _in_process(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Buffers of the CPU as arrays."""
    on_host = [type(argument) is Buffer and isinstance(argument.memory, HostMemory) for argument in args]
    return tuple(argument.numpy() if own else argument for argument, own in zip(args, on_host, strict=True))


def _written(args: tuple[Any, ...], written: int | tuple[int, ...]) -> Any:
    return args[written] if isinstance(written, int) else tuple(args[index] for index in written)


def is_closed(function: Callable[..., Any]) -> bool:
    """Return whether the device of a loaded function was closed or lost. The caller then loads the function on a
    reopened device.
    """
    return not getattr(function, "is_usable", True)  # functions of CPUs can be called after `close`


def require_open(array: Any) -> None:
    """DeviceUnavailableError for a buffer whose device was closed or lost."""
    context = getattr(array.memory, "context", None) if type(array) is Buffer else None
    if context is not None:
        context.require_usable()


def options_of(device_name: str) -> dict[str, Any]:
    """Options of `compile` for a device."""
    scheme = device_name.partition(":")[0].partition("?")[0]
    targets = {"vulkan": "vulkan", "webgpu": "webgpu", "cuda": "cuda", "ptx-interpreter": "cuda"}
    return {"targets": targets[scheme]} if scheme in targets else {"cpu": "native"}
