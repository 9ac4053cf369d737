"""`pyd.custom`: an operation of a model for which the user supplies a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class CustomOp(IRDLOperation):
    """Custom operation of a model, for which the user supplies a kernel.

    Syntax: `%y = pyd.custom "mylib::swish"(%x, %beta) ["x", "beta"] [["n", "4"], [], ["n", "4"]] : (T, f32) -> U`.

    Attributes:
        callee: Name of the operation, by which the user supplies the kernel.
        arguments: Tensors, then scalars, then sizes of type index that are no dimension of an operand.
        operand_names: Name of the kernel's parameter for each operand.
        shapes: For each operand, then each result, its sizes, as decimal numbers or names; [] for a scalar. Equal names
            are equal sizes.
        other_names: For each operand, then each result, its name in the model, or "" if it has none or the same name.
    """

    name = "pyd.custom"
    callee = prop_def(StringAttr)
    arguments = var_operand_def()
    operand_names = prop_def(ArrayAttr[StringAttr])
    shapes = prop_def(ArrayAttr[ArrayAttr[StringAttr]])
    other_names = opt_prop_def(ArrayAttr[StringAttr])
    results_ = var_result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$callee `(` $arguments `)` $operand_names $shapes (`named` $other_names^)? attr-dict `:` "
        "functional-type($arguments, $results_)"
    )

    def sizes_of(self, index: int) -> list[str]:
        """Return the sizes of operand or result `index`, as decimal numbers or names; results are numbered after the
        operands."""
        return [n.data for n in self.shapes.data[index]]

    def verify_(self) -> None:
        """Check that each operand has a name, each operand and result a shape that agrees with its type, and another
        name (that in the model) if `other_names` is stated, and that results are tensors. Raise VerifyException
        otherwise.
        """
        values = [*self.arguments, *self.results_]
        if len(self.operand_names) != len(self.arguments):
            raise VerifyException(f"{len(self.arguments)} operands have {len(self.operand_names)} names")
        if self.other_names is not None and len(self.other_names) != len(values):
            raise VerifyException(f"{len(values)} operands and results have {len(self.other_names)} other names")
        if len(self.shapes) != len(values):
            raise VerifyException(f"{len(values)} operands and results have {len(self.shapes)} shapes")
        for index, value in enumerate(values):
            sizes = self.sizes_of(index)
            shape = value.type.get_shape() if isinstance(value.type, TensorType) else ()
            if len(sizes) != len(shape) or not all(map(_may_be_size, sizes, shape)):
                raise VerifyException(f"{value.type} does not have the sizes [{', '.join(sizes)}]")
        if not all(isinstance(r.type, TensorType) for r in self.results_):
            raise VerifyException("results are tensors")


def _may_be_size(text: str, size: int) -> bool:
    """Return whether a stated size, a name or a number, may be that of a type.

    A name may also stand for a static size, and a number for a dynamic one: only numbers are compared.
    """
    return size < 0 or not text.isdecimal() or text == str(size)


OPERATIONS: list[type[Operation]] = [CustomOp]
