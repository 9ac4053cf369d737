"""Arithmetic of a contraction: element types of packed operands and sums, and products of bytes.

For CPUs with instructions that add four or eight products of bytes to an i32 (`Level.byte_products`), factors are
packed as bytes. A factor with values in another range of 256 is packed minus a constant offset: a = a' + p, b = b' + q,
so that sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q, exact modulo 2^32 (`factor_sums.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.ranges import factor_range
from pydispatch.ir.dialects.pyd.tile_registers import MOST_STEPS
from pydispatch.ir.structured import as_structured

HALF_TYPES = (Float16Type(), BFloat16Type())
"""The floats of 16 bits."""


@dataclass(frozen=True)
class Arithmetic:
    """Element types and instructions of a contraction.

    `arithmetic_of` creates it. Two factors of f32 have compute=f32, sum_type=f32. Two factors with integers of 0 to 255
    and i32 sums have compute=i8, sum_type=i32, group=4, unsigned_a=True, b_offset=128 on a CPU that adds four products
    of unsigned by signed bytes: B is packed as values of -128 to 127.

    Attributes:
        compute: Type of the elements of packed factors.
        sum_type: Type of the accumulators.
        group: Number of steps of K that one instruction multiplies and adds to one accumulator; 1 for a multiply-add.
        unsigned_a, unsigned_b: Whether the packed bytes of A, and of B, are unsigned; False for other types.
        a_offset, b_offset: Constants that packing subtracts from the elements of A, and of B, so that they fit bytes.
            `FactorSums` corrects the products for them.
        matrix_steps: Number of groups of K that one instruction on matrix registers (AMX) multiplies; 0 if they are not
            used.
    """

    compute: Attribute
    sum_type: Attribute
    group: int = 1
    unsigned_a: bool = False
    unsigned_b: bool = False
    a_offset: int = 0
    b_offset: int = 0
    matrix_steps: int = 0

    def reads_in_place(self, element: Attribute) -> bool:
        """Return whether elements of type `element` are multiplied and summed in this type, in single steps of K.

        Without a conversion, register blocks can read an operand where it is stored.
        """
        return self.compute == element == self.sum_type and self.group == 1


BYTE_VALUES, LEAST_BYTE = 256, -128
"""Number of values that a byte can have, and the least value of a signed byte."""

MATRIX_BYTES = 4
"""Size in bytes of a group, the elements at adjacent indices of K, in matrix registers: a 32-bit word. Other
instructions of the CPU may take groups of a different size."""

MIN_MATRIX_STEPS = 4
"""Minimum number of groups of K that an instruction on matrix registers must multiply to pay: it takes as long for one
group as for 16."""

SIGN_CHOICES = {
    "unsigned by signed": [(True, False), (False, True)],
    "equal signs": [(False, False), (True, True)],
    "all signs": [(False, False), (True, True), (True, False), (False, True)],
}
"""Signs of bytes that the dot-product instructions of a CPU can multiply, by the CPU's `Level.byte_products`.

