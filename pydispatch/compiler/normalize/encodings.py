"""Rule that drops `iree_encoding.set_encoding` and `unset_encoding`: pydispatch chooses memory layouts itself."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.packed_bits import is_packed
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.iree_encoding import EncodingOp


def _plain(type_: Attribute) -> Attribute:
    """Return a tensor type without its encoding, except that of packed bits, of which eight share a byte."""
    if isinstance(type_, TensorType) and not isinstance(type_.encoding, NoneAttr) and not is_packed(type_):
        return TensorType(type_.element_type, type_.shape)
    return type_


def _strip(module: Operation) -> None:
    """Remove the encodings from the types of all values and from the function types of a program, in place."""
    for op in walk(module):
        values: list[SSAValue] = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
        for value in values:
            plain = _plain(value.type)
            if plain != value.type:
                value._type = plain
        signature = op.properties.get("function_type")
        if isinstance(signature, FunctionType):
            inputs, outputs = ([_plain(t) for t in types] for types in (signature.inputs, signature.outputs))
            op.properties["function_type"] = FunctionType.from_lists(inputs, outputs)


def _encoding(op: Operation, build: Build) -> None:
    """Replace an operation that sets or removes an encoding by its source.

    The types of the whole program lose their encodings first, so that users and callers have the source's type.
    """
    assert isinstance(op, EncodingOp)
    has_encodings = any(_plain(v.type) != v.type for v in (op.source, op.result))
    if has_encodings:  # else an earlier call has stripped the program
        module: Operation = op
        while (parent := module.parent_op()) is not None:
            module = parent
        _strip(module)
    build.replace(op.source)


ROWS: dict[str, Row] = {"iree_encoding.set_encoding": _encoding, "iree_encoding.unset_encoding": _encoding}
"""Name of an operation → function that replaces it."""
