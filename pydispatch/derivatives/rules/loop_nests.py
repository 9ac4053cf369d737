"""Loop nests of derivatives: the body of a `linalg.generic` is repeated, and its derivatives follow in reverse."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.derivatives.cotangents import Cotangents, is_float
from pydispatch.derivatives.rules.elements import ELEMENT_RULES
from pydispatch.graph.dtypes import DType, of_element
from pydispatch.graph.sizes import Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.elements import Element
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.programs.trace import Trace


class Operand(NamedTuple):
    """Tensor with its indexing map: from the loops of a nest to the tensor's axes, as in a `linalg.generic`."""

    tensor: Tensor
    map: AffineMap


@dataclass(frozen=True)
class Seed:
    """Cotangent of a value of the body of a loop nest, at which the derivatives of the body begin.

    Attributes:
        element: The value, such as one that the body yields.
        operands: Tensors that the cotangent is computed from, with their indexing maps.
        cotangent: cotangent(element, elements of the operands...) emits the cotangent in an iteration, and returns it.
    """

    element: SSAValue
    operands: tuple[Operand, ...]
    cotangent: Callable[..., Element]


class Elements:
    """Elements of the body of a derivative's loop nest, which repeats the operations of the differentiated body.

    Attributes:
        block: The body that is being written.
    """

    def __init__(self, block: Block, values: dict[SSAValue, SSAValue]) -> None:
        """Write into `block`. `values` maps each value of the differentiated body to its copy in `block`."""
        self.block, self._values = block, values

    def of(self, value: SSAValue) -> Element:
        """Return the repeated value as an element."""
        return element(self.block, self.value(value))

    def value(self, value: SSAValue) -> SSAValue:
        """Return the repetition of a value of the differentiated body; a value from outside is returned unchanged."""
        return self._values.get(value, value)


def element(block: Block, value: SSAValue) -> Element:
    """Return a value of a body as an element; a value of type index, which no derivative uses, counts as i64."""
    return Element(Scalars(block), Scalar(of_element(value.type), (value,)))


