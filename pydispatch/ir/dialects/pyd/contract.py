"""`pyd.contract`: one register block of a matrix product, in kernel IR."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, UnitAttr, bf16, f16, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition

GROUPED = ((i16, i16, i32, 2), (bf16, bf16, f32, 2), (i8, i8, i32, 4), (i8, i8, i32, 8))
"""Permitted operands of the grouped form: (elements of A, of B, of C, steps of K in a group)."""


@op_definition
class ContractOp(IRDLOperation):
    """Product of one register block in kernel IR: C = A·B, or C += A·B with `accumulate`.

    Syntax: `pyd.contract %a, %b, %c accumulate unsigned_a : memref<MxK…>, memref<KxN…>, memref<MxN…>`.

    - M and N are static: the block stays in registers while the loop over K runs. K may be dynamic, and may consist of
      several dimensions, innermost last, such as the rows and columns of a window: `memref<Mx3xK…>, memref<3xKxN…>`.
    - Strides are those of the types. Vectors run along N if rows of B are contiguous; else along K, which is then one
      dimension that is contiguous in A and B.
    - All operands have one element type. With f32, B may have f16 or bf16, widened in registers where the target can.
    - The grouped form multiplies several steps of K at once into wider sums: two for i16 into i32 or bf16 into f32,
      four or eight for i8 into i32: `memref<MxK/4x4xi8>, memref<K/4xNx4xi8>, memref<MxNxi32>`. The steps of a group are
      contiguous in memory, and so are the groups of a row of B.
    - `unsigned_a` and `unsigned_b` state that the bytes of A or B are unsigned.
    - `prefetch n`: with each row of B the memory n bytes after it is prefetched into the L1 cache; with `into_l2`, into
      the L2 cache.
    - B may also be unsigned weights of 8 or 4 bits, stated by `unsigned_b`, in groups of 4 or 8 steps:
      `memref<MxK/4x4xf32>, memref<K/4xNx4xi8>, memref<MxNxf32>`, which are widened in registers, or
      `memref<MxK/8x8xi8>, memref<K/8xNx8xi4>, memref<MxNxi32>`. Byte i of the 4 bytes of a group of i4 has step i in
      its low half and step i + 4 in its high half.
    """

    name = "pyd.contract"
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    accumulate = opt_prop_def(UnitAttr)
    unsigned_a = opt_prop_def(UnitAttr)
    unsigned_b = opt_prop_def(UnitAttr)
    prefetch = opt_prop_def(IntegerAttr.constr(i64))
    into_l2 = opt_prop_def(UnitAttr)
    assembly_format = (
        "$a `,` $b `,` $c (`accumulate` $accumulate^)? (`unsigned_a` $unsigned_a^)? (`unsigned_b` $unsigned_b^)? "
        "(`prefetch` $prefetch^)? (`into_l2` $into_l2^)? "
        "attr-dict `:` type($a) `,` type($b) `,` type($c)"
    )

    @property
    def has_packed_weights(self) -> bool:
        """Return whether B contains quantized weights, unsigned integers that the kernel unpacks in registers.

        The element types imply it: a B of i4, or a B of i8 with an A of f32, is always such weights.
        """
        assert isinstance(self.a.type, MemRefType) and isinstance(self.b.type, MemRefType)
        element = self.b.type.element_type
        return element == IntegerType(4) or (element == i8 and self.a.type.element_type == f32)

    @property
    def grouped(self) -> bool:
        """Return whether operands are in the grouped form: the last dimension of A and B is a group of steps of K.

        Unsigned weights are always in groups. Otherwise the type of A decides: elements of A that are narrower than
        those of C are in groups. B alone may be narrower without groups, because B is widened in registers.
        """
        assert isinstance(self.a.type, MemRefType) and isinstance(self.c.type, MemRefType)
        return self.has_packed_weights or self.a.type.element_type != self.c.type.element_type

    def verify_(self) -> None:
        """Check ranks, sizes and element types: A [M, K...], B [K..., N] and C [M, N].

        K may be several dimensions. In the grouped form, A and B have one more dimension, the innermost: the steps of K
        in a group. For example, A is memref<4x16x4xi8>, B is memref<16x32x4xi8> and C is memref<4x32xi32>, with 64
        steps of K in groups of 4. `has_packed_weights` says whether B contains quantized weights, to which other rules
        apply. `into_l2` requires `prefetch`.
        """
        a, b, c = (v.type for v in self.operands)
        assert isinstance(a, MemRefType) and isinstance(b, MemRefType) and isinstance(c, MemRefType)
        ranks = [t.get_num_dims() for t in (a, b, c)]
        least_rank = 3 if self.grouped else 2  # M, K and the group; or M and K
        if ranks[0] != ranks[1] or ranks[0] < least_rank or ranks[2] != 2:
            raise VerifyException(f"pyd.contract takes A and B of rank {least_rank} or more, and a matrix; got ranks "
                                  f"{ranks}")  # fmt: skip
        if min(c.get_shape()) < 0:  # a dynamic size is negative
            raise VerifyException(f"the block of pyd.contract must be static, got {c}")
        if self.has_packed_weights:  # B is unsigned weights, which are in groups and unpacked in registers
            self._verify_weights((a, b, c))
            return
        self._verify_sizes((a, b, c))
        self._verify_elements((a, b, c))
        if self.into_l2 is not None and self.prefetch is None:
            raise VerifyException("into_l2 is the cache that `prefetch` loads rows into; state `prefetch` with it")

    def _verify_sizes(self, types: Sequence[MemRefType[Attribute]]) -> None:
        """Raise VerifyException unless `types`, of A, B and C, agree on M, N and the dimensions of K."""
        a, b, c = types
        (m, n), a_shape, b_shape = c.get_shape(), a.get_shape(), b.get_shape()
        other_rank = 2 if self.grouped else 1  # dimensions of A that are not K: M, and the group in the grouped form
        k_rank = len(a_shape) - other_rank  # the dimensions of K follow M in A, and precede N in B
        k_sizes = zip(a_shape[1 : k_rank + 1], b_shape[:k_rank], strict=True)  # pairs (in A, in B); negative: dynamic
        differs_in_k = any(in_a >= 0 and in_b >= 0 and in_a != in_b for in_a, in_b in k_sizes)
        if a_shape[0] != m or b_shape[k_rank] != n or differs_in_k:
            raise VerifyException(f"pyd.contract of {a} and {b} is not {c}")

    def _verify_elements(self, types: Sequence[MemRefType[Attribute]]) -> None:
        """Raise VerifyException unless a target may multiply the elements of `types`, of A, B and C.

        In the grouped form, the element types and the size of a group are an entry of `GROUPED`: four steps of i8
        into i32, for example. A product without groups has equal types for A and B, or widens contiguous rows of f16
        or bf16 in B to f32. B with unsigned weights is not checked here, but by `_verify_weights`.
        """
        a, b, _ = types
        elements = tuple(t.element_type for t in types)
        if self.grouped:
            group, group_of_b = a.get_shape()[-1], b.get_shape()[-1]
            if group != group_of_b or (*elements, group) not in GROUPED:
                raise VerifyException("pyd.contract groups two steps of K of i16, or four or eight of i8 into i32, or "
                                      f"two of bf16 into f32; got {a}, {b}")  # fmt: skip
        strides = b.get_strides() or [0]  # None if the type does not state them; empty for the layout strided<[]>
        has_contiguous_rows = strides[-1] == 1
        widens = elements[0] == f32 and elements[1] in (f16, bf16) and has_contiguous_rows
        if not (self.grouped or widens or elements[1] == elements[0]):
            raise VerifyException(f"pyd.contract widens rows of f16 and bf16 to f32; got {a}, {b}")
        for name in ("unsigned_a", "unsigned_b"):
            if name in self.properties and elements[0] != i8:
                raise VerifyException(f"{name} is for groups of i8")

    def _verify_weights(self, types: Sequence[MemRefType[Attribute]]) -> None:
        """Raise VerifyException unless `types`, of A, B and C, are those of a product by unsigned weights."""
        a, b, c = types
        (m, n), a_shape, b_shape = c.get_shape(), a.get_shape(), b.get_shape()
        group_count = b_shape[0]  # number of groups of steps of K
        group = 4 if b.element_type == i8 else 8  # steps of K whose weights, of 8 or 4 bits, fill 32 bits
        if (a.element_type, c.element_type) not in ((f32, f32), (i8, i32)) or self.unsigned_b is None:
            raise VerifyException("pyd.contract multiplies f32 into f32, or i8 into i32, by weights that `unsigned_b` "
                                  f"states; got {a}, {b}, {c}")  # fmt: skip
        if a_shape != (m, group_count, group) or b_shape != (group_count, n, group) or group_count < 1:
            raise VerifyException(f"pyd.contract of {a} and {b} in groups of {group} is not {c}")


OPERATIONS: list[type[Operation]] = [ContractOp]
