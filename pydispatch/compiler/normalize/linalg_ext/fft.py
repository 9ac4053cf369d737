"""Rule that replaces `fft`: one stage of a Fourier transform is a generic over (blocks, halves, elements of a half)."""

from __future__ import annotations

from functools import partial
from math import cos, pi, sin

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.bodies import BodyBuilder
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import computed
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.fft import FftOp
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure


def _fft(op: Operation, build: Build) -> None:
    """Replace one stage of a Fourier transform by butterflies on the halves of each block.

    The last dimension is viewed as three: [blocks, 2, half], with halves of 2^(s - 1) elements in stage s. Dimensions
    before it are a batch of transforms. A butterfly computes an element of each half of a block from two elements, at
    the same index of both halves: low + factor * high and low - factor * high.

    Raises:
        VerifyException: The stage is no constant, or the last size is dynamic.
    """
    assert isinstance(op, FftOp)
    stage, type = op.stage, op.outputs[0].type
    if stage is None:
        raise VerifyException("the stage of a transform is a constant")
    assert isinstance(type, TensorType)
    if type.get_shape()[-1] == DYNAMIC:
        raise VerifyException(f"a transform works on tensors with a static last size, got {type}")
    shape, half = list(type.get_shape()), 1 << (stage - 1)
    if shape[-1] == 0:  # no blocks
        build.replace(*op.outputs)
        return
    # The outputs, which have the real and imaginary parts of the elements, as blocks.
    blocks = TensorType(type.element_type, [*shape[:-1], shape[-1] // (2 * half), 2, half])
    rank = len(shape) + 2  # dimensions of the view, each of which has a loop
    groups = [[d] for d in range(rank - 3)] + [[rank - 3, rank - 2, rank - 1]]
    real, imaginary = (build.expand(value, blocks, groups) for value in op.outputs)
    # Inputs are the stage and, perhaps, the real and imaginary parts of the factors.
    factors = list(op.inputs[1:]) or _factors(build, half, type.element_type)
    # The maps of the generic: the element at the same index in the first half and in the second, the factor at this
    # index, and the element that is computed.
    low, high = _element_of_half(rank, 0), _element_of_half(rank, 1)
    factor, result = AffineMap(rank, 0, (AffineExpr.dimension(rank - 1),)), AffineMap.identity(rank)
    outputs = [build.empty(blocks, build.dynamic_dims(real)) for _ in range(2)]
    # The loop before the last one, rank - 2, runs over the two halves.
    butterflies = computed(
        build, Structure((low, low, high, high, factor, factor, result, result), parallel=(True,) * rank),
        [real, imaginary, real, imaginary, *factors], outputs, partial(_butterfly, build, rank - 2),
    )  # fmt: skip
    build.replace(*(build.collapse(value, type, groups) for value in butterflies))


def _element_of_half(rank: int, half: int) -> AffineMap:
    """Return the map from the loops (batch, block, half, index) to the element of the same index in the given half."""
    batch_and_block = tuple(AffineExpr.dimension(d) for d in range(rank - 2))
    return AffineMap(rank, 0, (*batch_and_block, AffineExpr.constant(half), AffineExpr.dimension(rank - 1)))


def _butterfly(build: Build, half_loop: int, body: BodyBuilder, *values: SSAValue) -> list[SSAValue]:
    """Emit low + factor * high in the first half of a block, low - factor * high in the second, as complex numbers.

    Args:
        build: Builder of the code around the generic.
        half_loop: The loop over the two halves of a block.
        body: Builder of the generic's body.
        values: Real and imaginary part of low, of high, and of the factor; then the elements of the outputs.

    Returns:
        The real and the imaginary part.
    """
    low_real, low_imaginary, high_real, high_imaginary, cosine, sine = values[:6]
    # The product factor * high.
    real = body.binary("sub", body.binary("mul", high_real, cosine), body.binary("mul", high_imaginary, sine))
    imaginary = body.binary("add", body.binary("mul", high_real, sine), body.binary("mul", high_imaginary, cosine))
    is_first_half = body.add(arith.CmpiOp(body.add(IndexOp(half_loop)), build.index(0), "eq"))
    return [
        body.add(arith.SelectOp(is_first_half, body.binary("add", a, b), body.binary("sub", a, b)))
        for a, b in ((low_real, real), (low_imaginary, imaginary))
    ]


def _factors(build: Build, half: int, element: Attribute) -> list[SSAValue]:
    """Return the factors exp(-pi i j / half), one for each index j in half a block: their real and imaginary parts."""
    angles = [-pi * j / half for j in range(half)]
    type = TensorType(element, [half])
    return [build.floats([part(angle) for angle in angles], type) for part in (cos, sin)]


ROWS: dict[str, Row] = {"iree_linalg_ext.fft": _fft}
"""Name of an operation → function that replaces it."""
