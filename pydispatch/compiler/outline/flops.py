"""Number of arithmetic operations of a dispatch function, as a polynomial of its sizes.

The count is that of the program, not of the generated kernel. Each addition, subtraction, multiplication, division,
minimum and maximum of elements is one operation, and so is each function of `math` (exp, tanh, ...). A fused
multiply-add is two. Comparisons, selects, conversions, operations on bits and on indices are zero. So a product of
MxK and KxN elements has 2*M*N*K. Calls, control flow in bodies, and sizes that are no polynomials of the arguments
have no count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.analysis.in_place import GRID
from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.sizes import term_of
from pydispatch.compiler.kernel_ir.words import bit_width, words_of
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.terms import Product, Sum, Term
from pydispatch.ir.dialects.hal.flops import attribute_of
from pydispatch.ir.structured import as_structured
from pydispatch.ir.values import Dim

Polynomial = Counter[tuple[int, ...]]
"""For each product of sizes, its factor: {(0, 2): 6, (): 1} is 6 a b + 1.

A size is denoted by the index of the first 32-bit word of its constant: here a is at word 0 and b at word 2.
"""

_ARITHMETIC = {
    *(f"arith.{kind}{suffix}" for kind in ("add", "sub", "mul") for suffix in "if"),
    "arith.divf", "arith.remf", "arith.negf", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui",
    "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi",
    *(f"arith.{kind}{suffix}" for kind in ("max", "min") for suffix in ("imumf", "numf", "si", "ui")),
}  # fmt: skip
"""Operations of arith that are counted, besides all of math."""
_BODIES = ("linalg.generic", "pyd.recurrence", "iree_linalg_ext.scatter", "tensor.generate")
"""Operations whose region computes each element; its operations are counted."""


_INDEX_WORDS = 2
"""32-bit words of a size among the constants of a dispatch."""


class _NotCountable(Exception):
    """Signal that the operations of a function cannot be counted."""


def count_flops(source: func.FuncOp) -> ArrayAttr[Attribute] | None:
    """Return the attribute `pydispatch.flops` for the export of a dispatch function, such as `["f32", [2, 0, 2]]`.

    The first element is the element type that is computed with ("" for several). The others are the terms of the
    polynomial: a factor, and the sizes that it is multiplied by. A size is denoted by the index of its first 32-bit
    word among the constants of the dispatch. The example has one term: 2 times the size in words 0 and 1 times the size
    in words 2 and 3.

    Return None if the operations of the function cannot be counted.
    """
    if GRID in source.attributes:  # its body is the code of one workgroup, over slices
        return None
    count = _FlopCounter(source)
    try:
        for op in source.body.block.ops:
            count.add(op)
    except _NotCountable:
        return None
    # Element types of the products, and of narrow arguments, which CPUs may multiply without widening them. If there
    # are several types, the attribute states none.
    types = {str(type_) for type_ in count.types | _narrow_element_types(source)}
    terms = [[factor, *sizes] for sizes, factor in sorted(count.total.items()) if factor]
    return attribute_of(types.pop() if len(types) == 1 else "", terms)


def _narrow_element_types(source: func.FuncOp) -> set[Attribute]:
    """Return the element types of less than 32 bits, without i1, of the arguments.

    `count_flops` adds them to the types that are computed with, since CPUs may multiply them without widening.
    """
    types = (argument.type for argument in source.body.block.args)
    elements = {type_.element_type for type_ in types if isinstance(type_, TensorType)}
    return {element for element in elements if 1 < (bit_width(element) or 0) < 32}


@dataclass
class _FlopCounter:
    """Counter of the arithmetic operations of a dispatch function.

    A caller creates a counter, calls `add` for each operation of the function, and then reads `total` and `types`.

    Attributes:
        source: The dispatch function.
        total: The count as a polynomial of sizes.
        types: Element types that are computed with.
        sizes: Known sizes of the function's tensors.
        first_words: For each scalar argument, the index of its first 32-bit word among the constants of the dispatch.
    """

    source: func.FuncOp
    total: Polynomial = field(default_factory=Counter)
    types: set[Attribute] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Record the known sizes of tensors, and the first word of each scalar argument among the dispatch's constants.

        Sizes that an operation makes equal are recorded, so that the polynomial has one variable for them.
        """
        self.sizes, self.first_words, next_word = Sizes(), dict[SSAValue, int](), 0
        for argument in self.source.body.block.args:
            self.sizes.record_value(argument)
            if not isinstance(argument.type, TensorType):
                self.first_words[argument] = next_word
                next_word += words_of(argument.type)
        if not self.first_words:  # dynamic sizes are scalar arguments: without them, all sizes are static
            return
        for op in self.source.body.block.ops:
            for result in op.results:
                self.sizes.record_value(result)
            self.sizes.record_equal_sizes(op)

    def add(self, op: Operation) -> None:
        """Add the arithmetic of one operation of the function to the total. Raise _NotCountable if it has no count."""
        if op.name in _BODIES:
            self._add_body(op)
            return
        tensors = [(value, value.type.element_type) for value in op.results if isinstance(value.type, TensorType)]
        is_known = rule_of(op) is not None or _is_arithmetic(op)
        has_code = bool(op.regions) and op.name != "tensor.pad"  # the region of a pad only yields the padding element
        if has_code or (tensors and not is_known):
            raise _NotCountable
        for value, element in tensors:
            if flops := _per_element(op, element):
                self._add_times(flops, self.sizes.of(value), types=[element])

    def _add_body(self, op: Operation) -> None:
        """Add the arithmetic of an operation with a body: operations of the body, times the iterations of its loops.

        Add the types of the elements that the body reads and computes to `types`, unless the body has no arithmetic.
        """
        block = op.regions[0].block
        flops = sum(_per_iteration(inner) for inner in block.ops)
        if flops:
            read = [argument.type for argument in block.args if argument.uses and _is_element(argument.type)]
            computed = [v.type for inner in block.ops if _per_iteration(inner) for v in inner.results]
            self._add_times(flops, self._trip_counts(op), types=[*read, *computed])

    def _trip_counts(self, op: Operation) -> list[Term]:
        """Return the number of iterations of each loop of an operation. Raise _NotCountable if one is unknown."""
        structured = as_structured(op)
        if structured is None:
            # One iteration for each element of the updates of a scatter, or of the result of other operations.
            iterated = op.operands[0] if op.name == "iree_linalg_ext.scatter" else op.results[0]
            return self.sizes.of(iterated)
        trip_counts: list[Term] = []
        for dims in structured.loop_dims:  # dimensions of operands that have the size of a loop
            terms = [self.sizes.of(dim.tensor)[dim.axis] for dim in dims]
            if not terms:
                raise _NotCountable
            # All terms are the same size. Prefer one that is known.
            trip_counts.append(next((term for term in terms if isinstance(term, int)), terms[0]))
        return trip_counts

    def _add_times(self, flops: int, sizes: Iterable[Term], types: Iterable[Attribute]) -> None:
        """Add `flops` times the product of `sizes` to the total, and `types` to the types that are computed with."""
        product: Polynomial = Counter({(): flops})
        for size in sizes:
            product = _multiply(product, self._polynomial(size))
        self.total.update(product)  # adds: a polynomial is a Counter
        self.types.update(types)

    def _polynomial(self, term: Term) -> Polynomial:
        """Return a size as a polynomial of the sizes that are passed to the dispatch, its arguments of type index.

        If %n is an argument whose first constant word is word 2, %n * 3 + 1 gives {(2,): 3, (): 1}, and %n * %n gives
        {(2, 2): 1}. The keys have the first word of each size that the factor is multiplied by.

        Raises _NotCountable for a size that is not computed from arguments by sums and products.

        Args:
            term: The size: an integer, an index value of the function, a dimension, or a sum or product of terms.
        """
        if isinstance(term, int):
            return Counter({(): term})
        if isinstance(term, Sum | Product):
            parts = [self._polynomial(part) for part in term.parts]
            total = parts[0]
            for part in parts[1:]:
                total = _multiply(total, part) if isinstance(term, Product) else _plus(total, part)
            return total
        if isinstance(term, Dim):  # the size of a tensor, which no argument of the function states
            raise _NotCountable
        if term in self.first_words:
            if words_of(term.type) != _INDEX_WORDS:  # readers of the polynomial take two words for each size
                raise _NotCountable
            return Counter({(self.first_words[term],): 1})  # 1 times the size
        # A value that the function computes.
        op = term.owner
        if isinstance(op, Block) or op.name not in ("arith.addi", "arith.muli"):
            raise _NotCountable
        lhs, rhs = (self._polynomial(self.sizes.resolve(term_of(operand))) for operand in op.operands)
        return _plus(lhs, rhs) if isinstance(op, arith.AddiOp) else _multiply(lhs, rhs)


