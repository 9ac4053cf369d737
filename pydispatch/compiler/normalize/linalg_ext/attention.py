"""Rules that replace `attention` and `online_attention` by products of queries and keys, softmax, products with values.

What is computed for one score is one generic, and the softmax is that of `linalg.softmax`, so that formation fuses
them as it fuses others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import e, log2, prod, sqrt
from typing import NamedTuple

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, IntegerType, TensorType, f32, f64, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.normalize.bodies import BodyBuilder, cast_operation, product_sum
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import computed, generic
from pydispatch.compiler.normalize.moves import projection
from pydispatch.compiler.normalize.softmax import LOWEST, MAXIMUM_FLAGS, softmax
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects import tm_tensor
from pydispatch.ir.dialects.iree_linalg_ext.attention import Attention, AttentionOp, IndexOp, OnlineAttentionOp
from pydispatch.ir.dialects.linalg import regions
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of

Dims = Sequence[int]
"""For each dimension of a tensor, the number of the attention's loop that indexes it."""


class TensorAxis(NamedTuple):
    """Dimension `axis` of a tensor."""

    tensor: SSAValue
    axis: int


class Decomposition:
    """Rewriter of one `iree_linalg_ext.attention` to products, a softmax and other generics.

    A decomposition calls `scores`, computes weights from the scores, and calls `weighted_values`. The dimensions of a
    tensor are stated as loops of the attention (`Dims`): those that index them, in order.

    Attributes:
        op: The attention.
        build: Builder that inserts operations before it.
        loops: Its loops by their roles: rows, columns, features and so on.
        dims: For each operand, the loops that index its dimensions. Operands are the query, the key, the value, the
            scale if there is one, the mask if there is one, and the outputs.
    """

    def __init__(self, op: Attention, build: Build) -> None:
        """Map loops to dimensions of operands, and choose the type of scores and sums."""
        self.op, self.build = op, build
        self.loops = op.loops()
        # For each operand, the loops that index its dimensions.
        self.dims = [[e.position for e in m.results if isinstance(e, AffineDimExpr)] for m in op.maps()]
        self.axis_of_loop: dict[int, TensorAxis] = {}
        """Loop → the dimension of an operand that has the loop's size, a static one if there is one."""
        for operand, dims in zip(op.operands, self.dims, strict=True):
            for axis, (d, size) in enumerate(zip(dims, shape_of(operand.type), strict=True)):
                if d not in self.axis_of_loop or size != DYNAMIC:
                    self.axis_of_loop[d] = TensorAxis(operand, axis)
        # The argument of the body is a score: a body of f64 modifies scores in f64.
        score_types = [] if op.body is None else [op.body.block.args[0].type]
        types = [*score_types, *(element_type(v.type) for v in op.operands)]
        self.accumulator_type: AnyFloat = f64 if f64 in types else f32
        """The element type of scores and sums."""

    @property
    def output_dims(self) -> list[list[int]]:
        """For each output, the loops that index its dimensions."""
        return self.dims[len(self.op.inputs) :]

    # ---- tensors

    def type(self, dims: Dims, element: Attribute) -> TensorType[Attribute]:
        """Return the type of a tensor with these dimensions."""
        axes = [self.axis_of_loop[d] for d in dims]
        return TensorType(element, [shape_of(tensor.type)[axis] for tensor, axis in axes])

    def sizes(self, dims: Dims) -> list[SSAValue]:
        """Return the dynamic sizes among these dimensions, as values."""
        axes = [self.axis_of_loop[d] for d in dims]
        return [self.build.dim(tensor, axis) for tensor, axis in axes if shape_of(tensor.type)[axis] == DYNAMIC]

    def empty(self, dims: Dims, element: Attribute | None = None) -> SSAValue:
        """Emit a tensor with these dimensions and undefined elements.

        element: their type; None for `accumulator_type`, that of scores and sums.
        """
        return self.build.empty(self.type(dims, element or self.accumulator_type), self.sizes(dims))

    def structure(self, loops: Dims, *, operands: Sequence[Dims], reduced: Dims = ()) -> Structure:
        """Return the indexing maps and loop kinds of a generic that iterates over `loops`.

        Args:
            loops: The loops.
            operands: The loops that index the dimensions of each operand, the output last.
            reduced: The loops that are reductions.
        """
        maps = [projection(len(loops), [loops.index(d) for d in dims]) for dims in operands]
        return Structure(tuple(maps), tuple(d not in reduced for d in loops))

    def cast(self, value: SSAValue, dims: Dims, element: Attribute) -> SSAValue:
        """Return `value` with its elements converted to the float type `element`; unchanged if they have it.

        Args:
            value: The tensor.
            dims: The loops that index its dimensions.
            element: The new element type.
        """
        if element_type(value.type) == element:
            return value
        (converted,) = computed(
            self.build, self.structure(dims, operands=[dims, dims]), [value], [self.empty(dims, element)],
            lambda body, x, _: [body.cast(x, element, unsigned=False)],
        )  # fmt: skip
        return converted

    def product(
        self, lhs: SSAValue, lhs_dims: Dims, rhs: SSAValue, rhs_dims: Dims, acc: SSAValue, acc_dims: Dims
    ) -> SSAValue:
        """Return acc + the sum of lhs * rhs over the loops of `lhs` that `acc` does not have.

        lhs_dims, rhs_dims, acc_dims: the loops that index the dimensions of `lhs`, `rhs` and `acc`.
        """
        reduced = [d for d in lhs_dims if d not in acc_dims]
        structure = self.structure([*acc_dims, *reduced], operands=[lhs_dims, rhs_dims, acc_dims], reduced=reduced)
        types = [element_type(v.type) for v in (lhs, rhs, acc)]
        (product,) = generic(self.build, structure, [lhs, rhs], [acc], product_sum(types, unsigned=False))
        return product

    # ---- steps of an attention

    def scores(self, factor: float = 1.0) -> SSAValue:
        """Emit the scores factor * (body(scale * query * key) + mask), and return them.

        The body, an optional region of the attention, modifies a score; the mask is an optional input. `query * key` is
        summed over the features. The scores have the rows, then the columns as dimensions: [8, 16] for 8 queries
        [8, 64] and 16 keys [16, 64].

        Args:
            factor: log2(e) where the exponentials have base 2, since exp(x) = 2 ** (log2(e) * x); otherwise 1.
        """
        op, build, score_type = self.op, self.build, self.accumulator_type
        score_dims = self.loops.scores  # the loops that index the scores
        # The products, summed over the features.
        zero = build.splat(0.0, self.type(score_dims, score_type), self.sizes(score_dims))
        (query, key, *_), (query_dims, key_dims, *_) = op.inputs, self.dims
        products = self.product(query, query_dims, key, key_dims, zero, score_dims)
        # All other steps, in one generic over the elements of the scores.
        scale = self.scale()

        def element(body: BodyBuilder, score: SSAValue, *others: SSAValue) -> list[SSAValue]:
            """Emit factor * (body(scale * score) + mask) for one score; `body` here is that of the attention `op`.

            others: the element of the mask, if there is a mask, and that of the output, which is not read.
            """
            score = self._modified(body, body.add(arith.MulfOp(score, scale)))
            if op.mask is not None:
                score = self._masked(body, score, others[0])
            if factor != 1.0:
                score = body.add(arith.MulfOp(score, build.scalar(factor, score_type)))
            return [score]

        inputs: list[SSAValue] = [products]
        input_dims: list[Dims] = [score_dims]
        if op.mask is not None:
            inputs.append(op.mask)
            input_dims.append(self.dims[len(op.inputs) - 1])  # the mask is the last input
        structure = self.structure(score_dims, operands=[*input_dims, score_dims])
        (scores,) = computed(build, structure, inputs, [self.empty(score_dims)], element)
        return scores

    def scale(self) -> SSAValue:
        """Return the scale of the scores; 1 / sqrt(number of features) if the attention states none."""
        build, scale = self.build, self.op.scale
        if scale is not None:
            conversion = cast_operation(scale, self.accumulator_type, unsigned=False)  # None if it has the type
            return scale if conversion is None else build.add(conversion).results[0]
        features = self.type(self.loops.features, self.accumulator_type).get_shape()
        if DYNAMIC not in features:
            return build.scalar(1 / sqrt(prod(features)), self.accumulator_type)
        # The number of features is computed at run time, as the product of the sizes of their loops.
        count = build.index(1)
        for d in self.loops.features:
            count = build.add(arith.MuliOp(count, build.dim(*self.axis_of_loop[d]))).result
        as_integer = build.add(arith.IndexCastOp(count, i64)).result
        as_float = build.add(arith.SIToFPOp(as_integer, self.accumulator_type)).result
        return build.add(math.RsqrtOp(as_float)).result

    def _modified(self, body: BodyBuilder, score: SSAValue) -> SSAValue:
        """Emit the body of the attention for a score, and return the modified score; `score` if there is no body.

        The body has the score as its argument, and its `index` operations return dimensions of the attention.
        """
        if self.op.body is None:
            return score
        block = self.op.body.block
        values: dict[SSAValue, SSAValue] = {block.args[0]: body.cast(score, block.args[0].type, unsigned=False)}
        last = block.last_op
        assert last is not None
        for inner in block.ops:
            if inner is last:
                break
            if isinstance(inner, IndexOp):
                # Dimension of the attention -> loop of the generic that computes the scores.
                dim = self.loops.scores.index(inner.dim.value.data)
                values[inner.result] = body.add(regions.IndexOp(dim))
            else:
                body.block.add_op(inner.clone(values))
        return body.cast(values.get(last.operands[0], last.operands[0]), self.accumulator_type, unsigned=False)

    def _masked(self, body: BodyBuilder, score: SSAValue, mask: SSAValue) -> SSAValue:
        """Emit a masked score: -inf where an i1 mask is false, or the sum with any other mask."""
        if mask.type == IntegerType(1):
            return body.add(arith.SelectOp(mask, score, self.build.scalar(float("-inf"), self.accumulator_type)))
        return body.add(arith.AddfOp(score, body.cast(mask, self.accumulator_type, unsigned=False)))

    def weighted_values(self, weights: SSAValue, acc: SSAValue, dims: Dims) -> SSAValue:
        """Return acc + the sum over the keys of weights * values.

        Values of 16 bits are multiplied with weights that are rounded to their type. Floats of 8 bits are too coarse
        for weights: such values are converted to the type of the weights instead.

        dims: the loops that index the dimensions of `acc`.
        """
        _query, _key, values, *_ = self.op.inputs
        _, _, value_dims, *_ = self.dims
        score_dims = self.loops.scores  # the loops that index the scores, and so the weights
        value_type = element_type(values.type)
        if isinstance(value_type, AnyFloat) and 8 < value_type.bitwidth < self.accumulator_type.bitwidth:
            weights = self.cast(weights, score_dims, value_type)
        return self.product(weights, score_dims, values, value_dims, acc, dims)

    def over_columns(
        self, values: SSAValue, initial: SSAValue, dims: Dims, combine: Callable[..., Sequence[SSAValue]]
    ) -> SSAValue:
        """Return the reduction of each row of `values`, which has the dimensions of the scores.

        Args:
            values: The tensor.
            initial: What the reduction of each row begins with.
            dims: The loops that index the dimensions of `initial` and of the result.
            combine: Function of (body, element, reduced so far) that emits the next reduced value, in a list.
        """
        structure = self.structure(self.loops.scores, operands=[self.loops.scores, dims], reduced=self.loops.columns)
        (result,) = computed(self.build, structure, [values], [initial], combine)
        return result


