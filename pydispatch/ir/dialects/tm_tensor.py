"""`tm_tensor`: what torch-mlir calls operations of `iree_linalg_ext`."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    OnTensorsOp,
    Yield,
    check_count,
    check_shape,
    shape_of,
)
from pydispatch.ir.dialects.iree_linalg_ext.indexing import ScatterLike
from pydispatch.ir.dialects.iree_linalg_ext.ordering import Scan, Sort, Topk


@op_definition
class YieldOp(Yield):
    """Terminator of a body."""

    name = "tm_tensor.yield"


@op_definition
class ScanOp(Scan):
    """Prefix scan along a dimension."""

    name = "tm_tensor.scan"


@op_definition
class ScatterOp(ScatterLike):
    """Scatter whose `dimension_map` is in the attribute dictionary."""

    name = "tm_tensor.scatter"
    assembly_format = f"attr-dict `unique_indices` `(` $unique_indices `)` {SIDES} $body {RESULTS}"


@op_definition
class SortOp(Sort):
    """Stable sort along a dimension."""

    name = "tm_tensor.sort"


@op_definition
class TopkOp(Topk):
    """Selection of the first k elements along a dimension in the order of the comparator in the body."""

    name = "tm_tensor.topk"


@op_definition
class AttentionOp(OnTensorsOp):
    """Attention over batches of matrices: softmax(query * transpose(key) / sqrt(K) + mask) * value.

    Inputs are query [..., M, K], key [..., N, K], value [..., N, D], and optionally a mask [..., M, N] as in
    `iree_linalg_ext.attention`. The output is [..., M, D].
    """

    name = "tm_tensor.attention"
    assembly_format = f"attr-dict {SIDES} {RESULTS}"

    def verify_operands(self) -> None:
        """Check that query [..., M, K], key [..., N, K], value [..., N, D], an optional mask [..., M, N] and the output
        [..., M, D] agree in their sizes, and that K is static.
        """
        check_count("input", len(self.inputs), 3, 4)  # without and with a mask
        check_count("output", len(self.outputs), 1)
        query, key, value = (shape_of(v) for v in self.inputs[:3])
        if min(len(query), len(key), len(value)) < 2:
            raise VerifyException("query, key and value are matrices or batches of them")
        batch = query[:-2]
        check_shape("the key", self.inputs[1], [*batch, key[-2], query[-1]])
        check_shape("the value", self.inputs[2], [*batch, key[-2], value[-1]])
        if len(self.inputs) == 4:
            check_shape("the mask", self.inputs[3], [*batch, query[-2], key[-2]])
        check_shape("the output", self.outputs[0], [*batch, query[-2], value[-1]])
        if query[-1] == DYNAMIC:  # the scale 1 / sqrt(K) is a constant of the kernel
            raise VerifyException(f"the columns of the query have a static number, got {self.inputs[0].type}")


TMTensor = Dialect("tm_tensor", [AttentionOp, YieldOp, ScanOp, ScatterOp, SortOp, TopkOp], [])
