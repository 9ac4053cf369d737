"""Lowering of dispatch functions to kernel IR: chooses the kernel generator by what the function computes.

Contractions have kernels of their own; everything else is a nest over the elements of its results, flat where all
tensors have the same sizes and every element depends on its own position only.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.analysis.in_place import GRID
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel, sizes_of
from pydispatch.compiler.kernels.loops.lower import lower_loops, lower_whole
from pydispatch.compiler.kernels.matmul.cpu.kernel import lower_contraction
from pydispatch.compiler.kernels.ops.builder import Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.kernels.wide_sums import with_wide_sums
from pydispatch.compiler.target.backend import Backend, require_backend
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal import dialect as hal

__all__ = ["Kernel", "lower", "sizes_of"]


def lower(source: func.FuncOp, target: hal.ExecutableTargetAttr) -> Kernel:
    """Lower a dispatch function to kernel IR for one target.

    Raises:
        CompileError: An operation cannot be lowered.
    """
    backend, reassociate = require_backend(target), reassociates(target)
    if GRID in source.attributes:  # the program states the number of workgroups, and the body is one workgroup's code
        frame = Frame(source, backend, reassociate)
        frame.bind()
        return lower_whole(frame)
    # Matrix kernels reassociate sums and fuse products with additions, which changes the rounding of floats. Without
    # the permission of the target, they are used for functions without floats only.
    may_regroup = reassociate or not _computes_floats(source)
    contraction = _contraction(source, target, backend) if may_regroup else None
    if contraction is not None:
        return contraction
    if may_regroup:
        source = with_wide_sums(source)  # floats below 32 bits accumulate in f32
    frame = Frame(source, backend, reassociate)
    if backend.has_invocations:
        from pydispatch.compiler.kernels.loops.gpu.lower import lower_gpu  # not imported for other targets

        return lower_gpu(frame, target, _flat_count)
    # If the function is elementwise, all tensors are bound as one dimension of this many elements; else it is None.
    frame.bind(flat=_flat_count(frame))
    return lower_loops(frame)


def _contraction(source: func.FuncOp, target: hal.ExecutableTargetAttr, backend: Backend) -> Kernel | None:
    """Return the kernel of a contraction, such as a matrix product, or of a chain: two where one reads the other's
    result.

    Return None for a function that computes something else, and if the target has no kernel for the contraction.
    """
    machine, generation = backend.cpu_machine(target), backend.mma_generation(target)
    if machine is not None:  # a CPU
        return lower_contraction(source, backend, machine)
    if not backend.has_invocations and generation is None:  # a device without kernels for contractions
        return None
    from pydispatch.compiler.kernels.matmul.gpu.chain import lower_chain_gpu
    from pydispatch.compiler.kernels.matmul.gpu.kernel import lower_contraction_gpu

    # Chains of two need invocations, but no matrix instructions. A single product needs these: `generation` states
    # their shapes, and is None if there are none.
    chain = lower_chain_gpu(source, backend) if backend.has_invocations else None
    if chain is not None or generation is None:
        return chain
    return lower_contraction_gpu(source, backend, generation)


def reassociates(target: hal.ExecutableTargetAttr) -> bool:
    """Return whether a target allows to reassociate sums of floats: unless it states `reassociate = false`."""
    value = target.configuration.data.get("reassociate")
    return not (isinstance(value, IntegerAttr) and value.value.data == 0)


def _computes_floats(source: func.FuncOp) -> bool:
    """Return whether any tensor that a dispatch function computes has float elements."""
    floats = (v.type for op in walk(source) for v in op.results if isinstance(v.type, TensorType))
    return any(isinstance(t.element_type, AnyFloat) for t in floats)


def _flat_count(frame: Frame) -> Index | None:
    """Return the number of elements of a function that one loop over all elements can compute; None for another.

    All of its tensors have the same sizes or rank 0, and each element depends on its own position only. So a + b of
    f32[64, 100] has 6400 elements, and a transposition returns None. With a number, the caller binds all tensors as
    one dimension of this size.
    """
    results = frame.returned
    if not results or frame.updates_arguments:
        return None
    shapes = {tuple(tensor_type(v).get_shape()) for v in results}
    if len(shapes) != 1 or not tensor_type(results[0]).get_num_dims():
        return None
    (shape,) = shapes
    if not all(_is_flat(op, shape) for op in frame.source.body.block.ops):
        return None
    # Sizes need no comparison: `_is_flat` has compared static ones, and operands of pointwise operations have equal
    # dynamic ones. An argument that no operation reads may have another rank.
    dims = frame.elements.dims(results[0])
    if any(_differs_in_rank(frame, v, len(dims)) for v in (*results, *frame.tensors)):
        return None
    # The queries above have recorded sizes of several dimensions, which are wrong once tensors are bound as one.
    frame.elements.forget_dims()
    return frame.build.product(dims)


def _differs_in_rank(frame: Frame, value: SSAValue, rank: int) -> bool:
    """Return whether a tensor has another rank than `rank` and 0."""
    is_scalar = tensor_type(value).get_num_dims() == 0
    return not is_scalar and len(frame.elements.dims(value)) != rank


def _is_flat(op: Operation, shape: tuple[int, ...]) -> bool:
    """Return whether each element of an operation's results depends on operand elements at the same position alone.

    All tensors of the operation must have the shape `shape`, in which -1 is a dynamic size, or rank 0. The operation
    must be pointwise. Operations without tensors, and the return from the function, are accepted without that check.
    """
    tensor_shapes = [
        tuple(value.type.get_shape()) for value in (*op.operands, *op.results) if isinstance(value.type, TensorType)
    ]
    if any(tensor_shape not in (shape, ()) for tensor_shape in tensor_shapes):
        return False
    if not tensor_shapes or op.name == "func.return":
        return True
    rule = rule_of(op)
    return rule is not None and rule.is_pointwise(op)