def _attention(op: Operation, build: Build) -> None:
    """Replace attention by its scores, their softmax (the weights), and the sums of the values times the weights."""
    assert isinstance(op, AttentionOp)
    rewriter = Decomposition(op, build)
    loops, output_dims = rewriter.loops, rewriter.output_dims[0]
    scores = rewriter.scores()
    columns = range(len(loops.rows), len(loops.scores))  # axes of the scores after those of the rows
    weights = softmax(build, scores, rewriter.empty(loops.scores), along=columns, is_masked=op.mask is not None)
    zero = build.splat(0.0, rewriter.type(output_dims, rewriter.accumulator_type), rewriter.sizes(output_dims))
    values = rewriter.weighted_values(weights, zero, output_dims)
    build.replace(rewriter.cast(values, output_dims, element_type(op.outputs[0].type)))


def _online_attention(op: Operation, build: Build) -> None:
    """Replace `online_attention`, which updates the running results of earlier keys by those of further keys.

    For each row, with the old output `acc`, maximum `m` and sum `l`, and the scores `s` of the further keys:

        m_new = max(m, max(s))
        weights = exp(s - m_new)
        l_new = l * exp(m - m_new) + sum(weights)
        acc_new = acc * exp(m - m_new) + weights * values

    The old sums are relative to the old maximum; the factor exp(m - m_new) makes them relative to the new one. With
    exponentials of base 2, `s` and `m` are multiplied by log2(e), and exp(x) is 2 ** x.
    """
    assert isinstance(op, OnlineAttentionOp)
    rewriter = Decomposition(op, build)
    score_dims = rewriter.loops.scores
    scores = rewriter.scores(log2(e) if op.is_base_two else 1.0)
    # The old results, with elements of the type that sums are computed in.
    sum_type = rewriter.accumulator_type
    acc_dims, maximum_dims, total_dims = rewriter.output_dims
    acc, maximum, total = (
        rewriter.cast(value, dims, sum_type) for value, dims in zip(op.outputs, rewriter.output_dims, strict=True)
    )
    exponential = partial(
        _exp_of_difference, power=math.Exp2Op if op.is_base_two else math.ExpOp,
        lowest=build.scalar(LOWEST[sum_type], sum_type),
    )  # fmt: skip

    # The bodies of generics below get an element of each input, then of the output; `_` is an output that is not read.
    new_maximum = rewriter.over_columns(
        scores, maximum, maximum_dims, lambda body, x, acc: [body.add(arith.MaxnumfOp(acc, x, MAXIMUM_FLAGS))]
    )
    (weights,) = computed(
        build, rewriter.structure(score_dims, operands=[score_dims, maximum_dims, score_dims]),
        [scores, new_maximum], [rewriter.empty(score_dims)],
        lambda body, x, largest, _: [exponential(body, x, largest)],
    )  # fmt: skip

    def rescaled(value: SSAValue, dims: Dims) -> SSAValue:
        """Return `value`, an old output or sum, multiplied by exp(maximum - new_maximum) of its row.

        dims: the loops that index the dimensions of `value`.
        """
        (result,) = computed(
            build, rewriter.structure(dims, operands=[dims, maximum_dims, maximum_dims, dims]),
            [value, maximum, new_maximum], [rewriter.empty(dims)],
            lambda body, x, old, new, _: [body.add(arith.MulfOp(x, exponential(body, old, new)))],
        )  # fmt: skip
        return result

    new_total = rewriter.over_columns(
        weights, rescaled(total, total_dims), total_dims, lambda body, x, acc: [body.add(arith.AddfOp(acc, x))]
    )
    new_acc = rewriter.weighted_values(weights, rescaled(acc, acc_dims), acc_dims)
    # All results in the types of the operation's outputs.
    updated = ((new_acc, acc_dims), (new_maximum, maximum_dims), (new_total, total_dims))
    types = [element_type(o.type) for o in op.outputs]
    build.replace(*(rewriter.cast(value, dims, type) for (value, dims), type in zip(updated, types, strict=True)))


