"""`fft`: one stage of a Fourier transform along the last dimension."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr
from xdsl.ir import Operation, OpResult
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import SIDES, OnTensorsOp, check_count, check_shape, shape_of


@op_definition
class FftOp(OnTensorsOp):
    """Stage s of a Fourier transform of elements in bit-reversed order (Cooley-Tukey).

    In each group of 2^s elements, element j of the second half is multiplied by exp(-2 pi i j / 2^s); the product is
    added to element j of the first half for the first result, and subtracted from it for the second. After stages 1 to
    log2(n) the n elements are the transform.

    Attributes:
        inputs: The stage s, an index from 1; optionally also the real and the imaginary parts of the 2^(s-1) factors
            exp(...), which are computed if absent.
        outputs: Real and imaginary parts of the elements, which the results replace.
    """

    name = "iree_linalg_ext.fft"
    assembly_format = f"attr-dict {SIDES} (`:` type($res)^)?"

    @property
    def stage(self) -> int | None:
        """Return the stage if it is a constant, else None."""
        value = self.inputs[0]
        if isinstance(value, OpResult) and isinstance(value.op, arith.ConstantOp):
            attribute: Any = value.op.value
            return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else None
        return None

    def verify_operands(self) -> None:
        """Check the stage s, and that real and imaginary parts have one float type, a power of two of elements in the
        last dimension, and 2^(s-1) factors if factors are passed. Raise VerifyException otherwise.

        Stage s of a transform of n elements, from 1 to log2(n), combines the two halves of each group of 2^s elements.
        The factors are those of the second half, exp(-2 pi i j / 2^s).
        """
        check_count("input", len(self.inputs), 1, 3)  # the stage; or the stage, and both parts of the factors
        check_count("output", len(self.outputs), 2)
        if not isinstance(self.inputs[0].type, IndexType):
            raise VerifyException(f"the stage is an index, got {self.inputs[0].type}")
        real, imaginary = self.outputs
        shape = shape_of(real)
        if not shape or not isinstance(element_type(real.type), AnyFloat):
            raise VerifyException(f"a transform has floats along a dimension, got {real.type}")
        check_shape("the imaginary part", imaginary, shape)
        size = shape[-1]
        is_power_of_two = size & (size - 1) == 0  # one bit is set, or none for the size 0
        if size != DYNAMIC and not is_power_of_two:
            raise VerifyException(f"the last dimension has a power of two for its size, got {real.type}")
        for value in (imaginary, *self.inputs[1:]):
            if element_type(value.type) != element_type(real.type):
                raise VerifyException(f"the elements of {value.type} and {real.type} differ")
        if self.stage is not None:  # only a constant stage can be compared with sizes
            self._check_stage(self.stage, size)

    def _check_stage(self, stage: int, size: int) -> None:
        """Check that a transform of `size` elements has the stage, and that the stage has as many factors."""
        # A dimension of size 0 has no groups, so any stage fits. min() bounds the shift: no size has more than 64 bits.
        if stage < 1 or (size not in (DYNAMIC, 0) and 1 << min(stage, 64) > size):
            raise VerifyException(f"a transform of {self.outputs[0].type} has no stage {stage}")
        for name, value in zip(("real", "imaginary"), self.inputs[1:], strict=False):  # no values without factors
            check_shape(f"the {name} part of the factors", value, [1 << (stage - 1)])


OPERATIONS: list[type[Operation]] = [FftOp]
