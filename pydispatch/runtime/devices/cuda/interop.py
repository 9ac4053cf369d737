"""CUDA memory of other libraries, and buffers of ours for them: DLPack and `__cuda_array_interface__` 3.

No thread waits: a consumer of memory makes its stream wait, on the device, for the stream that wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch._core.dlpack import make_capsule, open_capsule, read_only_text
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.accelerators.context import DeviceMemory
from pydispatch.runtime.buffer import Buffer, element_of
from pydispatch.runtime.devices.cuda.context import Context
from pydispatch.runtime.dlpack import EXTENDED, SMALL_FLOATS

CPU, CUDA, MANAGED = 1, 2, 13  # DLDeviceType
LEGACY_STREAM = 1
"""The default stream of the process, as DLPack and CUDA number it."""
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLDataTypeCode by NumPy's letter for the kind of a dtype."""
_INTERFACE_ATTRIBUTE = "__cuda_array_interface__"


class CudaBuffer(Buffer):
    """Buffer on a CUDA device. PyTorch, CuPy, JAX and Numba use its memory in place, as in
    `torch.from_dlpack(buffer)`.

    Calls return before the device is done; `numpy()` and `download` wait for it.
    """

    __slots__ = ()

    @property
    def _context(self) -> Context:
        """The open device that has the memory."""
        context: Context = self.memory.context  # type: ignore[attr-defined]
        return context

    @property
    def _address(self) -> int:
        """Address of the first element on the device; 0 for no elements."""
        return int(self.memory.block.address) if self.nbytes else 0  # type: ignore[attr-defined]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device type CUDA and the index of the device."""
        return CUDA, self._context.index

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of the buffer, which shares its memory with a consumer on this device.

        A consumer on the CPU gets a copy: `np.from_dlpack(buffer, device="cpu")`.

        Args:
            options: Keyword arguments of the protocol; a missing one is None. `dl_device`: pair (DLDeviceType, index)
                that the consumer needs the memory on, None for this device. `copy`: true for memory of its own, false
                for this memory. `stream`: CUDA stream of the consumer, whose later work waits on the device for the
                work submitted so far; -1 if the consumer orders its work by itself. `max_version`: newest DLPack
                version that the consumer reads, such as (1, 1).

        Raises:
            BufferError: The memory is requested on another device; on the CPU, and `copy` is false; or elements are
                packed: smaller than a byte.
        """
        dl_device = options.get("dl_device")
        if dl_device is not None and int(dl_device[0]) == CPU:
            return super().__dlpack__(copy=options.get("copy"), max_version=options.get("max_version"))
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError(f"the buffer is on {self.device}; copy it to DLPack device {tuple(dl_device)} yourself")
        # A consumer on this device: the capsule keeps `owner` alive, which is this buffer or a copy of it.
        context, owner = self._context, self
        context.require_usable()
        if self.element.packed:
            raise BufferError(f"DLPack has no packed elements of {self.element.bits} bits; take numpy()")
        if options.get("copy"):
            memory = DeviceMemory(context, context.acquire(self.nbytes), self.nbytes)
            context.copy(self.memory.block, memory.block, self.nbytes)  # type: ignore[attr-defined]
            owner = CudaBuffer(memory, self.shape, self.element, self.nbytes)
        stream = options.get("stream")
        if stream != -1:  # let the consumer's stream wait for the work so far; None is the legacy default stream
            context.order_before(LEGACY_STREAM if stream is None else stream_number(stream))
        code = dlpack_code(self)
        # Consumers that state no version know only the capsule of DLPack before 1.0.
        is_versioned = tuple(options.get("max_version") or (0, 0)) >= (1, 0)
        return make_capsule(
            owner, owner._address, self.shape, code, self.element.bits, CUDA, context.index, is_versioned
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Description of the memory for other libraries, version 3.

        Raise AttributeError for types without a typestr.
        """
        dtype = self.dtype
        if self.element.packed or dtype.kind not in "biufc" or self.element.numerical in SMALL_FLOATS:
            raise AttributeError(f"{_INTERFACE_ATTRIBUTE} has no type for {self.element.name}; use DLPack")
        context = self._context
        return {
            "shape": self.shape, "typestr": dtype.str, "data": (self._address, False), "strides": None, "version": 3,
            "stream": context.stream_number,
        }  # fmt: skip


