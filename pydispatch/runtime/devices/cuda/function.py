"""Functions of a program on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydispatch.runtime.accelerators.device import AcceleratorProgram
from pydispatch.runtime.accelerators.function import AcceleratorFunction
from pydispatch.runtime.accelerators.prepared import Prepared
from pydispatch.runtime.accelerators.procedure import AcceleratorProcedure
from pydispatch.runtime.devices.cuda.interop import CudaBuffer, stream_number

if TYPE_CHECKING:
    from pydispatch._core.program import Module
    from pydispatch.runtime.accelerators.context import DeviceMemory
    from pydispatch.runtime.accelerators.execute import Executor
    from pydispatch.runtime.accelerators.plan import DevicePlan
    from pydispatch.runtime.buffer import Buffer
    from pydispatch.runtime.devices.cuda.context import Context
    from pydispatch.runtime.devices.cuda.execute import CudaExecutor


class CudaPrepared(Prepared):
    """Call of a function with fixed shapes, recorded as a CUDA graph. `function.prepare(a, b)` returns one.

    `p()` launches the graph on the arguments of `prepare`, and `p(c, d)` on other arguments of the same shapes. The
    prepared call owns its results, and the next run overwrites them, unless `prepare` was passed `out=` or `fresh=`.
    """

    def __call__(self, *args: Any, stream: Any = None, **named: Any) -> Any:
        """Run the prepared call.

        stream: CUDA stream whose present work runs before the call and whose later work runs after it; None for the
        order of the default stream.
        """
        if stream is None:
            return super().__call__(*args, **named)
        with _between(self._context, stream):
            return super().__call__(*args, **named)


class CudaFunction(AcceleratorFunction):
    """Function of a program, called as `f(*args, out=None, stream=None, **named)`.

    Buffers of the device, and tensors that PyTorch, CuPy and others have on it, are used in place. Arrays in host
    memory are copied. Results are `pydispatch.Buffer`.

    A call enqueues its work on the stream of the device and returns. A hardware error is raised by a later call, or
    when a result is read. `stream` is a stream of the caller: its handle, or an object of PyTorch, CuPy or Numba. The
    call runs after the present work on that stream, and before work that is enqueued there later. Without `stream`
    the call is in order with the default stream.
    """

    PREPARED = CudaPrepared

    def __init__(self, module: Module, index: int, executor: Executor) -> None:
        """Create function `index` of a module, and tell its name to the executor."""
        super().__init__(module, index, executor)
        cuda_executor: CudaExecutor = executor  # type: ignore[assignment]
        cuda_executor.names[index] = self.name  # the executor states it in messages

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Call the function; it returns before the device has completed its work.

        stream: CUDA stream whose present work runs before the call and whose later work runs after it; None for the
        order of the default stream.
        """
        if stream is None:
            return super().__call__(*args, out=out, **named)
        with _between(self._context, stream):
            return super().__call__(*args, out=out, **named)

    def _buffer(self, device_plan: DevicePlan, index: int, memory: DeviceMemory) -> Buffer:
        """Return the buffer of result `index`, over memory that a run has written."""
        result = device_plan.data.results[index]
        assert result is not None  # only a result that is a number has no buffer
        element_type, _rank = self._results[index]
        return CudaBuffer(memory, result.shape, element_type, result.size)

    def _is_usable_in_place(self, value: Any) -> bool:
        """Return whether kernels can access an argument where it is: on this device, in memory that they may read."""
        return self._is_on_device(value) and self._executor.can_use_in_place(value.memory.block)


class CudaProcedure(AcceleratorProcedure):
    """Function with control flow on a CUDA device; its results are buffers that CUDA libraries accept."""

    BUFFER = CudaBuffer


@contextmanager
def _between(context: Context, stream: Any) -> Iterator[None]:
    """Order the work of the `with` block after the work on a stream, and before work that is enqueued on it later.

    stream: CUDA stream of the caller: its handle, or an object of PyTorch, CuPy or Numba.
    """
    handle = stream_number(stream)
    context.follow(handle)
    try:
        yield
    finally:
        if not context.is_shut:  # a closed or lost device has no work to wait for
            context.order_before(handle)


class CudaProgram(AcceleratorProgram):
    """The public functions of an artifact on a CUDA device; see Program. They return buffers of the device."""

    FUNCTION = CudaFunction
    PROCEDURE = CudaProcedure
