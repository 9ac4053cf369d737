"""`tm_tensor`: what torch-mlir calls operations of `iree_linalg_ext`."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.iree_linalg_ext.base import RESULTS, SIDES, Yield
from pydispatch.ir.dialects.iree_linalg_ext.indexing import Scatter
from pydispatch.ir.dialects.iree_linalg_ext.ordering import Scan, Sort, Topk


@op_definition
class YieldOp(Yield):
    name = "tm_tensor.yield"


@op_definition
class ScanOp(Scan):
    name = "tm_tensor.scan"


@op_definition
class ScatterOp(Scatter):
    """Its `dimension_map` stands among the attributes."""

    name = "tm_tensor.scatter"
    assembly_format = f"attr-dict `unique_indices` `(` $unique_indices `)` {SIDES} $body {RESULTS}"


@op_definition
class SortOp(Sort):
    name = "tm_tensor.sort"


@op_definition
class TopkOp(Topk):
    name = "tm_tensor.topk"


TMTensor = Dialect("tm_tensor", [YieldOp, ScanOp, ScatterOp, SortOp, TopkOp], [])
