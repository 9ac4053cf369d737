"""`#pyd.array<"name"> : tensor<…>`: a constant whose elements are in a NumPy array of this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from numpy.typing import NDArray


@irdl_attr_definition
class HostArray(Data[Any]):
    """NumPy array of this process, compared by identity: the parameter `host_array` of `NumPyArrayAttr`.

    Equal arrays are not compared element by element: two attributes are equal only if they hold the same array object.
    """

    name = "pyd.host_array"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostArray) and self.data is other.data

    def __hash__(self) -> int:
        return id(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """Raise ParseError: a text cannot contain an array of this process."""
        parser.raise_error("an array of a process is not part of a program's text")

    def print_parameter(self, printer: Printer) -> None:
        """Print `<...>` in place of the elements, which text cannot refer to."""
        with printer.in_angle_brackets():
            printer.print_string("...")


@irdl_attr_definition
class NumPyArrayAttr(ParametrizedAttribute):
    """Value of a constant or global that is a NumPy array: `NumPyArrayAttr.of("layer1.weight", type, array)`.

    The array, which may be a read-only mapping of a file, is used without a copy: it must not change while the artifact
    is in use. Its bytes in C order are read as elements of `type`, whatever its numeric NumPy dtype: there is one byte
    per i1 and per sub-byte element. Printed text contains only the name and the type.

    Attributes:
        key: Name of the constant in printed text and in messages.
        type: Type of the constant, with static sizes.
        host_array: The array.
    """

    name = "pyd.array"
    key: StringAttr
    type: TensorType[Attribute]
    host_array: HostArray

    @classmethod
    def of(cls, name: str, type: TensorType[Attribute], array: NDArray[Any]) -> NumPyArrayAttr:
        """Create the attribute; raise VerifyException if the size of the array does not match the type."""
        return cls(StringAttr(name), type, HostArray(array))

    @property
    def array(self) -> NDArray[Any]:
        """Return the array, whose dtype and shape may differ from those of `type`."""
        array: NDArray[Any] = self.host_array.data
        return array

    @property
    def count(self) -> int:
        """Return the number of elements of the type."""
        return math.prod(self.type.get_shape())

    @property
    def is_iota(self) -> bool:
        """Whether the constant is [0, 1, 2, ...] of 32 or 64-bit integers, so that kernels can compute the elements
        from their index instead of loading them.
        """
        import numpy as np

        element, array = self.type.element_type, self.array
        # np.array_equal compares numbers: those of an array of floats are not the integers that its bytes are read as.
        has_integers = array.dtype.kind in "iu"
        if self.type.get_num_dims() != 1 or element not in (i32, i64) or not has_integers:
            return False
        return bool(np.array_equal(array.reshape(-1), np.arange(self.count)))

    def verify(self) -> None:
        """Raise VerifyException unless the type is static, and the array has numbers in native byte order and the size
        in bytes of a tensor of the type."""
        shape = self.type.get_shape()
        if any(size < 0 for size in shape):  # DYNAMIC is negative
            raise VerifyException(f"the array '{self.key.data}' has static sizes, got {self.type}")
        if not self.array.dtype.isnative or self.array.dtype.hasobject:
            raise VerifyException(
                f"the array '{self.key.data}' has elements of {self.array.dtype}; give numbers in native byte order"
            )
        size = self.count * _element_bytes(self.type.element_type)
        if self.array.nbytes != size:
            raise VerifyException(
                f"the array '{self.key.data}' has {self.array.nbytes} bytes ({self.array.dtype}, shape "
                f"{self.array.shape}), but {self.type} has {size}"
            )

    def raw(self) -> NDArray[Any]:
        """Return the bytes of the array in C order, copied only if the array is not contiguous."""
        import numpy as np

        return np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)

    def dense(self) -> DenseIntOrFPElementsAttr[Any]:
        """Return the constant as a dense attribute, which copies the elements into the program."""
        return DenseIntOrFPElementsAttr(self.type, BytesAttr(self.raw().tobytes()))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Raise an error: the elements of such an array are not in the text."""
        parser.raise_error(
            "#pyd.array denotes an array of the process that printed this program, and its elements are not in the "
            "text: compile the module itself, or write dense<...>, dense_resource<...> or #flow.parameter.named<...>"
        )

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"key"> : type`."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.key.data)
        printer.print_string(" : ")
        printer.print_attribute(self.type)


def _element_bytes(type: Attribute) -> int:
    """Return the number of bytes of an element in an array: its bits, rounded up to whole bytes."""
    bits = type.width.data if isinstance(type, IntegerType) else getattr(type, "bitwidth", None)
    # Types without a bit width, such as complex numbers, state their size in bytes; an index has 8.
    size_bytes = getattr(type, "compile_time_size", 8)
    return -(-bits // 8) if isinstance(bits, int) else int(size_bytes)


ATTRIBUTES: list[type[Attribute]] = [NumPyArrayAttr]