Each choice is (whether the bytes of A are unsigned, whether the bytes of B are unsigned). A factor whose values do
not fit the byte of a choice needs an offset (`Arithmetic`). Of choices that need equally many offsets, the first one is
used. Instructions on matrix registers can multiply "all signs".
"""


def arithmetic_of(contraction: Contraction, level: Level) -> Arithmetic | None:
    """Return the element types and instructions of a contraction on a CPU; None for types without a register block.

    The first of these that applies:

    - bf16 in pairs, with sums of f32,
    - f16 and bf16, widened to f32,
    - f32 and f64 as they are,
    - integers with sums of i32, in groups of bytes or of i16 if their values fit,
    - other integers as they are.

    A pair or group is the adjacent steps of K whose products one instruction adds up in one sum.
    """
    if _multiplies_bf16(contraction) and _can_group_steps(contraction):
        pair = 2  # steps of K whose products one instruction adds up, in vectors and in matrix registers
        matrix_steps = _matrix_steps(contraction, group=pair) if "bf16" in level.matrix_types else 0
        if matrix_steps > 0 or level.pairs_bf16:
            return Arithmetic(compute=BFloat16Type(), sum_type=Float32Type(), group=pair, matrix_steps=matrix_steps)
    acc = contraction.acc  # the type of the sums in the program
    if acc in HALF_TYPES:
        return Arithmetic(compute=Float32Type(), sum_type=Float32Type())
    if isinstance(acc, Float32Type | Float64Type):
        return Arithmetic(compute=acc, sum_type=acc)
    if not isinstance(acc, IntegerType) or acc.width.data not in (8, 16, 32, 64):
        return None
    grouped = _grouped_arithmetic(contraction, level) if acc == i32 else None
    return Arithmetic(compute=acc, sum_type=acc) if grouped is None else grouped


def half_precision_b(contraction: Contraction, level: Level) -> SSAValue | None:
    """Return the tensor of f16 or bf16 whose elements are factor B, if register blocks can widen them to f32.

    There are three forms:

    1. The contraction has elements and sums of f16 or bf16: register blocks compute it in f32.
    2. The body of the contraction extends the element to f32.
    3. An earlier operation extends the whole tensor to f32: its source is returned, and the f32 tensor need not be
       stored.

    Return None for another B, or if the CPU does not widen vectors of these types.
    """
    b, acc = contraction.b, contraction.acc
    tensor, element = contraction.tensor_of(b), contraction.element_of(b)
    if not level.widens_half or not isinstance(tensor.type, TensorType):
        return None
    is_multiplied_as_stored = b.is_element and acc == element.type  # the body does not convert the element
    if element.type in HALF_TYPES:
        is_extended_in_body = acc == Float32Type() and _is_extended_to_f32(b.value, element)
        return tensor if is_multiplied_as_stored or is_extended_in_body else None  # forms 1 and 2
    if acc != Float32Type() or not is_multiplied_as_stored:
        return None
    source = _unextended_tensor(tensor)  # form 3
    is_half = source is not None and isinstance(source.type, TensorType) and source.type.element_type in HALF_TYPES
    return source if is_half else None


def _is_extended_to_f32(value: SSAValue, source: SSAValue) -> bool:
    """Return whether a value is `arith.extf` of `source` to f32."""
    is_extension = isinstance(value, OpResult) and isinstance(value.op, arith.ExtFOp) and value.op.input is source
    return is_extension and value.type == Float32Type()


def _unextended_tensor(tensor: SSAValue) -> SSAValue | None:
    """Return the tensor of narrower floats that an operation extends to `tensor`; None if there is no such operation.

    The extension is `arith.extf` of a tensor, or a structured operation with one input, identity maps and the body
    `arith.extf` to f32.
    """
    if not isinstance(tensor, OpResult):
        return None
    if isinstance(tensor.op, arith.ExtFOp):
        return tensor.op.input
    generic = as_structured(tensor.op)
    if generic is None or generic.body is None or len(generic.inputs) != 1:
        return None
    are_identity_maps = all(m == AffineMap.identity(m.num_dims) for m in generic.maps)
    terminator = generic.block.last_op
    if not are_identity_maps or terminator is None:
        return None
    is_extension = _is_extended_to_f32(terminator.operands[0], source=generic.block.args[0])
    return generic.inputs[0] if is_extension else None


def _grouped_arithmetic(contraction: Contraction, level: Level) -> Arithmetic | None:
    """Return the arithmetic of groups of bytes, or else pairs of i16, into i32; None if the factors do not fit these.

    A group is the adjacent steps of K whose products one instruction adds up.
    """
    # The (least, greatest) value of each factor; None if unknown.
    a_range, b_range = factor_range(contraction.a), factor_range(contraction.b)
    if a_range is None or b_range is None or not _can_group_steps(contraction):
        return None
    # Packing may subtract an offset, so that only the width of a range matters for bytes: 100 to 300 fits.
    fit_bytes = all(high - low < BYTE_VALUES for low, high in (a_range, b_range))
    if level.byte_products and fit_bytes:
        return _byte_arithmetic(contraction, level, a_range, b_range)
    fit_i16 = all(low >= -(1 << 15) and high < 1 << 15 for low, high in (a_range, b_range))
    return Arithmetic(compute=i16, sum_type=i32, group=2) if fit_i16 else None


def _byte_arithmetic(
    contraction: Contraction, level: Level, a_range: tuple[int, int], b_range: tuple[int, int]
) -> Arithmetic:
    """Return the arithmetic of bytes for two factors in ranges of at most 256 integers.

    A factor whose range does not fit its byte has an offset, which packing subtracts: 128 for 0 to 255 in a signed
    byte. Instructions exist for some pairs of signs, such as unsigned A and signed B; the pair that needs the fewest
    offsets is chosen.

    Args:
        contraction: The contraction.
        level: Instructions of the CPU.
        a_range, b_range: The least and the greatest value of each factor.
    """
    matrix_steps = _matrix_steps(contraction, group=MATRIX_BYTES) if "i8" in level.matrix_types else 0
    uses_matrix_registers = matrix_steps > 0
    candidates = [
        Arithmetic(
            compute=i8,
            sum_type=i32,
            group=level.byte_steps,
            unsigned_a=unsigned_a,
            unsigned_b=unsigned_b,
            a_offset=_byte_offset(a_range, least_byte=0 if unsigned_a else LEAST_BYTE),
            b_offset=_byte_offset(b_range, least_byte=0 if unsigned_b else LEAST_BYTE),
            matrix_steps=matrix_steps,
        )
        for unsigned_a, unsigned_b in SIGN_CHOICES["all signs" if uses_matrix_registers else level.byte_products]
    ]
    # The first of the candidates with the fewest offsets: an earlier choice of signs is better.
    return min(candidates, key=lambda candidate: (candidate.a_offset != 0) + (candidate.b_offset != 0))


def _can_group_steps(contraction: Contraction) -> bool:
    """Return whether steps of K can be packed in groups: K itself indexes both factors, and N itself indexes B.

    The steps of `A[m, k] * B[k, n]` can be packed in groups. Those of `A[m, 2 * k] * B[k, n]` cannot.
    """
    a, b, k, n = contraction.a, contraction.b, contraction.k, contraction.n
    axes_of_k = [[factor.coordinates[axis] for axis in factor.positions_of(k)] for factor in (a, b)]
    is_indexed_by_k = all(any(coordinate.is_identity(k) for coordinate in axes) for axes in axes_of_k)
    return is_indexed_by_k and n is not None and b.coordinates[b.positions_of(n)[0]].is_identity(n)


def _multiplies_bf16(contraction: Contraction) -> bool:
    """Return whether both factors are bf16, or extended from it, and their products are added up in bf16 or f32."""
    factors = contraction.a, contraction.b
    has_float_sums = contraction.acc in (BFloat16Type(), Float32Type())
    return has_float_sums and all(unextended(f.value, BFloat16Type()) is not None for f in factors)


def unextended(value: SSAValue, type_: Attribute) -> SSAValue | None:
    """Return `value` if it has the float type `type_`, or the operand of that type of its `arith.extf`; else None."""
    if value.type == type_:
        return value
    if isinstance(value, OpResult) and isinstance(value.op, arith.ExtFOp) and value.op.input.type == type_:
        return value.op.input
    return None


def is_stored_as_packed(factor: SSAValue, element: SSAValue, arithmetic: Arithmetic, is_unsigned: bool) -> bool:
    """Return whether the elements of a factor's tensor are what packing would store, so that no packed copy is needed.

    The elements must have the type of packed elements, and the body of the contraction must multiply the element itself
    or its extension to a wider type.

    Example:
        An i8 element that is packed as i8 and extended by `arith.extsi` is stored as packed. An element that a zero
        point is subtracted from is not.

    Args:
        factor: The factor of the product, in the body of the contraction.
        element: The element of the factor's tensor, an argument of the body.
        arithmetic: Arithmetic of the contraction; elements are packed as `arithmetic.compute`.
        is_unsigned: Whether a packed integer is unsigned; without effect on floats.
    """
    if element.type != arithmetic.compute:
        return False
    if not isinstance(element.type, IntegerType):
        return unextended(factor, element.type) is element
    # Integers are extended to the type of the sums, with the sign of the packed integer.
    extension = arith.ExtUIOp if is_unsigned else arith.ExtSIOp
    return isinstance(factor, OpResult) and isinstance(factor.op, extension) and factor.op.operands[0] is element


def _matrix_steps(contraction: Contraction, group: int) -> int:
    """Return how many groups of `group` steps of K one instruction on matrix registers multiplies.

    The result is the largest divisor of the number of groups in K from MIN_MATRIX_STEPS to MOST_STEPS: 100 steps in
    groups of 4 are 25 groups, and an instruction multiplies 5. The number must be a divisor since all instructions
    along K have the same length. Return 0, for no matrix registers, if there is no such divisor, if the size of K is
    dynamic, or if no dimension of A is indexed by K itself.
    """
    a, k = contraction.a, contraction.k
    k_axis = next((p for p in a.positions_of(k) if a.coordinates[p].is_identity(k)), None)  # of A's tensor
    type_ = contraction.tensor_of(a).type
    if k_axis is None or not isinstance(type_, TensorType):
        return 0
    size = type_.get_shape()[k_axis]
    if size <= 0:  # dynamic or empty
        return 0
    group_count = ceil_quotient(size, group)  # the last group is filled with zeros
    candidates = range(MOST_STEPS, MIN_MATRIX_STEPS - 1, -1)
    return next((steps for steps in candidates if group_count % steps == 0), 0)


def _byte_offset(value_range: tuple[int, int], least_byte: int) -> int:
    """Return the constant to subtract from values, so that they fit the 256 values of a byte from `least_byte` on.

    `value_range` is the least and the greatest value. With the least byte -128, the constant is 128 for the range (0,
    255), and 0 for (0, 100), which fits already.
    """
    low, high = value_range
    fits = least_byte <= low and high < least_byte + BYTE_VALUES
    return 0 if fits else low - least_byte
