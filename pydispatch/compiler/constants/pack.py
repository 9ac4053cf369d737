"""Packing of constant factors of products into column panels, once instead of in every call.

Kernels for CPUs read a few columns of a factor at a time (`kernels/matmul/panels.py`). Where these columns are not
contiguous, each call would touch many pages, or copy the factor first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.kinds import CONSTANTS, is_constant
from pydispatch.compiler.constants.functions import DerivedFunctions, constant_of
from pydispatch.compiler.constants.grouped import Grouped, grouped_factor, multiply_packed, packed_elements
from pydispatch.compiler.constants.panel_layouts import layout_of, reads_b_as_stored
from pydispatch.compiler.constants.relay import Matrix, in_panels
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import half_precision_b
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.panels import Layout, from_panels, into_panels
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.pyd.derived import DerivedAttr
from pydispatch.ir.functions import FUNCTIONS
from pydispatch.ir.values import shape_of

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "flow.tensor.reshape")
"""Operations between a constant and its product through which the constant is traced."""


@dataclass(frozen=True)
class Packed:
    """Argument of a dispatch function to pack into panels, which only its contraction reads, and the panel layout.

    A panel is a fixed number of adjacent columns of a matrix, stored together with all their rows. Example: an argument
    of `type` tensor<512x64xf32> with the layout of axis 1 and width 32 has the `panels` tensor<2x512x32xf32>.

    Attributes:
        function: The dispatch function.
        index: Index of the argument, from 0.
        type: Type of the tensor that is cut into panels: of the argument, or with `unpacking` of the factor.
        layout: Panel layout of the packed argument.
        unpacking: Computation of the contraction's factor from the argument; None if the argument is the factor.
    """

    function: func.FuncOp
    index: int
    type: TensorType[Attribute]
    layout: Layout
    unpacking: Grouped | None = None

    @property
    def panels(self) -> TensorType[Attribute]:
        """Type of the argument after packing."""
        return self.layout.type_of(self.type)


def pack_constants(module: ModuleOp, functions: DerivedFunctions, levels: Sequence[Level]) -> None:
    """Pack into panels the factors that all dispatches of a function pass as constants.

    levels: the ISA levels of all targets.
    """
    dispatches = _dispatches(module)
    for executable in [op for op in module.body.block.ops if isinstance(op, flow.ExecutableOp)]:
        for function in [op for op in walk(executable) if isinstance(op, func.FuncOp)]:
            packed = _packed(function, levels)
            uses = dispatches.get((executable.sym_name.data, function.sym_name.data), [])
            if packed is None or not uses:
                continue
            # All dispatches share the function, so that it reads panels for all of them or for none.
            if all(_constant(op, packed) is not None for op in uses):
                for op in uses:
                    _pass_panels(op, packed, functions)
                _use_panels(packed)
    _drop_unused(module, functions)


def _drop_unused(module: ModuleOp, functions: DerivedFunctions) -> None:
    """Erase the derived functions whose constants are no longer used."""
    constants = (op.properties.get("value") for op in walk(module) if op.name in CONSTANTS)
    used = {c.function.data for c in constants if isinstance(c, DerivedAttr)}
    for name in [name for name in functions.added if name not in used]:
        functions.added[name].detach()
        functions.added.pop(name).erase()


def _dispatches(module: ModuleOp) -> dict[tuple[str, str], list[flow.DispatchOp]]:
    """Return the dispatches in host functions, by the names of (executable, export) that they run."""
    dispatches: dict[tuple[str, str], list[flow.DispatchOp]] = {}
    hosts = [op for op in module.body.block.ops if op.name in FUNCTIONS]
    for host in hosts:
        for op in walk(host):
            if isinstance(op, flow.DispatchOp):
                for entry in op.entry_points.data:
                    names = entry.root_reference.data, entry.nested_references.data[-1].data
                    dispatches.setdefault(names, []).append(op)
    return dispatches


def _packed(function: func.FuncOp, levels: Sequence[Level]) -> Packed | None:
    """Return the argument of a dispatch function to pack into panels, with its layout.

    There are three cases, with B for the right-hand factor of the function's only contraction:
    - The argument is B, of the type of the sums, f32 or f64.
    - The argument is a tensor of f16 or bf16 that kernels widen to B as they load it.
    - B is computed from the argument, and multiplied in groups of bytes, i16 or bf16 (see `Grouped`).

    Return None in other cases, and if packing is not worthwhile. `levels` are the ISA levels of all targets.
    """
    if not function.body.blocks:  # a declaration
        return None
    match = contraction_in(function)
    if match is None:
        return None
    contraction = match.contraction
    grouped = grouped_factor(function, contraction, levels)  # None unless B is multiplied in groups
    # The tensor of f16 or bf16 that kernels widen as they load it, if those of all levels do.
    halves = [half_precision_b(contraction, level) for level in levels] if grouped is None else [None]
    half = halves[0] if None not in halves else None
    # The value to be packed, in each of the three cases; it must be an argument of the function.
    value: SSAValue = grouped.argument if grouped is not None else contraction.tensor_of(contraction.b)
    if half is not None:
        value = half
    if not isinstance(value, BlockArgument) or value.owner is not function.body.block:
        return None
    type_ = value.type if grouped is None else grouped.packed_type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    # Another use would need the unpacked matrix. grouped_factor() has checked the uses of its argument.
    if grouped is None and (value.uses.get_length() != 1 or not reads_b_as_stored(contraction, type_, half)):
        return None
    layout = layout_of(contraction, type_, grouped, levels, is_widened=half is not None)
    if layout is None:
        return None
    return Packed(function=function, index=value.index, type=type_, layout=layout, unpacking=grouped)


def _use_panels(packed: Packed) -> None:
    """Change the argument of a dispatch function from a matrix to its packed panels.

    An argument %b of tensor<512x64xf32> becomes one of tensor<2x512x32xf32>, and the function begins with a generic
    that unpacks it: `%matrix[k, n] = %b[n / 32, k, n % 32]`. The contraction reads %matrix. Kernels on CPUs recognize
    the generic and read the panels in place.
    """
    function, block = packed.function, packed.function.body.block
    argument = block.args[packed.index]
    new = block.insert_arg(packed.panels, argument.index)
    new.name_hint = argument.name_hint
    ops = from_panels(new, packed.type, packed.layout)
    first = block.first_op
    assert first is not None
    for op in ops:
        set_location(op, function)
    block.insert_ops_before(ops, first)
    # Let the contraction read the unpacked matrix, or the unpacked elements, which it then widens.
    if packed.unpacking is None:
        argument.replace_all_uses_with(ops[-1].results[0])
    else:
        multiply_packed(packed.unpacking, ops[-1].results[0])  # replaces the operations that compute the factor
    block.erase_arg(argument)
    inputs = [a.type for a in block.args]
    function.properties["function_type"] = FunctionType.from_lists(inputs, list(function.function_type.outputs))


def _constant(op: flow.DispatchOp, packed: Packed) -> OpResult | None:
    """Return the constant, or view of a constant, that a dispatch passes for the packed argument; None if it passes
    another value.
    """
    value = op.arguments[packed.index]
    return value if isinstance(value, OpResult) and is_constant(value) else None


def _pass_panels(op: flow.DispatchOp, packed: Packed, functions: DerivedFunctions) -> None:
    """Replace the matrix that a dispatch passes by a derived constant that holds its packed panels.

    A dispatch of (%x, %w), with %w a constant tensor<512x64xf32>, becomes one of (%x, %panels), with

        %panels = flow.tensor.constant #pyd.derived<"derived_0", 0> : tensor<2x512x32xf32>

    The new function `derived_0` packs %w when the program is loaded. Equal functions are shared.

    Args:
        op: The dispatch.
        packed: The packed argument of the function that it runs.
        functions: Receives the new function.
    """
    value = _constant(op, packed)
    assert value is not None
    # Operations with dynamic sizes, whose kernel all packed matrices share, are preferred.
    ops = [] if packed.unpacking is not None else _panels_of_matrix(value, packed, functions)
    if not ops:  # operations with static sizes: compute the constant, convert its elements, pack them
        ops, source = _rematerialized(value, functions)
        if packed.unpacking is not None:
            ops += packed_elements(packed.unpacking, source)
            source = ops[-1].results[0]
        ops += into_panels(source, packed.layout)
    for new in ops:
        set_location(new, value.op)
    name = functions.add(ops, ops[-1].results)
    arguments = list(op.arguments)
    arguments[packed.index] = constant_of(name, result=0, value=value, type_=packed.panels).results[0]
    op.operands = [*op.workload, *arguments, *op.argument_dims, *op.result_dims]
    _erase_unused(value)


def _panels_of_matrix(value: OpResult, packed: Packed, functions: DerivedFunctions) -> list[Operation]:
    """Build the operations that compute the panels of a constant, treated as a matrix. Sizes are dynamic in them, so
    that all such constants share one kernel.

    Of a constant with more than two dimensions, all but the packed one count as one dimension of the matrix: a filter
    of 3x3x64x128 whose last dimension is packed is the matrix 576x128. The constant is stored in the program, or is the
    derived transpose of such a constant.

    Return no operations for other derived constants, for panels along a dimension other than the first or last, and if
    a reshape changed the size of the packed dimension.

    Args:
        value: The constant, or a reshape of it, that a dispatch passes.
        packed: The packed argument.
        functions: Functions that derive constants.
    """
    # Find the constant behind reshapes; it must be stored or derived, not computed by an operation.
    source: SSAValue = value  # the constant
    while isinstance(source, OpResult) and source.op.name in RESHAPES:
        source = source.op.operands[0]
    if not isinstance(source, OpResult) or source.op.name not in CONSTANTS:
        return []
    assert isinstance(source.type, TensorType)
    # Sizes of the value as a matrix: `columns` in the packed dimension, `other_elements` in all others together.
    sizes, layout = shape_of(value), packed.layout
    is_first_or_last = layout.axis in (0, len(sizes) - 1)
    if not is_first_or_last or len(sizes) < 2:
        return []
    axis = 0 if layout.axis == 0 else 1  # the packed dimension of the matrix
    columns = sizes[layout.axis]  # of the product
    other_elements = prod(sizes) // columns
    attribute = source.op.properties["value"]
    is_derived = isinstance(attribute, DerivedAttr)
    # The matrix whose transpose the constant is; None if it is stored, or derived in another way.
    matrix = functions.transposed.get(attribute.function.data) if isinstance(attribute, DerivedAttr) else None
    if matrix is not None and source is value:
        # A derived transpose of `matrix`: its panels are those of `matrix` along the other axis.
        return in_panels(matrix, Layout(1 - axis, layout.width), packed.panels)
    # Other constants, and reshapes of constants or of a derived transpose, are packed as they are stored.
    keeps_columns = columns == shape_of(source)[0 if axis == 0 else -1]  # the reshapes did not change the packed axis
    if not keeps_columns or (is_derived and matrix is None):
        return []
    shape = (columns, other_elements) if axis == 0 else (other_elements, columns)
    return in_panels(Matrix(attribute, source.type, *shape), Layout(axis, layout.width), packed.panels)


def _erase_unused(value: SSAValue) -> None:
    """Erase the operation of an unused value, then that of its first operand if it becomes unused, and so on.

    Packing replaces chains of reshapes of a constant, whose operations have no further operands.
    """
    while isinstance(value, OpResult) and not value.uses.get_length():
        op, operands = value.op, list(value.op.operands)
        erase_op(op)
        if not operands:
            return
        value = operands[0]


def _rematerialized(value: OpResult, functions: DerivedFunctions) -> tuple[list[Operation], SSAValue]:
    """Clone the operations that compute a constant, or a view of one; return the clones and the new value.

    The operations of a derived constant are cloned instead of the constant itself, so that it need not be stored.
    """
    if value.op.operands:  # a view, such as a reshape: a constant has no operands
        (operand,) = value.op.operands
        assert isinstance(operand, OpResult)
        ops, source = _rematerialized(operand, functions)
        view = value.op.clone({operand: source})
        return [*ops, view], view.results[0]
    attribute = value.op.properties["value"]
    function = functions.added.get(attribute.function.data) if isinstance(attribute, DerivedAttr) else None
    if function is not None:
        mapping: dict[SSAValue, SSAValue] = {}
        *inner, last = function.regions[0].block.ops
        if len(last.operands) == 1:  # the function derives this constant alone
            copies = [op.clone(mapping) for op in inner]
            return copies, mapping[last.operands[0]]
    copy = value.op.clone()  # a constant of the program, or one of several that a function derives together
    return [copy], copy.results[0]