class LoopNest:
    """A `linalg.generic` that is differentiated, and emission of the loop nests that compute its derivatives.

    A rule creates an instance for one operation, and calls `summed` for each operand: it emits a loop nest over the
    same iterations that computes the operand's cotangent. `combined_over_loops` emits other nests over them.

    Attributes:
        cotangents: Cotangents of the program.
        op: The operation.
        inputs: Operands that the body reads.
        starts: Initial values of the results.
        input_maps: Indexing maps of `inputs`.
        result_maps: Indexing maps of the results.
        arguments: Arguments of the body: elements of `inputs`, then of the results so far.
        yielded: Values that the body yields, one for each result.
        is_reduction: Whether a loop is not parallel.
        combiners: Operations of a reduction that combine a new element with a result so far, such as the addition of a
            sum; one for each result. Empty without a reduction.
        operations: The other operations of the body, which compute new elements, without the terminator.

    Raises:
        CompileError: The body uses a result so far for anything but to combine it with a new element.
    """

    other_reduction_message = "a reduction by another function than a sum, a product, a maximum and a minimum"
    """Description in messages of a reduction without a derivative."""

    def __init__(self, cotangents: Cotangents, op: Operation) -> None:
        """Divide the body into combiners of a reduction and other operations; raise CompileError if one of the others
        reads a result so far.

        The body of a sum of products, `^bb0(a, b, so_far): p = a * b; s = so_far + p; yield s`, has the combiner `s`,
        the operation that computes the yielded value, and the other operation `p`. It may read a and b, not `so_far`.
        A nest whose loops are all parallel has no combiners.
        """
        assert isinstance(op, linalg.GenericOp)
        self.cotangents, self.op = cotangents, op
        self.inputs, self.starts = list(op.inputs), list(op.outputs)
        maps = [map.data for map in op.indexing_maps]
        self.input_maps, self.result_maps = maps[: len(self.inputs)], maps[len(self.inputs) :]
        self.arguments: list[SSAValue] = list(op.body.block.args)
        *body, end = op.body.block.ops
        self.yielded = list(end.operands)
        assert isinstance(op.iterator_types, ArrayAttr)
        self.is_reduction = any("parallel" not in str(kind) for kind in op.iterator_types)
        self.combiners = [value.owner for value in self.yielded] if self.is_reduction else []
        self.operations = [op for op in body if op not in self.combiners]
        results = self.arguments[len(self.inputs) :]  # the results so far
        if any(operand in results for operation in self.operations for operand in operation.operands):
            raise cotangents.refuse(self.other_reduction_message)

    @property
    def rank(self) -> int:
        """Return the number of loops."""
        return len(self.op.iterator_types)

    def operand(self, index: int) -> Operand:
        """Return an input with its indexing map."""
        return Operand(self.cotangents.program_tensor(self.inputs[index]), self.input_maps[index])

    def extents(self) -> list[Size]:
        """Return the number of iterations of each loop."""
        operands = [
            Operand(self.cotangents.program_tensor(value), map)
            for value, map in zip([*self.inputs, *self.op.results], [*self.input_maps, *self.result_maps], strict=True)
        ]
        return extents(operands, self.rank)

    def summed(self, seeds: Sequence[Seed], targets: Sequence[SSAValue], map: AffineMap) -> Tensor | None:
        """Emit a loop nest that adds up the cotangents of values of the body, `targets`, over all iterations.

        The cotangent of a value is the gradient of the program's result with respect to it. The body of the nest
        repeats the differentiated body, and then computes the cotangents of the body's values in reverse order.

        For y[i, j] = x[i, j] * w[j], the seed is the cotangent d[i, j] of the product. The target is the argument of
        the body that is an element of w, and the map (i, j) -> (j). The nest computes dw[j] = sum over i of
        d[i, j] * x[i, j].

        Args:
            seeds: Cotangents of values of the body at which the derivatives begin.
            targets: Values of the body, of one type, such as the arguments that are elements of one tensor. Their
                cotangents are added up, too.
            map: Map from the loops to the axes of the result. Iterations of the loops that it lacks are added up.

        Returns:
            The sum, or None if no seed depends on the targets.
        """
        # The targets and the values that are computed from them: only their cotangents are needed.
        dependent = self._dependent(targets)
        seeds = [seed for seed in seeds if seed.element in dependent]
        if not seeds:
            return None
        dtype = of_element(targets[0].type)
        operands = [operand for seed in seeds for operand in seed.operands]

        def cotangent(elements: Elements, seed_elements: Sequence[Element]) -> Element | None:
            """Emit the derivatives for one iteration, and return the sum of the cotangents of `targets`.

            Return None if no target has one.

            elements: copies of the values of the differentiated body. seed_elements: elements of the operands of all
            seeds, in order.
            """
            # The seeds, each of which takes the elements of its own operands; then the operations, in reverse order.
            remaining = list(seed_elements)
            by_value: dict[SSAValue, Element] = {}  # value of the body → the sum of its cotangents so far
            for seed in seeds:
                arguments, remaining = remaining[: len(seed.operands)], remaining[len(seed.operands) :]
                _add(by_value, seed.element, seed.cotangent(elements.of(seed.element), *arguments))
            for operation in reversed(self.operations):
                self._pull_back(operation, elements, by_value, dependent)
            cotangents = [by_value[target] for target in targets if target in by_value]
            return reduce(operator.add, cotangents) if cotangents else None

        return self.combined_over_loops(operands, map, dtype, cotangent)

    def _dependent(self, targets: Sequence[SSAValue]) -> set[SSAValue]:
        """Return the targets, and all floats of the body that depend on one of them."""
        dependent = set(targets)
        for operation in self.operations:
            if dependent.intersection(operation.operands):
                dependent |= {result for result in operation.results if is_float(result)}
        return dependent

    def _pull_back(
        self, operation: Operation, elements: Elements, by_value: dict[SSAValue, Element], dependent: set[SSAValue]
    ) -> None:
        """Add the cotangents of an operation's operands to `by_value`, for operands that depend on the targets.

        For `p = a * b`, if the cotangent of p is d, the rule of arith.mulf returns those of a and b: d * b and d * a.

        Args:
            operation: Operation of the body. The cotangent of its result is complete: operations are visited from the
                last to the first.
            elements: Copies of the body's values in the new body, which the derivatives read.
            by_value: Cotangents of the values of the body so far.
            dependent: The targets of `summed`, whose cotangents are wanted, and the values that depend on them.
        """
        if not dependent.intersection(operation.operands) or not operation.results:
            return
        result = operation.results[0]  # operations with a rule have one result
        cotangent = by_value.get(result)
        if cotangent is None:  # no seed depends on the result
            return
        rule = ELEMENT_RULES.get(operation.name)
        if rule is None:
            raise self.cotangents.refuse(f"'{operation.name.partition('.')[2]}' of numbers")
        operands = [elements.of(operand) for operand in operation.operands]
        # The terms for the operands' cotangents; None for an operand by which the derivative is 0 everywhere.
        partials = rule(*operands, elements.of(result), cotangent)
        for operand, partial in zip(operation.operands, partials, strict=True):
            if operand in dependent and partial is not None:
                _add(by_value, operand, partial)

    def _residuals(self) -> dict[SSAValue, Operand]:
        """Return a map from values of the body to the results that hold them, which derivatives read instead.

        It has the yielded values of functions such as exp, which take longer to compute again than to read.
        """
        if self.is_reduction:  # its results are combinations of many values
            return {}
        return {
            value: Operand(self.cotangents.program_tensor(result), map)
            for value, result, map in zip(self.yielded, self.op.results, self.result_maps, strict=True)
            if isinstance(value.owner, Operation) and value.owner.name.startswith("math.")
        }

    def combined_over_loops(
        self,
        operands: Sequence[Operand],
        map: AffineMap,
        dtype: DType,
        compute: Callable[[Elements, Sequence[Element]], Element | None],
        combine: str = "add",
        start: float | Tensor = 0,
        varies_only_with_map: bool = False,
    ) -> Tensor | None:
        """Emit a loop nest over the same iterations, and return its result.

        Its body repeats the operations of the differentiated body, so that `compute` can use all values of that body.
        Operations and operands that the computed element does not need are then removed.

        Args:
            operands: Further tensors whose elements `compute` receives.
            map: Map from the loops to the axes of the result. Elements of iterations that differ only in loops that it
                lacks are combined.
            dtype: Element type of the result.
            compute: compute(elements of the body, elements of the operands) emits the element of an iteration, and
                returns it; None emits no loop nest.
            combine: Function that combines the elements of iterations, by its name in `Reals.binary`.
            start: Number that `combine` begins with, or a tensor with one for each element of the result.
            varies_only_with_map: Whether the element is the same in all iterations of the loops that `map` lacks. The
                nest is then one over the loops of `map` alone, and combines nothing.

        Returns:
            The result; None if `compute` returned None.
        """
        trace = self.cotangents.trace
        block, values, all_operands, own_values = self._repeated_body(operands)  # own_values: elements of `operands`
        computed = compute(Elements(block, values), [element(block, value) for value in own_values])
        if computed is None:
            return None
        result = computed.scalar

        # Choose the loops of the new operation, and remove the operands that it does not need.
        loops = [expr.position for expr in map.results if isinstance(expr, AffineDimExpr)]  # those of the result
        sizes = self.extents()
        shape = tuple(sizes[loop] for loop in loops)
        nest = loops if varies_only_with_map else list(range(self.rank))  # the loops of the new operation
        # The loops whose extents no operand has to state: they are left out, or an axis of the result has them.
        covered = set(range(self.rank)).difference(nest) | set(loops)
        needed = _pruned(block, result.value, all_operands, covered)  # the operands that the body still reads
        is_first_operand = bool(block.args) and result.value is block.args[0]
        has_all_loops = len(loops) == self.rank
        if is_first_operand and needed[0].map == map and has_all_loops:  # the nest would only copy this operand
            return needed[0].tensor
        # Loop of the differentiated operation → loop of the new one.
        renumbered = {loop: position for position, loop in enumerate(nest)}

        _renumber_indices(block, renumbered)
        running = block.insert_arg(dtype.element, len(block.args))  # the result so far
        if len(loops) == len(nest):
            out = trace.empty(dtype.element, shape)
        else:  # iterations share an element of the result
            out = _initial_value(trace, start, dtype, shape)
            result = Scalars(block).binary(combine, Scalar(dtype, (running,)), result)
        inputs = [(trace.value(of), _renumbered(own_map, renumbered)) for of, own_map in needed]
        parallel = [loop in loops for loop in nest]
        outputs = [(out, _renumbered(map, renumbered))]
        return trace.wrap(dtype, shape, *trace.generic_of(inputs, outputs, parallel, block, [result.value]))

    def _repeated_body(
        self, operands: Sequence[Operand]
    ) -> tuple[Block, dict[SSAValue, SSAValue], list[Operand], Sequence[SSAValue]]:
        """Begin the body of a new loop nest with copies of the operations of the differentiated body.

        Residuals are the values that `_residuals` returns. They are not computed again: the new nest reads the tensors
        that store them. For y = exp(x * w), whose residual is y, and with the operand d, the new body is
        `^bb0(x1, w1, y1, d1, y2): p1 = x1 * w1`. The values are {x: x1, w: w1, y: y1, p: p1} for the product p, and the
        tensors x, w, y, d and y. The second y is there only for the extents of loops, as below.

        Args:
            operands: Further tensors that the new nest reads.

        Returns:
            The new body; the copy in it of each value of the differentiated body; the tensors whose elements are its
            arguments; and those of the arguments that are elements of `operands`.
        """
        own = [self.operand(index) for index in range(len(self.inputs))]
        residuals = self._residuals()
        # The results of the operation state the extents of loops that no input has. `_pruned` removes unused operands.
        results = [
            Operand(self.cotangents.program_tensor(result), of_result)
            for result, of_result in zip(self.op.results, self.result_maps, strict=True)
        ]
        all_operands = [*own, *residuals.values(), *operands, *results]
        block = Block(arg_types=[of.dtype.element for of, _ in all_operands])
        repeated = [*self.arguments[: len(own)], *residuals]  # values of the body that are arguments of the new one
        # The block has more arguments: those for `operands` and `results`, which stand for no value of the old body.
        values: dict[SSAValue, SSAValue] = dict(zip(repeated, block.args, strict=False))
        for operation in self.operations:
            if not any(result in residuals for result in operation.results):
                block.add_op(operation.clone(values))
        return block, values, all_operands, block.args[len(repeated) : len(repeated) + len(operands)]


