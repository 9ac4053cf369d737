"""Names of operations, for the names of dispatches and for messages."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from pydispatch.compiler.kernels.matmul.match import is_contraction
from pydispatch.ir.affine_maps import dims_in, is_identity
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import is_reduction, structured


def body_words(op: Operation) -> list[str]:
    """Return the names, without their dialect, of the elementwise operations in the body of an operation, in order:
    `addf`, `exp`, ... Without a body, return the name of the operation itself if it is elementwise.
    """
    ops = walk(op.regions[0]) if op.regions else [op]
    return [o.name.split(".")[1] for o in ops if info_of(o).elementwise]


def op_word(op: Operation) -> str:
    """Return one word that describes an operation, such as `reduce_addf` or `transpose`."""
    if is_contraction(op):
        return contraction_word(op)
    if is_reduction(op):
        words = body_words(op)
        return f"reduce_{words[-1]}" if words else "reduce"
    if op.name == "linalg.generic":
        words = body_words(op)
        if not words:  # the body only forwards an element
            maps = structured(op).maps
            if all(is_identity(m) for m in maps):
                return "copy"
            input_maps = maps[:-1]
            reads_all_dims = bool(input_maps) and len(input_maps[0].results) == input_maps[0].num_dims
            return "transpose" if reads_all_dims else "broadcast"
        return words[-1] if len(words) == 1 else "elementwise"
    return op.name.split(".")[-1]


def describe_location(op: Operation) -> str:
    """Return `12:5 matmul`, with line and column of the source or the name of the model's layer; without a location,
    just the word.
    """
    location = location_of(op)
    word = op_word(op)
    if location is None:
        return word
    place = location.layer or f"{location.line}:{location.column}"
    return f"{place} {word}"


def contraction_word(op: Operation) -> str:
    """Return the kind of a contraction: conv, or matmul, matvec, vecmat or dot with or without the prefix batch_."""
    generic = structured(op)
    if any(_is_window(e, generic.iterators) for m in generic.maps for e in m.results):
        return "conv"
    # Parallel loops that only factor A has, that only B has, and that both have.
    parallel = {i for i, kind in enumerate(generic.iterators) if kind == "parallel"}
    dims_of_a, dims_of_b = (dims_in(m) for m in generic.maps[:2])
    rows, columns = parallel & dims_of_a - dims_of_b, parallel & dims_of_b - dims_of_a
    batch = parallel & dims_of_a & dims_of_b
    words = {(True, True): "matmul", (True, False): "matvec", (False, True): "vecmat", (False, False): "dot"}
    word = words[bool(rows), bool(columns)]
    return f"batch_{word}" if batch else word


def _is_window(position: AffineExpr, iterators: Sequence[str]) -> bool:
    """Return whether a sliding window reads a dimension of an operand, as with the index d0 + d1 of a convolution.

    - d0 + d1 of a parallel and a reduction loop is a window.
    - 2 * d0 and a constant count as windows, too.
    - d0 alone is no window.
    - 16 * d0 + d1 of two parallel loops is no window: together they count along the dimension, as the panels and the
      columns of a panel do. The same holds for two reduction loops.

    iterators: "parallel" or "reduction" for each loop.
    """
    kinds = [iterators[d] for d in position.used_dims()]
    return not isinstance(position, AffineDimExpr) and (len(kinds) < 2 or len(set(kinds)) > 1)
