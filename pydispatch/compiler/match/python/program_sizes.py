"""Sizes of the tensors of a pattern that is a program: which are equal wherever its operations are, which are not."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.match.graph.facts import size_identity
from pydispatch.compiler.match.graph.view import source_of
from pydispatch.compiler.match.python.same_sizes import Axis, SameSizes
from pydispatch.ir.structured import as_structured


class ProgramSizes:
    """Analysis of the sizes in a pattern that is a program: which axes of its tensors have equal sizes.

    `axes_to_compare` creates an analysis for a pattern whose operations are those of a traced program, and reads `same`
    and `repeated`.

    Axes are joined to one class where an operation makes their sizes equal. An axis is (number of a tensor, dimension).
    For `x + y` with two vectors, tensors 0 and 1, one loop runs along both and along the sum: (0, 0), (1, 0) and the
    axis of the sum are one class. Its representative is its least axis, (0, 0).

    The matcher compares the sizes of arguments and of some results with the program, but not those of the results of
    loop nests (linalg operations) and splats. These have the highest numbers, so that the least axis of a class is a
    compared one if there is one.

    Attributes:
        same: The classes of axes of equal sizes.
    """

    def __init__(self, block: Block, same: SameSizes) -> None:
        """Assign numbers to the tensors, and join the axes along which one loop runs: they have equal sizes."""
        self.same = same
        self._arguments = {argument: index for index, argument in enumerate(block.args)}
        self._loop_nests = [(op, loops) for op in block.ops if (loops := _loops_of(op)) is not None]
        # The numbers are in the order: arguments, other results, results of loop nests.
        computed = dict.fromkeys(result for op, _ in self._loop_nests for result in op.results)
        other = [result for op in block.ops for result in op.results if result not in computed]
        self._compared_count = len(block.args) + len(other)  # tensors below this number are compared by the matcher
        self._numbers = {value: index for index, value in enumerate([*block.args, *other, *computed])}
        for _, maps in self._loop_nests:
            axis_of_loop: dict[int, Axis] = {}  # position of a loop -> the first axis along which it runs
            for value, map_ in maps:
                for dimension, expr in enumerate(map_.results):
                    if isinstance(expr, AffineDimExpr):  # the loop runs along this axis from 0 to its size
                        axis = self._numbers[source_of(value)], dimension  # of the tensor before casts
                        same.join(axis_of_loop.setdefault(expr.position, axis), axis)

    def repeated(self) -> Iterator[tuple[OpResult, int, Axis | None]]:
        """Yield the dynamic axes whose sizes the matcher does not compare with the program, one of each class `same`.

        A broadcast repeats elements along such an axis. In `np.broadcast_to(x, (y.shape[0], x.shape[0])).sum(axis=0)`
        it is axis 0 of the broadcast: only the loop over the repetitions runs along it. Each item is the tensor, the
        dimension, and the axis of an argument that states the size, here axis 0 of y, or None for a size that the
        pattern computes.
        """
        seen: set[Axis] = set()
        for op, _ in self._loop_nests:
            for result in op.results:
                for dimension, size in enumerate(_sizes(result)):
                    axis = self.same.find((self._numbers[result], dimension))
                    is_compared = axis[0] < self._compared_count  # the least tensor of its class is a compared one
                    if size == DYNAMIC_INDEX and not is_compared and axis not in seen:
                        seen.add(axis)
                        yield result, dimension, self._argument_axis(result, dimension)

    def _argument_axis(self, value: SSAValue, dimension: int) -> Axis | None:
        """Return the axis of an argument from which a size of a tensor is read; None for a computed size."""
        origin = size_identity(value, dimension)  # (tensor, dimension) if the size is read from a tensor
        if isinstance(origin, tuple) and origin[0] in self._arguments:
            tensor, axis = origin
            return self._arguments[tensor], axis
        return None


def _sizes(value: SSAValue) -> tuple[int, ...]:
    """Return the sizes of a tensor, () for any other value."""
    return value.type.get_shape() if isinstance(value.type, TensorType) else ()


def _loops_of(op: Operation) -> list[tuple[SSAValue, AffineMap]] | None:
    """Return each tensor that a loop nest reads or computes, with the map from loops to its elements.

    Operands whose elements the nest does not read, such as most initial outputs, are left out. A splat is a loop nest
    that reads no tensor. Return None for other operations.
    """
    if op.name == "tensor.splat":
        return [(op.results[0], AffineMap.identity(len(_sizes(op.results[0]))))]
    nest = as_structured(op)
    if nest is None:
        return None
    operands = zip(nest.operands, nest.maps, strict=True)
    read = [pair for pair, argument in zip(operands, nest.block.args, strict=True) if argument.uses]
    pairs = [*read, *zip(op.results, nest.output_maps, strict=True)]
    return [(value, map_) for value, map_ in pairs if isinstance(value.type, TensorType)]
