"""Host commands, functions on the host that a program declares and runs between dispatches, and calls of them."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IndexType, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.flow.base import SIGNATURE, ShapedCall
from pydispatch.ir.dialects.util import functions


@op_definition
class FuncOp(functions.FuncLikeOp):
    """Declaration of a host command, `flow.func private @name(%x: tensor<?xf32>, i32) -> %x`; it has no body."""

    name = "flow.func"

    def verify_(self) -> None:
        """Verify that the function has no body."""
        if not self.is_declaration:
            raise VerifyException("flow.func only declares; functions with a body are util.func or func.func")


@op_definition
class CallOp(ShapedCall, IRDLOperation):
    """Call of a host command: a function without a body in the program, which the host runs between dispatches.

    `%b = flow.call @scale(%a, %s) : (tensor<?xf32>{%n}, f32) -> %a{%n}` calls a command that overwrites %a: the result
    is tied to it. `ShapedCall` describes sizes and tied results.

    Attributes:
        callee: Symbol of the declaration, a `flow.func`.
        declared: Function type of the declaration; None until `pydispatch.compiler.flatten.commands` has looked it up.
            Passes that create calls set it.
    """

    name = "flow.call"
    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    argument_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    results_ = var_result_def()
    tied_operands = opt_prop_def(DenseArrayBase)
    declared = opt_prop_def(FunctionType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = f"$callee `` `(` $arguments `)` (`declared` $declared^)? attr-dict `:` {SIGNATURE}"


OPERATIONS: list[type[Operation]] = [FuncOp, CallOp]
