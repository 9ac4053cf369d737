"""Kernels written in Python that are called like functions: compiled for the device of their arrays, then launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch._core.kernel_call import KernelCall
from pydispatch.errors import InvalidArgumentError, KernelError
from pydispatch.integrations.complete_views import CompleteViews
from pydispatch.kernels.called_functions import has_breakpoint
from pydispatch.kernels.kernel import Grid, KernelSource
from pydispatch.kernels.prints import SYMBOL, PrintedLine
from pydispatch.runtime.buffer import Buffer, HostMemory

if TYPE_CHECKING:
    from pydispatch.integrations.listing import Listing

CHECKS = "checks=1"
"""Option of a CPU device, as in "cpu?checks=1": kernels that are called with its buffers check accesses and races."""
Loaded = tuple[Callable[..., Any], "int | tuple[int, ...]"]
"""Function of a loaded program, and the positions of the kernel's arguments that it writes: an int for a single one."""


class Kernel(KernelCall, KernelSource):
    """Kernel that is called like a function with arrays, and changes the views that it writes in place.

    `kernel(x, y, 2.0)` runs over the kernel's own grid, `kernel[10, 4](x, y, 2.0)` over 10 x 4 workgroups. The first
    call compiles the kernel for the device of the arrays: the CPU for arrays in host memory, a device for its buffers.
    `pydispatch.compile(kernel)` returns an artifact whose function has the kernel's name and returns the written views.
    """

    def __init__(
        self, function: Callable[..., Any], workgroup: Sequence[int] | int, grid: Grid, statics: Any = None,
        checks: bool = False,
    ) -> None:  # fmt: skip
        """Store the kernel without compiling it. The arguments are those of KernelSource."""
        super().__init__(function, workgroup, grid, statics, checks)
        self.__name__, self.__doc__ = self.name, function.__doc__
        self.__wrapped__ = function
        # Indices of the arrays among the arguments of a call.
        self._views = [index for index, parameter in enumerate(self.passed) if parameter.is_view]
        # Index of the first view, whose array says the device. A kernel without views is refused when it is lowered.
        self._first_view = next(iter(self._views), 0)
        # (name of a device, whether a call passes the grid) → the compiled kernel.
        self._loaded: dict[tuple[str, bool], Loaded] = {}
        self._printers: list[Any] = []  # keep alive the callbacks that print for the kernel

    def __reduce__(self) -> tuple[Any, ...]:
        """Return (type, arguments, attributes) for `copy` and `pickle`: the function and options, no compiled code."""
        options = self.workgroup, self.grid, self.statics, self.checks
        return type(self), (self.source.function, *options), {"derivative": self.derivative}

    def specialize(self, **statics: Any) -> Kernel:
        """Return the kernel with values for static parameters. Raise InvalidArgumentError for other names."""
        return Kernel(self.source.function, self.workgroup, self.grid, {**self.statics, **statics}, self.checks)

    def code(self, target: str = "cpu", **options: Any) -> str:
        """Return the generated code for a target: assembler, PTX, WGSL or disassembled SPIR-V.

        target: "cpu", "cuda", "webgpu" or "vulkan". options: as for `pydispatch.compile`. Raises as `mlir`, and
        CompileError.
        """
        from pydispatch.integrations.generated_code import code

        return code(self, target, **options)

    def show(self, *targets: str, **options: Any) -> Listing:
        """Return each source line with the code that it became, as text in a terminal or as a table in a notebook.

        Args:
            targets: Any of "cpu" (assembler and LLVM IR for this CPU, and whether invocations are lanes of vectors),
                "cuda" (PTX), "webgpu" (WGSL) and "vulkan" (SPIR-V); "cpu" by default.
            options: As for `pydispatch.compile`.

        Raises:
            InvalidArgumentError: A target is unknown, or a static parameter has no value.
            CompileError: The function is no valid kernel, or not for a target.
        """
        from pydispatch.integrations.listing import listing

        return listing(self, targets or ("cpu",), **options)

    def _repr_html_(self) -> str:
        """Return HTML, which notebooks show for a kernel: its source and the code for each target, side by side."""
        from pydispatch.integrations.generated_code import html_of

        return html_of(self)

    def checked(self) -> Kernel:
        """Return the kernel compiled with run-time checks, for CPUs.

        Calls raise KernelError, with the line, in these cases: an index is out of bounds; two invocations access an
        element without a barrier between them, and one of them writes; or elements stay unwritten in a view that the
        kernel only writes, unless it is annotated with `pydispatch.partial`.

        A kernel that calls `breakpoint` runs under plain Python instead, as by `python`, where a debugger stops in it.
        Indices are then checked, races and unwritten elements are not.
        """
        return Kernel(self.source.function, self.workgroup, self.grid, self.statics, checks=True)

    def python(self, /, *args: Any, **named: Any) -> None:
        """Run the function itself under plain Python, so that a debugger stops in it and `print` prints.

        Invocations run one after the other, in turns between barriers. It is meant for small arrays. Operations that a
        kernel refuses, such as sums of f32 and i32, are computed as NumPy does.

        Args:
            args: Arrays of NumPy, of which those that the kernel writes are changed in place, and numbers.
            named: Further arguments by name.

        Raises:
            InvalidArgumentError: Arguments do not match the parameters.
            KernelError: An index is out of bounds, or some invocations of a workgroup do not reach a barrier that
                others wait at.
            CompileError: The grid is to be inferred, and the function is no valid kernel.
        """
        from pydispatch.kernels.emulation.launch import launch

        flat = self.flat(self.arranged(args, named) if named else args)  # tuples of views are replaced by their views
        self.check_count(flat)
        launch(self, flat)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Callable[..., None]:
        """Return a function that launches the kernel over a grid of these numbers of workgroups, for one to three axes.

        The other axes have one workgroup.
        """
        return lambda *args, **named: self._launch(grid, self.arranged(args, named) if named else args)

    def _launch(self, grid: int | tuple[int, ...], args: tuple[Any, ...]) -> None:
        """Run the kernel on a grid. grid: numbers of workgroups for one to three axes.

        Arguments of a program that is being traced record a launch in it. With arrays on a device whose kernels are
        checked, the checked kernel of the same grid is called instead.
        """
        stated = grid if isinstance(grid, tuple) else (grid,)
        counts = [*stated, 1, 1][:3]
        args = self.flat(args)  # tuples of views are replaced by their views
        is_traced = are_traced(args)  # the counts of a launch in a program may be symbolic sizes: they are not checked
        is_grid = is_traced or all(isinstance(count, (int, np.integer)) and count >= 0 for count in counts)
        if not is_grid or not 1 <= len(stated) <= 3:
            raise InvalidArgumentError(
                f"kernel '{self.name}': grid: expected one to three numbers of workgroups, got {grid!r}"
            )
        if is_traced:
            record_launch(self, args, counts)
            return
        self.check_count(args)
        if not self.checks and CHECKS in self._device(args):
            self._with_checks[grid](*args)
            return
        if self._has_breakpoints:
            self._run_until_breakpoints(args, counts)
            return
        function, written = self._function_for(args, grid_in_call=True)
        args = _with_host_arrays(args)  # the function of a CPU takes arrays only
        try:
            # A compiled function has results: `out` stores them in the views that the kernel writes.
            function(*args, *counts, out=_written(args, written))
        except (KernelError, InvalidArgumentError) as error:
            raise self.explained(error, args) from None

    def call_unbound(self, args: tuple[Any, ...]) -> None:
        """Run the kernel over its own grid on arguments of any kind.

        `KernelCall.__call__` runs the bound function, compiled for the CPU, itself if there is one and all views are
        NumPy arrays. It passes every other call to this method: those before `bind`, and for example those with buffers
        of a device or with arrays of a traced program. The first of these cases that applies decides:

        - Arrays of a program that is being traced: a launch is recorded in that program.
        - Arrays on a device whose kernels are checked ("cpu?checks=1"): the checked kernel is called instead.
        - A checked kernel with breakpoints: it runs under plain Python.
        - Others: the function for the device of the arrays is called. The first call on a device compiles it. A call
          with arrays in host memory also binds it, so that later such calls need not use this method.
        """
        args = self.flat(args)
        if are_traced(args):
            record_launch(self, args, grid=None)
            return
        self.check_count(args)
        if not self.checks and CHECKS in self._device(args):  # the name of a device, "cpu?checks=1"
            self._with_checks(*args)
            return
        if self._has_breakpoints:
            self._run_until_breakpoints(args, counts=None)
            return
        function, written = self._function_for(args, grid_in_call=False)
        args = _with_host_arrays(args)  # the function of a CPU takes arrays only
        try:
            # A compiled function has results: `out` stores them in the views that the kernel writes.
            function(*args, out=_written(args, written))
        except (KernelError, InvalidArgumentError) as error:
            raise self.explained(error, args) from None

    def explained(
        self, error: KernelError | InvalidArgumentError, args: tuple[Any, ...]
    ) -> KernelError | InvalidArgumentError:
        """Return the error of a call with `args` in the words of the kernel: the text and source line of a failed
        assertion, or the name of a view that cannot be written. Other errors are returned unchanged.

        A workgroup on a CPU returns the error code of the assertion. Other devices finish the kernel, and the program's
        InvalidArgumentError has the text of the assertion.
        """
        asserts = self.launched.asserts  # error code → text
        if isinstance(error, InvalidArgumentError):  # of a device other than a CPU
            text = next((text for text in asserts.values() if text in str(error)), None)
            return (self._unwritable(args) or error) if text is None else KernelError(f"{text}, in '{self.name}'")
        text = asserts.get(error.code or 0)
        if text is None:
            return error
        message = f"{text}, in workgroup {error.workgroup} of '{self.name}'"
        return KernelError(message, error.executable, error.export, error.workgroup, error.code)

    def _unwritable(self, args: tuple[Any, ...]) -> InvalidArgumentError | None:
        """Return the error for an array that the kernel cannot change in place; None if all can be changed."""
        for index in self.written:
            array, name = args[index], self.passed[index].name
            if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.flags.writeable):
                state = "read-only" if array.flags.c_contiguous else "not contiguous"
                after = f", and copy it back after the call: {name}[...] = c" if array.flags.writeable else ""
                return InvalidArgumentError(
                    f"kernel '{self.name}' writes '{name}', which is {state}; pass a copy, c = {name}.copy(){after}"
                )
        return None

    def _device(self, args: tuple[Any, ...]) -> str:
        """Return the name of the device of the first view among the arguments: "cpu" for an array in host memory."""
        view = args[self._first_view]
        return view.device if type(view) is Buffer else "cpu"

    @cached_property
    def _with_checks(self) -> Kernel:
        """The kernel compiled with run-time checks, created once."""
        return self.checked()

    @cached_property
    def _has_breakpoints(self) -> bool:
        """Whether calls run under plain Python to stop in a debugger: for a checked kernel that calls `breakpoint`."""
        return self.checks and has_breakpoint(self.source)

    def _run_until_breakpoints(self, args: tuple[Any, ...], counts: Sequence[int] | None) -> None:
        """Run the kernel under plain Python, where `breakpoint()` stops in a debugger.

        Raise InvalidArgumentError for arrays of a device other than a CPU. counts: numbers of workgroups along the
        three axes, None for those of the kernel itself.
        """
        from pydispatch.kernels.emulation.launch import launch

        device = self._device(args)
        if not is_cpu(device):
            raise InvalidArgumentError(
                f"kernel '{self.name}' has a breakpoint, at which it stops on CPUs only; got '{device}'. "
                f"Pass arrays of NumPy, or leave breakpoint() out"
            )
        launch(self, _with_host_arrays(args), counts)

    def _function_for(self, args: tuple[Any, ...], grid_in_call: bool) -> Loaded:
        """Return the kernel's function on the device of its arrays; the first call on a device compiles it.

        grid_in_call: whether the function takes three numbers of workgroups after the arguments.
        """
        view, device = args[self._first_view], self._device(args)
        loaded = self._loaded.get((device, grid_in_call))
        if loaded is None or is_closed(loaded[0]):
            require_open(view)
            loaded = self._loaded[device, grid_in_call] = self._load(device, grid_in_call)
        if type(view) is not Buffer and not grid_in_call:
            function, written = loaded  # `bind` lets later calls with arrays in host memory run `function` directly
            self.bind(function, written, count=len(self.passed), views=self._views)
        return loaded

    def _load(self, device: str, grid_in_call: bool) -> Loaded:
        """Compile the kernel for a device, load it, and return its function with the positions of the views that it
        writes.

        For `scale(x, y)`, which writes y, the result is (function, 1), and function(x, y, out=y) runs the kernel. For a
        kernel that writes the arguments 1 and 2, it is (function, (1, 2)), with a tuple as `out`.

        grid_in_call: whether a call has the numbers of workgroups as three more arguments. On a CPU, the function of a
        checked kernel raises KernelError if elements stay unwritten (`CompleteViews`).
        """
        import pydispatch

        # Compile.
        lowered = self.lowered(grid_in_call)
        # `complete` has the positions of the views that a checked kernel must write whole; it is empty without checks.
        # Stamps, further results of the function, say which elements were written.
        has_stamps = bool(lowered.complete) and is_cpu(device)
        text = lowered.program(self.name, with_stamps=has_stamps)
        artifact = pydispatch.compile(text, **options_of(device))
        # Load. Calls of `print` in the kernel call a function of this process, which is added to the device first.
        opened = pydispatch.device(device)
        if lowered.prints:
            opened.add_import(SYMBOL, self._printer(device, lowered.prints))
        function: Callable[..., Any] = opened.load(artifact).functions[self.name]
        if has_stamps:
            function = CompleteViews(function, lowered, self.source)
        written = lowered.written[0] if len(lowered.written) == 1 else lowered.written  # as `KernelCall.bind` takes it
        return function, written

    def _printer(self, device: str, lines: Sequence[PrintedLine]) -> Any:
        """Return the callback by which the compiled kernel prints, and keep it alive with the kernel.

        Raise InvalidArgumentError for a device other than a CPU. `lines` are the kernel's calls of `print`.
        """
        from pydispatch.integrations.printed_values import printer

        if not is_cpu(device):
            raise InvalidArgumentError(f"kernel '{self.name}' prints, which it does on CPUs only; got '{device}'")
        self._printers.append(printer(lines))
        return self._printers[-1]