def _plus(lhs: Polynomial, rhs: Polynomial) -> Polynomial:
    """Return the sum of two polynomials."""
    total = lhs.copy()
    total.update(rhs)  # adds: a polynomial is a Counter
    return total


def _multiply(lhs: Polynomial, rhs: Polynomial) -> Polynomial:
    """Return the product of two polynomials: (2 a)(3 b + 1) = 6 a b + 2 a."""
    product: Polynomial = Counter()
    for sizes, factor in lhs.items():
        for other_sizes, other_factor in rhs.items():
            product[tuple(sorted(sizes + other_sizes))] += factor * other_factor
    return product


def _per_iteration(op: Operation) -> int:
    """Return the number of arithmetic operations of an operation in a body, for one iteration of the loops around it.

    Raises _NotCountable for calls and control flow.
    """
    if op.regions or op.name.startswith(("func.", "util.", "scf.", "cf.")):
        raise _NotCountable
    return _per_element(op, op.results[0].type) if op.results else 0


def _per_element(op: Operation, type_: Attribute) -> int:
    """Return the number of arithmetic operations of an operation for each element of its result, of type `type_`: 0, 1,
    or 2 for a fused multiply-add."""
    if not _is_element(type_) or not _is_arithmetic(op):
        return 0
    return 2 if op.name == "math.fma" else 1


def _is_arithmetic(op: Operation) -> bool:
    """Return whether an operation on numbers is counted."""
    return op.name in _ARITHMETIC or op.name.startswith("math.")


def _is_element(type_: Attribute) -> bool:
    """Return whether a type is a number type, not an index or a truth value."""
    is_truth_value = isinstance(type_, IntegerType) and type_.width.data == 1
    return not is_truth_value and not isinstance(type_, IndexType | TensorType)