def _exp_of_difference(
    body: BodyBuilder, x: SSAValue, maximum: SSAValue, *, power: Callable[[SSAValue], Operation], lowest: SSAValue
) -> SSAValue:
    """Emit power(x - maximum).

    If no score was read yet, both are -inf, and -inf - -inf would be NaN. The lowest finite number, `lowest`, replaces
    such a maximum: the exponential is 0.
    """
    finite_maximum = body.add(arith.MaximumfOp(maximum, lowest))
    return body.add(power(body.add(arith.SubfOp(x, finite_maximum))))


def _of_matrices(op: Operation, build: Build) -> None:
    """Replace `tm_tensor.attention` by an attention with the maps of its matrices.

    Query [..., m, d], key [..., k, d], value [..., k, n] and result [..., m, n] have the same leading batch dimensions.
    Loops: m queries, d features of queries and keys, k keys, n features of values. A fourth input is the mask
    [..., m, k].
    """
    assert isinstance(op, tm_tensor.AttentionOp)
    query = op.inputs[0]
    rank = len(shape_of(query.type))
    m, d, k, n = range(rank - 2, rank + 2)

    def map_of(row_loop: int, column_loop: int) -> AffineMapAttr:
        """Return the map of a batch of matrices: from all loops to the batch loops, `row_loop` and `column_loop`."""
        results = (*range(rank - 2), row_loop, column_loop)  # the first rank - 2 loops are those of the batch
        return AffineMapAttr(projection(rank + 2, results))

    maps = [map_of(m, d), map_of(k, d), map_of(k, n)]
    maps += [map_of(m, k)] if len(op.inputs) == 4 else []
    attention = AttentionOp.build(
        operands=[list(op.inputs), list(op.outputs)],
        result_types=[[r.type for r in op.res]], regions=[[]],
        properties={"indexing_maps": ArrayAttr([*maps, map_of(m, n)])},
    )  # fmt: skip
    attention.verify_operands()
    build.replace(*build.add(attention).res)


ROWS: dict[str, Row] = {
    "iree_linalg_ext.attention": _attention,
    "iree_linalg_ext.online_attention": _online_attention,
    "tm_tensor.attention": _of_matrices,
}
"""Name of an operation → function that replaces it."""
