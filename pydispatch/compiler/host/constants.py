"""Constants of host code: their elements as arrays, each stored once in the artifact, and named parameters."""

from __future__ import annotations

import hashlib
import io
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.flatten.globals import PARAMETER
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import element_bits, numerical_of
from pydispatch.formats.program.program import Constant, Numerical, Program
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.pyd.derived import DerivedAttr

if TYPE_CHECKING:
    import numpy as np


SAMPLES = 64
"""Number of bytes sampled from a constant: only constants with equal samples are compared by a digest of all bytes."""


@dataclass
class _Stored:
    """Constant of the program: its index among the program's constants, and its bytes as an array of uint8."""

    index: int
    raw: np.ndarray[Any, Any]

    @cached_property
    def digest(self) -> bytes:
        """Digest of all bytes, computed on first use."""
        return hashlib.blake2b(cast(Any, self.raw)).digest()


@dataclass
class Constants:
    """Table of the constants of one host program while it is lowered; equal constants are stored once.

    Attributes:
        program: The program.
        arrays: Name of an artifact member → array that it stores.
        derived: Name of a function that computes constants at load from others → index of the constant that is its
            first result.
        _alike: (dtype, size in bytes, sampled bytes) → the constants of the program with these.
    """

    program: Program
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    derived: dict[str, int] = field(default_factory=dict)
    _alike: dict[tuple[Any, ...], list[_Stored]] = field(default_factory=dict)

    def index_of(self, value: Attribute, type: TensorType[Attribute], op: Operation) -> int:
        """Return the index of the constant `value` in the program's table; add it on first use.

        Args:
            value: A parameter of a file; a result of a function that computes constants when the program is loaded,
                which has an index already; an array of this process; or dense elements.
            type: Type of the constant, with static sizes.
            op: The operation that reads it. Raises CompileError there for other kinds of constants.
        """
        dtype = dtype_of(type.element_type, location_of(op))
        if value.name == PARAMETER:
            return self._parameter(value, type, dtype)
        if isinstance(value, DerivedAttr):
            return self.derived[value.function.data] + value.result.data
        if isinstance(value, NumPyArrayAttr):
            return self.add(host_array(value, dtype))
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise CompileError(
                f"a constant of kind {value.name} is not supported in host code", location_of(op),
                "write dense<...>, dense_resource<...> or #flow.parameter.named<...>",
            )  # fmt: skip
        return self.add(dense_array(value, dtype))

    def add(self, array: np.ndarray[Any, Any]) -> int:
        """Add a dense constant unless the program has an equal one, and return its index among the constants.

        Two constants are equal if the types of their arrays and all bytes are; shapes may differ. All bytes are read,
        to compute digests, only if an earlier constant has the same type, size and sampled bytes.

        Args:
            array: The elements as a device stores them, such as unsigned words or packed bytes (`dense_array`). The
                artifact stores the array as a member such as "constants/0.npy".
        """
        import numpy as np

        raw = cast("np.ndarray[Any, Any]", array.reshape(-1).view(np.uint8))
        sample = raw[:: max(1, raw.size // SAMPLES)].tobytes()  # bytes at equal distances
        alike = self._alike.setdefault((array.dtype.str, raw.size, sample), [])
        new = _Stored(len(self.program.constants), raw)
        if alike:  # only then are digests computed
            known = next((constant for constant in alike if constant.digest == new.digest), None)
            if known is not None:
                return known.index
        alike.append(new)
        # Members are numbered apart from constants: parameters and derived constants have an index, but no member.
        member = f"constants/{len(self.arrays)}.npy"
        self.arrays[member] = array
        # The program refers to the elements by their position in the member: after the header of the .npy file.
        self.program.constants.append(Constant(member, npy_offset(array), array.nbytes))
        return new.index

    def _parameter(self, value: Attribute, type: TensorType[Attribute], dtype: int) -> int:
        """Return the index of the constant that a named parameter supplies at load; add it on first use."""
        scope, key = parameter_name(value)
        return self.program.add_parameter(scope, key, dtype, tuple(type.get_shape()))


def parameter_name(value: Attribute) -> tuple[str, str]:
    """Return the scope and key of a `#flow.parameter.named<"scope"::"key">`."""
    attribute = cast(Any, value)
    scope = attribute.scope.data if hasattr(attribute.scope, "data") else ""
    return scope, attribute.key.data


def npy_offset(array: np.ndarray[Any, Any]) -> int:
    """Return the byte offset of the elements in the .npy file of an array."""
    import numpy as np

    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return len(buffer.getvalue())


def dense_array(value: DenseIntOrFPElementsAttr, dtype: int) -> np.ndarray[Any, Any]:
    """Return the elements of a dense constant as a buffer on a device stores them.

    They are unsigned words in the shape of the type, or one dimension of packed bytes for elements of 2 or 4 bits. A
    splat is repeated for all elements. Example: `dense<1.0> : tensor<2xf32>` gives [0x3f800000, 0x3f800000] as uint32.
    Parsers have checked that the data has the size of one element or of all.

    dtype: their element type as artifacts encode it.
    """
    import numpy as np

    shape = tuple(int(d) for d in cast(Any, value.get_type()).get_shape())
    count = math.prod(shape)
    bits = element_bits(dtype)
    raw = np.frombuffer(value.data.data, dtype=np.uint8)
    if bits < 8:
        return _packed(raw, count, bits)
    element = np.dtype(f"u{bits // 8}") if bits <= 64 else np.dtype(f"V{bits // 8}")  # V: opaque bytes
    array = raw.view(element)
    if numerical_of(dtype) == Numerical.BOOLEAN:
        array = array & 1  # a splat of true is the byte 0xff
    if array.size == 1 and count != 1:  # a splat
        array = np.full(count, array[0], dtype=element)
    return np.ascontiguousarray(array).reshape(shape)


def host_array(value: NumPyArrayAttr, dtype: int) -> np.ndarray[Any, Any]:
    """Return the elements of an array of this process in the form of `dense_array`, without a copy where possible.

    Elements are unsigned words in the shape of the type, or one dimension of packed bytes if they have 2 or 4 bits.
    dtype: their element type as artifacts encode it.
    """
    import numpy as np

    raw, bits = value.raw(), element_bits(dtype)
    if bits < 8:
        return _packed(raw, value.count, bits)
    array = raw.view(f"u{bits // 8}" if bits <= 64 else f"V{bits // 8}")  # V: opaque bytes, for complex128
    if numerical_of(dtype) == Numerical.BOOLEAN and value.array.dtype != np.bool_:
        array = array & 1  # integers stand for booleans: an i1 is their lowest bit
    return array.reshape(value.type.get_shape())


def _packed(raw: np.ndarray[Any, Any], count: int, bits: int) -> np.ndarray[Any, Any]:
    """Pack elements of 2 or 4 bits, the first into the low bits of a byte; elements that are packed already are copied.

    The elements 1, 2, 3, 4 of 4 bits give the bytes 0x21 and 0x43.

    Args:
        raw: A byte for each element, or one byte for a splat, or the packed bytes: fewer than `count`.
        count: Number of elements.
        bits: Bits of an element.
    """
    import numpy as np

    per_byte = 8 // bits
    if raw.size == 1 and count != 1:  # a splat
        raw = np.full(count, raw[0], dtype=np.uint8)
    if raw.size != count:
        return np.array(raw)  # packed already
    # A byte for each element, with zeros up to a whole number of packed bytes.
    fields = np.zeros(-(-count // per_byte) * per_byte, dtype=np.uint8)
    fields[:count] = raw & ((1 << bits) - 1)
    packed = np.zeros(fields.size // per_byte, dtype=np.uint8)
    for position in range(per_byte):  # of an element in its byte
        packed |= fields[position::per_byte] << np.uint8(position * bits)
    return packed


def splat_word(value: Attribute, dtype: int) -> int | None:
    """Return the bits of the element of a dense constant whose elements are equal; None for other constants.

    For `dense<1.0> : tensor<8xf32>` the result is 0x3f800000. Elements of 2 or 4 bits are repeated to a byte: 0x33 for
    the 4-bit element 3. A boolean is 0 or 1.

    Return None also for a constant without elements, for elements of more than 64 bits, and for data that is not a
    whole number of elements.
    """
    import numpy as np

    if not isinstance(value, DenseIntOrFPElementsAttr) or not value.data.data:
        return None
    bits = element_bits(dtype)
    if bits > 64:
        return None
    # Compare the elements as words.
    raw = np.frombuffer(value.data.data, dtype=np.uint8)
    element = np.dtype(f"u{max(1, bits // 8)}")
    if raw.nbytes % element.itemsize:
        return None
    words = raw.view(element)
    if words[0] != words[-1] or not (words == words[0]).all():  # the first test spares most constants the second
        return None
    word = int(words[0])
    if numerical_of(dtype) == Numerical.BOOLEAN:
        return word & 1
    if bits < 8:
        all_bits = (1 << bits) - 1
        repeat = 0xFF // all_bits  # 0x11 for 4 bits, 0x55 for 2 bits: the product repeats the element
        return (word & all_bits) * repeat
    return word