def are_traced(args: tuple[Any, ...]) -> bool:
    """Return whether an argument is an array of a traced program (`programs.array.Array`), not an array with data."""
    return any(getattr(type(argument), "is_traced", False) for argument in args)


def record_launch(kernel: KernelSource, args: tuple[Any, ...], grid: Sequence[Any] | None) -> None:
    """Record a call of the kernel in the program that is being traced.

    grid: numbers of workgroups, None for the kernel's own grid.
    """
    from pydispatch.programs.launch import launch

    launch(kernel, args, grid)


def _with_host_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with buffers in host memory replaced by arrays over their memory."""
    on_host = [type(argument) is Buffer and isinstance(argument.memory, HostMemory) for argument in args]
    return tuple(argument.numpy() if is_host else argument for argument, is_host in zip(args, on_host, strict=True))


def _written(args: tuple[Any, ...], written: int | tuple[int, ...]) -> Any:
    """Return the arguments at the positions `written`, the arrays that the kernel writes: one array, or a tuple."""
    return args[written] if isinstance(written, int) else tuple(args[index] for index in written)


def is_closed(function: Callable[..., Any]) -> bool:
    """Return whether a loaded function cannot be called any more: its device was closed or lost.

    The caller then loads the function again, on a reopened device.
    """
    return not getattr(function, "is_usable", True)  # functions of CPUs can be called after `close`


def require_open(array: Any) -> None:
    """Raise DeviceUnavailableError for a buffer whose device was closed or lost; other arrays are accepted."""
    context = getattr(array.memory, "context", None) if type(array) is Buffer else None
    if context is not None:
        context.require_usable()


def options_of(device_name: str) -> dict[str, Any]:
    """Return the options of `pydispatch.compile` for a device by its name, such as "cuda:0" or "cpu?checks=1".

    For an accelerator they state its target, as in `targets="cuda"`. Every other name is a CPU, whose code may use all
    features of this CPU: `cpu="native"`.
    """
    scheme = device_name.partition(":")[0].partition("?")[0]
    targets = {"vulkan": "vulkan", "webgpu": "webgpu", "cuda": "cuda", "ptx-interpreter": "cuda"}
    return {"targets": targets[scheme]} if scheme in targets else {"cpu": "native"}


def is_cpu(device_name: str) -> bool:
    """Return whether a name is that of CPUs, such as "cpu" or "local-sync"."""
    return "targets" not in options_of(device_name)
