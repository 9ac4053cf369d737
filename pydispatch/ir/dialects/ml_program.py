"""The globals of `ml_program`."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolNameConstraint, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import SymbolOpInterface

from pydispatch.ir.core.assembly import op_definition


@op_definition
class GlobalOp(IRDLOperation):
    """Variable of the program, which lives as long as the loaded program.

    Attributes:
        sym_visibility: Such as "private"; None is public.
        is_mutable: Present if the program may store to the global.
        type: Type of the value.
        value: Initial value; None if there is none.
    """

    name = "ml_program.global"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    is_mutable = opt_prop_def(UnitAttr)
    type = prop_def(Attribute)
    value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())
    assembly_format = (
        "custom<Visibility>($sym_visibility) (`mutable` $is_mutable^)? $sym_name (`(` $value^ `)`)? `:` "
        "custom<TypeValue>($type) attr-dict"
    )


@op_definition
class GlobalLoadOp(IRDLOperation):
    """Load of a global."""

    name = "ml_program.global_load"
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "$global `:` type($result) attr-dict"


@op_definition
class GlobalLoadConstOp(IRDLOperation):
    """Load of an immutable global."""

    name = "ml_program.global_load_const"
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "$global `:` type($result) attr-dict"


@op_definition
class GlobalStoreOp(IRDLOperation):
    """Store to a global."""

    name = "ml_program.global_store"
    value = operand_def()
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    assembly_format = "$global `=` $value `:` type($value) attr-dict"


OPERATIONS: list[type[Operation]] = [GlobalOp, GlobalLoadOp, GlobalLoadConstOp, GlobalStoreOp]
MLProgram = Dialect("ml_program", OPERATIONS, [])