def dlpack_code(buffer: Buffer) -> int:
    """Return the DLPack type code (DLDataTypeCode) of a buffer's elements.

    bfloat16 and floats of 8 bits have codes of their own (`SMALL_FLOATS`, and `EXTENDED` for types of ml_dtypes). Their
    NumPy type may be that of plain bytes, so the element type comes first.
    """
    numpy_code = _CODES.get(buffer.dtype.kind, _CODES["u"])
    return SMALL_FLOATS.get(buffer.element.numerical, EXTENDED.get(buffer.dtype.name, numpy_code))


def stream_number(stream: Any) -> int:
    """Return the handle (CUstream) of a stream as an integer. Raise InvalidArgumentError for another object.

    For example, it is 1 for the handle 1, and `s.cuda_stream` for a stream `s` of PyTorch.

    Args:
        stream: A handle, a CUstream of cuda-bindings, a stream of PyTorch, CuPy or Numba, whose handle is the attribute
            `cuda_stream`, `ptr` or `handle`, or any object with `__cuda_stream__`.
    """
    # Find the handle: an object that `int` accepts, or a ctypes pointer.
    handle_object: Any = stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__  # a method, or in some packages a property
        version_and_handle = protocol() if callable(protocol) else protocol
        handle_object = version_and_handle[1]
    else:
        for name in ("cuda_stream", "ptr", "handle"):
            if hasattr(stream, name):
                handle_object = getattr(stream, name)
                break
    # Of a ctypes pointer, as in Numba, take its address: None for a null pointer.
    handle_object = getattr(handle_object, "value", handle_object)
    if handle_object is None and stream is not None:
        handle_object = 0  # a stream object without a handle is the default stream; the argument None is no stream
    try:
        handle = int(handle_object)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"stream: expected the handle of a CUDA stream, or a stream of PyTorch, CuPy or Numba, got {stream!r}"
        ) from None
    if handle < 0:
        raise InvalidArgumentError(f"stream: expected the handle of a CUDA stream, got {handle}")
    return handle


def convert(context: Context, value: Any, is_out: bool = False) -> Any:
    """Return a buffer over device memory of another library, without a copy; return other objects unchanged.

    A CUDA tensor of PyTorch, for example, becomes a buffer at its address. Its memory is found by DLPack, or by
    `__cuda_array_interface__` if it does not implement DLPack. Tensors on the CPU and numbers are returned unchanged.

    Args:
        context: The device that must be able to access the memory.
        value: Argument of a call, any object.
        is_out: Whether the memory will be written.

    Raises:
        InvalidArgumentError: The memory is on another device, not contiguous, or read-only although `is_out` is set, or
            programs have no such element type.
    """
    dlpack_device = getattr(value, "__dlpack_device__", None)
    if dlpack_device is not None and hasattr(value, "__dlpack__"):
        kind, index = dlpack_device()
        if int(kind) not in (CUDA, MANAGED):
            return value
        if int(index) != context.index and int(kind) == CUDA:  # all devices can access managed memory
            raise InvalidArgumentError(_elsewhere(value, int(index), context))
        return _from_dlpack(context, value, is_out)
    interface = _cuda_array_interface_of(value)
    if interface is None:
        return value
    if is_out and not _is_writable(interface):
        raise InvalidArgumentError(_read_only_message(value, "a read-only array"))
    return _from_interface(context, value, interface)


def _from_dlpack(context: Context, value: Any, is_out: bool) -> Buffer:
    """Wrap the memory of a tensor that implements DLPack in a buffer, without a copy.

    Args:
        context: The device.
        value: The tensor, in memory that the device can access.
        is_out: Whether the memory will be written. A capsule without a version cannot state that the memory may be
            written. Then `__cuda_array_interface__` of the tensor decides.

    Raises:
        InvalidArgumentError: The tensor is not contiguous, or read-only although `is_out` is set, or programs have no
            such element type.
    """
    context.require_usable()
    stream = context.stream_number  # the producer makes this stream wait for the work that still writes the tensor
    with context.current:
        try:
            capsule = value.__dlpack__(stream=stream, max_version=(1, 1))
        except TypeError:
            capsule = value.__dlpack__(stream=stream)  # a producer older than the versioned protocol
    array = open_capsule(capsule)  # a NumPy array over memory of the device: the CPU must not read its elements
    if not array.flags.c_contiguous:
        raise InvalidArgumentError(_not_contiguous_message(value))
    if is_out and not array.flags.writeable and not _is_writable(_cuda_array_interface_of(value)):
        raise InvalidArgumentError(_read_only_message(value, read_only_text(array)))
    element = element_of(array.dtype)
    return _borrowed(context, int(array.__array_interface__["data"][0]), array.shape, element, array.nbytes, array)


