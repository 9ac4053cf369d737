"""Names of outlined functions: the computation and its shape."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.kinds import is_fill, is_view
from pydispatch.compiler.fusion.naming import body_words, op_word
from pydispatch.compiler.kernels.matmul.match import is_contraction
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import is_reduction, structured
from pydispatch.ir.values import shape_of

MOST_WORDS = 4
"""Maximum number of fused operations that a name lists after its first word: longer names are hard to read."""


def is_quiet(op: Operation) -> bool:
    """Return whether names and reports omit an operation: a fill or a view."""
    return is_fill(op) or is_view(op)


def shape_text(type_: Attribute) -> str:
    """Return the shape of a tensor type as part of a name: `tensor<?x4xf32>` becomes `Dx4xf32`."""
    assert isinstance(type_, TensorType)
    return "".join(f"{'D' if d < 0 else d}x" for d in type_.get_shape()) + _word(str(type_.element_type))


def _word(text: str) -> str:
    """Return a text as part of a symbol: with "_" for all but letters and digits, and without "_" at its ends."""
    return "".join(c if c.isalnum() else "_" for c in text).strip("_")


def export_name(name: str, group: Sequence[Operation], outputs: Sequence[SSAValue]) -> str:
    """Return the name of an export, such as `f_dispatch_0_matmul_DxDx784xf32_add_maximumf`.

    The first word is the most expensive operation of the group. The sizes of its loops and its element type follow,
    then the operations that are fused after it. A well-known computation such as softmax, a copy, or a group of
    elementwise operations has a word for the whole instead.

    Args:
        name: The name that precedes these words, such as `f_dispatch_0`.
        group: The operations of the dispatch, in order.
        outputs: Its results.
    """
    # The operations that compute tensors, without fills and views, and the word for each operation, such as "matmul".
    named = [op for op in group if not is_quiet(op) and isinstance(op.results[0].type, TensorType)]
    word = {op: op_word(op) for op in named}
    # One word for the whole group.
    idiom = _idiom(named, outputs)  # such as "softmax"
    if idiom is not None:
        return f"{name}_{idiom}_{shape_text(outputs[0].type)}"
    if not named:
        return f"{name}_copy_{shape_text(outputs[0].type)}"
    is_elementwise = all(info_of(op).elementwise or _is_pointwise(op) for op in named)
    if is_elementwise and len(set(word.values())) > 1:  # a single word, such as "add", is more precise
        return f"{name}_elementwise_{shape_text(outputs[0].type)}"
    # Otherwise the word of the most expensive operation, and each word after it, once.
    main = max(named, key=_weight)
    words = [word[op] for op in named[named.index(main) + 1 :] if word[op] != word[main]]
    fused_words = list(dict.fromkeys(words))[:MOST_WORDS]
    return "_".join([name, word[main], loops_text(main), *fused_words])


def _idiom(ops: Sequence[Operation], outputs: Sequence[SSAValue]) -> str | None:
    """Return "softmax", "normalize" or "attention" if the operations seem to form this computation, else None.

    The result is part of a dispatch's name, so that a wrong guess misleads only readers.
    """
    reductions = [op for op in ops if is_reduction(op)]
    contraction_count = sum(is_contraction(op) for op in ops)
    words = {word for op in ops for word in body_words(op)}  # names of elementwise operations, such as "exp"
    # A softmax reduces rows to their maximum and to the sum of their exponentials.
    has_maximum = any("max" in word for word in words)
    if contraction_count == 0 and len(reductions) == 2 and has_maximum and "exp" in words:
        return "softmax"
    # A normalization divides rows by the root of a mean, which has one dimension less than the result.
    reduces_rows = bool(reductions) and len(shape_of(reductions[0].results[0])) < len(shape_of(outputs[0]))
    if contraction_count == 0 and reduces_rows and words & {"rsqrt", "sqrt"}:
        return "normalize"
    # Attention has a softmax between the products with keys and values.
    if contraction_count == 2 and "exp" in words:
        return "attention"
    return None


def _is_pointwise(op: Operation) -> bool:
    """Return whether `op` is a generic without reduction loops."""
    return op.name == "linalg.generic" and not is_reduction(op)


def _weight(op: Operation) -> int:
    """Return the rank of an operation's cost: contractions, then reductions, then others."""
    if is_contraction(op):
        return 3
    return 2 if is_reduction(op) or isinstance(op, OrderedOp) else 1


def loops_text(op: Operation) -> str:
    """Return the sizes of the loops of an operation with the element type of its result: `DxDx784xf32`, with D for a
    dynamic size.
    """
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    if not is_reduction(op):
        return shape_text(type_)
    return "".join(f"{'D' if n is None else n}x" for n in structured(op).extents) + _word(str(type_.element_type))
