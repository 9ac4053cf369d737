"""The loops of a structured operation, named or generic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.ir.core.syntax import DYNAMIC


@dataclass(frozen=True)
class Structure:
    """maps: of the inputs, then of the outputs. iterators: 'parallel' or 'reduction', outermost first."""

    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    maps: Sequence[AffineMap]
    iterators: Sequence[str]
    body: Block | None

    def sizes(self) -> list[int]:
        """How often each loop runs, DYNAMIC when no type says so."""
        found = [DYNAMIC] * len(self.iterators)
        for value, map in zip([*self.inputs, *self.outputs], self.maps, strict=True):
            shape: Sequence[int] = value.type.get_shape() if isinstance(value.type, TensorType) else ()
            for expr, size in zip(map.results, shape, strict=False):
                if isinstance(expr, AffineDimExpr) and size != DYNAMIC:
                    found[expr.position] = size
        return found


def structure_of(op: Operation) -> Structure | None:
    """None when the operation is not structured."""
    maps = op.properties.get("indexing_maps") if op.name == "linalg.generic" else _call(op, "get_indexing_maps")
    iterators = op.properties.get("iterator_types") if op.name == "linalg.generic" else _call(op, "get_iterator_types")
    inputs, outputs = getattr(op, "inputs", None), getattr(op, "outputs", None)
    if inputs is None or outputs is None or not isinstance(maps, ArrayAttr) or not isinstance(iterators, ArrayAttr):
        return None
    body = op.regions[0].blocks.first if op.regions else None
    names = [str(getattr(i.data, "value", i.data)) for i in iterators.data]
    return Structure(
        list(inputs), list(outputs), [m.data for m in maps.data if isinstance(m, AffineMapAttr)], names, body
    )


def _call(op: Operation, name: str) -> object:
    method = getattr(op, name, None)
    try:
        return method() if callable(method) else None
    except NotImplementedError:
        return None


def is_projected_permutation(map: AffineMap, whole: bool = False) -> bool:
    """Every result is a different loop; with `whole`, every loop is a result too."""
    dims = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    if len(dims) != len(map.results) or len(set(dims)) != len(dims):
        return False
    return not whole or len(dims) == map.num_dims