def _cuda_array_interface_of(value: Any) -> dict[str, Any] | None:
    """Return the `__cuda_array_interface__` of a value; None without one."""
    try:
        interface = getattr(value, _INTERFACE_ATTRIBUTE, None)
    except (RuntimeError, TypeError, BufferError):  # a property that refuses this value, such as a CPU tensor
        return None
    return interface if isinstance(interface, dict) else None


def _is_writable(interface: dict[str, Any] | None) -> bool:
    """Return whether there is a `__cuda_array_interface__`, and it states that its memory may be written."""
    return interface is not None and not interface["data"][1]  # data: (address, whether it is read-only)


def _from_interface(context: Context, value: Any, interface: dict[str, Any]) -> Buffer:
    """Wrap the memory of an array that implements the CUDA array interface in a buffer, without a copy.

    Args:
        context: The device.
        value: The array, which the buffer keeps alive.
        interface: Its `__cuda_array_interface__`, for example {"shape": (2, 3), "typestr": "<f4", "data": (address,
            False), "version": 3}; the second item of "data" states whether the memory is read-only.

    Raises:
        InvalidArgumentError: The array has a mask, is not contiguous, is on another device, or programs have no such
            element type.
    """
    shape = tuple(int(size) for size in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    address = int(interface["data"][0] or 0)  # 0 for an array without elements
    if interface.get("mask") is not None:
        raise InvalidArgumentError("its mask would be lost; pass an array without one")
    if not _is_contiguous(shape, interface.get("strides"), dtype.itemsize):
        raise InvalidArgumentError(_not_contiguous_message(value))
    nbytes = math.prod(shape, start=dtype.itemsize)
    context.require_usable()
    # The interface does not name the device: query the driver. A status other than 0 means that it does not know the
    # address, so that nothing is checked.
    if nbytes:
        ordinal = context.driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with context.current:
            result = context.driver.cuPointerGetAttribute(ordinal, address)
        if not result[0] and int(result[1]) != context.index:
            raise InvalidArgumentError(_elsewhere(value, int(result[1]), context))
    stream = interface.get("stream")
    if stream is not None:  # None: the owner needs no synchronization
        context.follow(int(stream))  # later work of the device waits for the work of that stream
    return _borrowed(context, address, shape, element_of(dtype), nbytes, value)


def _borrowed(context: Context, address: int, shape: tuple[int, ...], element: Any, nbytes: int, owner: Any) -> Buffer:
    """Return a buffer over memory at an address of the device that `owner` keeps alive."""
    block = context.pool.borrow(address, nbytes, owner)
    return CudaBuffer(DeviceMemory(context, block, nbytes), shape, element, nbytes)


def _elsewhere(value: Any, index: int, context: Context) -> str:
    """Return the message for an argument on another CUDA device. index: number of that device."""
    return (
        f"an argument ({type(value).__name__}) lies on cuda:{index}, the program runs on {context.name}: copy it there "
        "first, or load the program on the other device"
    )


def _read_only_message(value: Any, what: str) -> str:
    """Return the message for an `out=` value that cannot be written. what: what it is, such as "a read-only array"."""
    name = type(value).__name__
    return f"out: expected an array that can be written, got {what} ({name}); pass a buffer of the device"


def _not_contiguous_message(value: Any) -> str:
    """Return the message for an argument that is not contiguous."""
    what = f"an argument ({type(value).__name__}) is not contiguous"
    return f"{what}; make it so first: x.contiguous() or cupy.ascontiguousarray(x)"


def _is_contiguous(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> bool:
    """Return whether an array is contiguous in row-major order. strides: in bytes; None for a contiguous array."""
    if strides is None or 0 in shape:  # the strides of an array without elements mean nothing
        return True
    contiguous_stride = itemsize
    for size, stride in zip(reversed(shape), reversed(tuple(strides)), strict=True):
        if size != 1 and int(stride) != contiguous_stride:
            return False
        contiguous_stride *= size
    return True
