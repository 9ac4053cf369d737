"""Bytes that elements take in memory, and that the computation of an element reads: the cost of loop nests."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes, structured_of
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.structured import Structured


def elements_per_byte(value: SSAValue) -> int:
    """Return the number of elements per byte: 1 for elements of 8 bits or more."""
    bits = bits_of(tensor_type(value).element_type)
    return 8 // bits if bits < 8 else 1


def element_bytes_of(value: SSAValue) -> int:
    """Return the bytes of an element; 1 for elements of fewer than 8 bits."""
    return max(1, bits_of(tensor_type(value).element_type) // 8)


def estimate_read_bytes(nest: LoopNest, elements: Elements, build: Builder) -> tuple[int, Index]:
    """Estimate the bytes that the computation of an element of a nest reads.

    An elementwise a + b of f32 reads (8, 0). The sum of 100 elements of f32 reads (0, 400).

    Returns:
        The bytes of arguments that are read outside of reductions, and the bytes that all steps of the reductions read.
        The first is 0 if there is a reduction: arguments that the reduction reads would be counted twice.
    """
    argument_bytes = 0
    reductions: list[Structured] = []
    for value in nest.tensors():
        if not isinstance(value, OpResult):  # an argument of the dispatch function; one of rank 0 is loaded only once
            argument_bytes += element_bytes_of(value) if tensor_type(value).get_num_dims() else 0
        elif value.op.name == "linalg.generic" and (generic := structured_of(elements, value.op)).reduced_loops:
            reductions.append(generic)
    loop_bytes: Index = 0
    for generic in reductions:
        loop_bytes = build.plus(loop_bytes, _bytes_of_reduction(elements, build, generic))
    return (0 if reductions else argument_bytes), loop_bytes


def _bytes_of_reduction(elements: Elements, build: Builder, generic: Structured) -> Index:
    """Estimate the bytes that all steps of a reduction read for one element of its result.

    A step that reads no tensor, such as that of a sum of loop indices, counts as one byte: it takes time, too.
    """
    sizes = loop_sizes(elements, generic)
    steps = build.product([sizes[dim] for dim in generic.reduced_loops])
    bytes_per_step = sum(element_bytes_of(input_) for input_ in generic.inputs if _is_tensor(input_))
    return build.times(steps, bytes_per_step or 1)


def _is_tensor(value: SSAValue) -> bool:
    """Return whether a value is a tensor."""
    return isinstance(value.type, TensorType)
