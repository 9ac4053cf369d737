"""Arrays in the memory of a device."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from pydispatch._core.arrays import ElementType, pack_elements, type_of, unpack_elements
from pydispatch.errors import InvalidArgumentError, OutOfMemoryError
from pydispatch.formats.program.opcodes import Numerical, dtype_word
from pydispatch.runtime.dlpack import SMALL_FLOATS, capsule_of_array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class Memory(Protocol):
    """Bytes on a device, released when this object is destroyed."""

    size: int
    """Number of bytes."""

    @property
    def device_name(self) -> str:
        """The name of the device, for messages."""

    def view(self) -> memoryview | None:
        """Return the bytes in place, writable, or None when the CPU cannot access them."""

    def read(self, target: memoryview) -> None:
        """Fill `target` with the first bytes of this memory."""

    def write(self, source: memoryview) -> None:
        """Copy `source` to the beginning of this memory."""


class Buffer:
    """An array in device memory, returned by functions of GPUs and accepted as an argument without a copy.

    `np.asarray(buffer)` returns a view where the CPU can access the memory, else a copy. Elements of 2 or 4 bits are
    packed on the device and unpacked in arrays. Operations on a buffer wait for the calls that write it.

    Attributes:
        memory: Memory of the device that holds the elements, row by row.
        shape: Size of each dimension.
        element: Element type, as programs have it; `dtype` is the NumPy type of an element in arrays.
        nbytes: Bytes of all elements on the device, where elements of 2 and 4 bits are packed.
    """

    __slots__ = ("__weakref__", "element", "memory", "nbytes", "shape")

    def __init__(self, memory: Memory, shape: tuple[int, ...], element: ElementType, nbytes: int) -> None:
        self.memory, self.shape, self.element, self.nbytes = memory, shape, element, nbytes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.element.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def device(self) -> str:
        """The name of the device."""
        return self.memory.device_name

    @property
    def is_mapped(self) -> bool:
        """Whether the CPU can access the memory. `numpy()` then returns a view, except of packed elements."""
        return self.memory.view() is not None

    @property
    def _is_viewable(self) -> bool:
        """Whether `numpy()` returns a view of the memory: the CPU can access it, and elements are not packed."""
        return self.is_mapped and not self.element.packed

    def upload(self, array: Any) -> None:
        """Copy an array of the same shape and dtype into the buffer. Raise InvalidArgumentError for another."""
        source = source_of("upload", array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise InvalidArgumentError(
                f"upload: expected a {self.dtype} array of shape {self.shape}, got {source.dtype} {source.shape}"
            )
        data = pack_elements(self.element, source) if self.element.packed else source.reshape(-1).view(np.uint8)
        self.memory.write(memoryview(cast(Any, data)).cast("B"))

    def download(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Copy the content into `out` or a new array, and return it.

        Elements of 2 or 4 bits, which are packed in the buffer, get a byte each in the array.

        Raises:
            InvalidArgumentError: `out` is no NumPy array, or is masked, read-only, not contiguous, or of another shape
                or type.
        """
        if out is not None and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
            raise InvalidArgumentError(f"download: out: expected a NumPy array, got {type(out).__name__}")
        if out is not None and not out.flags.writeable:
            raise InvalidArgumentError("download: out: expected an array that can be written, got a read-only one")
        if out is not None and (out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous):
            raise InvalidArgumentError(
                f"download: out: expected a contiguous {self.dtype} array of shape {self.shape}, "
                f"got {out.dtype} {out.shape}"
            )
        target = np.empty(self.shape, self.dtype) if out is None else out
        if self.element.packed:  # elements of 2 or 4 bits: the array has a byte for each
            data = bytearray(self.nbytes)
            self.memory.read(memoryview(data))
            target[...] = unpack_elements(self.element, bytes(data), self.shape)
        elif self.nbytes:
            self.memory.read(memoryview(cast(Any, target.reshape(-1).view(np.uint8))))
        return target

    def numpy(self) -> NDArray[Any]:
        """Return the content as a NumPy array: a view of memory that the CPU can access, else a copy.

        Elements that are not whole bytes are always copied.
        """
        view = None if self.element.packed else self.memory.view()
        if view is None:
            return self.download()
        if self.nbytes == 0:
            return np.empty(self.shape, self.dtype)
        # The array keeps the `_ArrayInterface`, and so this buffer, alive.
        return np.asarray(_ArrayInterface(self, view)).view(self.dtype).reshape(self.shape)

    @contextmanager
    def map(self) -> Iterator[NDArray[Any]]:
        """Yield the content as a writable array; writes reach the device when the `with` block ends, or before."""
        array = self.numpy()
        yield array
        if not self._is_viewable:
            self.upload(array)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the contents as a NumPy array.

        The array is a view of the memory if the CPU can access it, `dtype` is that of the buffer, and `copy` is not
        true. Otherwise the array is a copy. Raise ValueError if `copy` is False and a copy is needed.
        """
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        if copy is False and not (self._is_viewable and wanted == self.dtype):
            raise ValueError(
                f"an array of {wanted} over {self!r} needs a copy: the CPU sees no such array in its memory; "
                "leave out copy=False"
            )
        array = self.download() if copy else self.numpy()
        return array if array.dtype == wanted else array.astype(wanted)

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of `numpy()`. options: the keyword arguments of the protocol.

        Raises:
            BufferError: `copy` is False, and `numpy()` returns a copy.
        """
        if not self._is_viewable and options.pop("copy", None) is False:  # else `numpy()` is the copy
            raise BufferError(
                f"DLPack of {self!r} for the CPU needs a copy: the CPU sees no such array in its memory; "
                "leave out copy=False"
            )
        return capsule_of_array(self.numpy(), SMALL_FLOATS.get(self.element.numerical), options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # (kDLCPU, device 0), since the capsule is of an array in CPU memory

    def __len__(self) -> int:
        """Return the size of dimension 0. Raise TypeError for a buffer without dimensions."""
        if not self.shape:
            raise TypeError("len() of a buffer without dimensions")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __repr__(self) -> str:
        """Return the shape, element type and device. Elements are left out: reading them waits for the device."""
        sizes = "".join(f"{size}x" for size in self.shape)
        return f"<pydispatch.Buffer {sizes}{self.element.name} on {self.device}>"


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Return the sizes of a shape, a number or a sequence: 3 -> (3,).

    Raise InvalidArgumentError for another value. The message names `empty`, the method with this argument.
    """
    try:
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        result = tuple(operator.index(size) for size in sizes)
    except (TypeError, ValueError):
        result = (-1,)  # an invalid size, which is refused below
    if isinstance(shape, (bool, str, bytes, Mapping)) or any(not 0 <= size < 1 << 63 for size in result):
        raise InvalidArgumentError(f"empty: shape: expected a size, or a tuple of sizes of 0 or more, got {shape!r}")
    return result


def source_of(what: str, array: Any) -> NDArray[Any]:
    """Return a C-contiguous array with the elements of an object. Raise InvalidArgumentError if it is no array of
    numbers, or masked.

    what: function of the caller, which begins the message.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgumentError(f"{what}: array: its mask would be lost; pass x.filled(value)")
    try:
        source = np.asarray(array, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{what}: array: expected an array of numbers: {error}") from None
    if source.dtype.kind in "OSUMm":  # objects, bytes, text, dates and time spans
        raise InvalidArgumentError(f"{what}: array: expected an array of numbers, got elements of {source.dtype}")
    return source


class MakesBuffers:
    """Mixin of devices: allocates buffers."""

    def upload(self, array: Any) -> Buffer:
        """Copy an array into a new buffer of the device.

        Raises:
            InvalidArgumentError: Programs have no such element type.
            OutOfMemoryError: The device has no memory left.
        """
        source = source_of("upload", array)
        buffer = self.empty(source.shape, element_of(source.dtype))
        buffer.upload(source)
        return buffer

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | ElementType = np.float32) -> Buffer:
        """Allocate a buffer without initializing it. Raise OutOfMemoryError when the device has no memory left.

        shape: size of each dimension, or the size of the only one. dtype: NumPy type or element type of a program.
        """
        sizes = sizes_of(shape)
        is_element_type = hasattr(dtype, "packed")  # an attribute that dtypes of NumPy lack
        element: Any = dtype if is_element_type else element_of(dtype, "empty: dtype: ")
        nbytes = element.nbytes(math.prod(sizes))
        return Buffer(self._allocate_memory(nbytes), sizes, element, nbytes)

    def _allocate_memory(self, nbytes: int) -> Memory:
        """Allocate `nbytes` bytes of the device."""
        raise NotImplementedError


class HostMemory:
    """Memory of the process, whose address is a multiple of 64; implements `Memory`."""

    def __init__(self, device_name: str, size: int) -> None:
        """Allocate `size` bytes uninitialized. Raise OutOfMemoryError, which names `device_name`, if that fails."""
        self.device_name, self.size = device_name, size
        try:
            allocation = np.empty(size + 64, np.uint8)  # 64 more, to begin at a multiple of 64
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than any array may have
            raise OutOfMemoryError(f"{device_name}: no memory for a buffer of {size} bytes: {error}") from None
        begin = -allocation.ctypes.data % 64
        self._bytes = allocation[begin : begin + size]

    def view(self) -> memoryview:
        """Return the bytes as a memoryview, without a copy."""
        return memoryview(cast(Any, self._bytes))

    def read(self, target: memoryview) -> None:
        """Copy the first bytes into `target`, as many as it has."""
        target[:] = self.view()[: target.nbytes]

    def write(self, source: memoryview) -> None:
        """Copy `source` to the start of the memory."""
        self.view()[: source.nbytes] = source


class _ArrayInterface:
    """Exposes the memory of a buffer as bytes to NumPy. Arrays over it keep this object, and so the buffer, alive."""

    def __init__(self, owner: Buffer, view: memoryview) -> None:
        """Describe the memory of `owner` as an array of bytes. view: that memory, of which the address is read."""
        self._owner = owner
        address = np.frombuffer(view, np.uint8).__array_interface__["data"][0] if view.nbytes else 0
        is_read_only = False
        self.__array_interface__ = {
            "version": 3, "shape": (owner.nbytes,), "typestr": "|u1", "data": (address, is_read_only),
        }  # fmt: skip


_TRUTH_WORD = dtype_word(Numerical.BOOLEAN, 8)
"""Encoding, as a 32-bit number, of the element type of truth values (i1), which take a byte each."""
_KINDS = {"f": Numerical.FLOAT, "i": Numerical.INTEGER, "u": Numerical.UNSIGNED, "c": Numerical.COMPLEX}
"""Numerical type by NumPy's letter for the kind of a dtype."""

_FLOATS_IN_A_BYTE = (
    Numerical.F8E5M2, Numerical.F8E4M3FN, Numerical.F8E5M2FNUZ, Numerical.F8E4M3FNUZ, Numerical.F8E8M0FNU,
    Numerical.F8E4M3, Numerical.F8E3M4, Numerical.F8E4M3B11FNUZ, Numerical.F6E2M3FN, Numerical.F6E3M2FN,
)  # fmt: skip
"""Floats of 6 to 8 bits, each in a byte of its own."""
_SMALL = (
    dtype_word(Numerical.BFLOAT, 16),
    *(dtype_word(kind, 8) for kind in _FLOATS_IN_A_BYTE),
    *(dtype_word(kind, bits) for kind in (Numerical.INTEGER, Numerical.UNSIGNED) for bits in (2, 4)),
    dtype_word(Numerical.F4E2M1FN, 4),
)
"""Element types, as dtype words, whose NumPy types come from ml_dtypes: bfloat16, floats of at most 8 bits, integers of
2 and 4 bits. `element_of` searches them for a dtype that is not NumPy's own. Without ml_dtypes such elements are plain
bytes in NumPy: the dtype of f8 is then u8, which denotes integers."""


def element_of(dtype: DTypeLike, where: str = "") -> ElementType:
    """Return the element type that corresponds to a NumPy dtype: f32 for float32, i1 for bool, i4 for ml_dtypes.int4.

    Candidates are dtype words: 32-bit encodings of element types, each of a numerical type and its number of bits.

    Args:
        dtype: NumPy dtype, or a value that `np.dtype` converts to one.
        where: Begin of error messages.

    Raises:
        InvalidArgumentError: Programs have no such type, as for strings, structs and big-endian numbers.
    """
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError, OverflowError) as error:
        raise InvalidArgumentError(f"{where}expected a NumPy dtype, got {dtype!r}: {error}") from None
    if dtype is None:  # np.dtype(None) is float64
        raise InvalidArgumentError(f"{where}expected a NumPy dtype, got None")
    if wanted.kind == "b":  # bool
        return type_of(_TRUTH_WORD)
    native_words = []
    if wanted.kind in _KINDS and wanted.isnative:
        native_words = [dtype_word(_KINDS[wanted.kind], 8 * wanted.itemsize)]
    # Without ml_dtypes, u8 is also the dtype of f8 elements; a caller who passes u8 means integers.
    small_words = () if wanted.kind in "iu" else _SMALL
    for word in (*native_words, *small_words):
        try:
            element = type_of(word)
        except ValueError:  # NumPy has such a type, programs do not: float128
            continue
        if element.dtype == wanted:
            return element
    raise InvalidArgumentError(
        f"{where}there is no element type for {wanted}; pass an array of numbers in native byte order"
    )