def _renumber_indices(block: Block, loop_of: Mapping[int, int]) -> None:
    """Replace the loops whose indices a body reads by those that they become in the new operation."""
    for op in block.ops:
        if isinstance(op, linalg.IndexOp):
            op.properties["dim"] = linalg.IndexOp(loop_of[op.dim.value.data]).dim


def _initial_value(trace: Trace, start: float | Tensor, dtype: DType, shape: Shape) -> SSAValue:
    """Return the result before the first iteration: a tensor, or a number for all its elements."""
    if isinstance(start, Tensor):
        return trace.value(start)
    return trace.splat(trace.scalar_constant(start, dtype), shape)


def extents(operands: Sequence[Operand], rank: int) -> list[Size]:
    """Return the number of iterations of each of `rank` loops: the size of an axis that the loop alone indexes.

    Of several such axes, the one of the first operand counts. Each loop must index one.
    """
    sizes: dict[int, Size] = {}
    for of, map in operands:
        for expr, size in zip(map.results, of.shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                sizes.setdefault(expr.position, size)
    return [sizes[loop] for loop in range(rank)]


def _add(cotangents: dict[SSAValue, Element], value: SSAValue, cotangent: Element) -> None:
    """Add to the cotangent of a value of a body."""
    known = cotangents.get(value)
    cotangents[value] = cotangent if known is None else known + cotangent


def _renumbered(map: AffineMap, loops: dict[int, int]) -> AffineMap:
    """Return an indexing map of another loop nest. `loops` maps the loops of `map` to those of the other nest."""
    results = (AffineDimExpr(loops[expr.position]) if isinstance(expr, AffineDimExpr) else expr for expr in map.results)
    return AffineMap(len(loops), 0, tuple(results))


def _pruned(block: Block, result: SSAValue, operands: Sequence[Operand], covered: set[int]) -> list[Operand]:
    """Remove the operations and arguments of a body that its result does not need. Return the remaining operands.

    A `linalg.generic` takes the extent of a loop, its number of iterations, from the axis of an operand that the loop
    indexes. So an operand that is not read remains if no earlier one, and none that is read, states the extent of one
    of its loops. If the result needs only a [M, K] with the map (m, k, n) -> (m, k), and `covered` is empty, the first
    operand that n indexes, such as b [K, N], remains too.

    Args:
        block: The body, without a terminator.
        result: The value that it will yield.
        operands: The operands that the arguments of the body are elements of, in the same order.
        covered: Loops whose extents are known without operands.
    """
    # The operations, from the last to the first: those that only removed ones have used are removed, too.
    for op in reversed(list(block.ops)):
        if result not in op.results and not any(value.uses for value in op.results):
            op.detach()
            op.erase()
    # The operands.
    covered = set(covered)
    used = [argument is result or bool(argument.uses) for argument in block.args]
    for operand, is_used in zip(operands, used, strict=True):
        covered |= _loops(operand.map) if is_used else set()  # now also the loops of operands that remain in any case
    remaining = []
    for argument, operand, is_used in zip(list(block.args), operands, used, strict=True):
        if is_used or not _loops(operand.map) <= covered:
            covered |= _loops(operand.map)
            remaining.append(operand)
        else:
            block.erase_arg(argument)
    return remaining


def _loops(map: AffineMap) -> set[int]:
    """Return the loops that an indexing map names."""
    return {expr.position for expr in map.results if isinstance(expr, AffineDimExpr)}
