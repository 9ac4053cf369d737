"""Packing of constant factors of products into column panels, once instead of in every call.

Kernels for CPUs read a few columns of a factor at a time (`kernels/matmul/panels.py`). Where these columns are not
contiguous, each call would touch many pages, or copy the factor first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import Float32Type, Float64Type, FunctionType, ModuleOp, TensorType, i32
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.kinds import CONSTANTS, is_constant
from pydispatch.compiler.constants.functions import DerivedFunctions, constant_of
from pydispatch.compiler.constants.grouped import Grouped, grouped_factor, multiply_packed, packed_elements
from pydispatch.compiler.constants.profitability import MIN_TRANSPOSED_BYTES, packing_pays
from pydispatch.compiler.constants.relay import Matrix, in_panels
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import half_precision_b
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import widening_columns
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.panels import PANEL_BYTES, Layout, from_panels, into_panels
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.pyd.derived import DerivedAttr
from pydispatch.ir.functions import FUNCTIONS
from pydispatch.ir.values import shape_of

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "flow.tensor.reshape")
"""Operations between a constant and its product through which the constant is traced."""

MIN_SLICE_ELEMENTS = 16 << 10
"""Minimum number of elements of each matrix of a factor [slices, K, N], which is packed as several matrices. With
smaller matrices, the factor is left unpacked."""

MIN_PANELS_WITH_REMAINDER = 4
"""Minimum number of panels of a factor whose last panel is padded with zeros; with fewer, the padding costs too much.
66 products of 16 rows by 24 to 544 columns took 2.59 ms when only the quarter with full panels was packed, and 1.79 ms
with all packed (Zen 5)."""


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
            # All dispatches share the function, so that it reads panels for all of them or for none.
            if packed is not None and uses and all(_constant(op, packed) is not None for op in uses):
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
    for host in module.body.block.ops:
        for op in walk(host) if host.name in FUNCTIONS else ():
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
    half: SSAValue | None = (
        None  # the tensor of f16 or bf16 that kernels widen as they load it, if those of all levels do
    )
    if grouped is not None:
        value, type_ = grouped.argument, grouped.packed_type
    else:
        halves = [half_precision_b(contraction, level) for level in levels]
        half = halves[0] if None not in halves else None
        value = half or contraction.tensor_of(contraction.b)
        type_ = value.type
    if not isinstance(value, BlockArgument) or value.owner is not function.body.block:
        return None
    type_ = value.type if grouped is None else grouped.packed_type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    # Another use would need the unpacked matrix. grouped_factor() has checked the uses of its argument.
    if grouped is None and (value.uses.get_length() != 1 or not _reads_b_as_stored(contraction, type_, half)):
        return None
    layout = _layout(contraction, type_, grouped, levels, is_widened=half is not None)
    if layout is None:
        return None
    return Packed(function=function, index=value.index, type=type_, layout=layout, unpacking=grouped)


def plain_layout(contraction: Contraction, levels: Sequence[Level]) -> Layout | None:
    """Return the panel layout for the factor B of a contraction of f32 or f64.

    Return None if the contraction computes B from its operands, if a size is dynamic, or if panels are not faster.
    """
    type_ = contraction.tensor_of(contraction.b).type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    if not _reads_b_as_stored(contraction, type_, half=None):
        return None
    return _layout(contraction, type_, grouped=None, levels=levels, is_widened=False)


def _layout(
    contraction: Contraction,
    type_: TensorType[Attribute],
    grouped: Grouped | None,
    levels: Sequence[Level],
    is_widened: bool,
) -> Layout | None:
    """Return the panel layout of the constant factor B of a contraction; None if packing is not worthwhile.

    Examples, of layouts and of the shapes that B is stored in:
    - B [K, N] of f32, 512x64: `Layout(axis=1, width=32)`, 2x512x32.
    - B [N, K] of f32 (transposed), 48x512: `Layout(axis=0, width=16)`, 3x512x16. A half-width panel is used because 16
      divides the 48 columns and 32 does not.
    - B [K, N] of bytes, multiplied in groups of 4 steps of K, 512x64: `Layout(axis=1, width=32, group=4, step_axis=0)`,
      2x128x32x4.

    Args:
        contraction: The contraction.
        type_: Type of the tensor to cut into panels.
        grouped: Computation of B from the argument; None if the argument is B.
        levels: ISA levels of all targets.
        is_widened: Whether register blocks widen B from f16 or bf16 as they load it.
    """
    if contraction.n is None or not _is_indexed_by_loops(contraction):
        return None
    (axis,) = contraction.b.positions_of(contraction.n)  # one axis, as B is indexed by plain loops
    columns = type_.get_shape()[axis]
    if grouped is not None:
        return _grouped_layout(contraction, type_, grouped, axis)
    # Other factors are computed in f32, or in f64 if the sums are.
    element = cast(
        "Float32Type | Float64Type", type_.element_type if contraction.acc == Float64Type() else Float32Type()
    )
    width = PANEL_BYTES // element.size
    if columns % width and columns % (width // 2) == 0 and not contraction.b.is_contiguous(contraction.n):
        width //= 2  # for f32, a panel has 32 columns; 16, 48 or 80 are whole half-width panels
    if is_widened:  # blocks that widen B have another width if they exist on all levels
        width = _widening_columns(contraction, element.size, columns, levels) or width
    # A last panel padded with zeros pays only for a plain product, which sums over K alone (unlike a convolution), and
    # only with several panels.
    if columns % width and (contraction.reductions or columns < MIN_PANELS_WITH_REMAINDER * width):
        return None
    return Layout(axis, width) if packing_pays(contraction, type_, element.size, levels) else None


def _grouped_layout(
    contraction: Contraction, type_: TensorType[Attribute], grouped: Grouped, axis: int
) -> Layout | None:
    """Return the panel layout of a factor B of bytes, i16 or bf16, for instructions that multiply groups of steps of K.

    Return None if B is small, or if panels would need padding: of their columns or of the last group.

    Args:
        contraction: The contraction.
        type_: Type of the tensor to cut into panels.
        grouped: Computation of B from the argument.
        axis: Axis of the columns in that tensor.
    """
    shape = type_.get_shape()
    (step_axis,) = contraction.b.positions_of(contraction.k)
    group_size = grouped.arithmetic.group
    width = PANEL_BYTES // i32.size  # a panel is as wide as the registers of sums, which have 4 bytes each
    has_whole_panels = shape[axis] % width == 0 and shape[step_axis] % group_size == 0
    # The limit in bytes is compared with the number of elements, which have one or two bytes.
    is_large = prod(shape) >= MIN_TRANSPOSED_BYTES
    return Layout(axis, width, group_size, step_axis) if has_whole_panels and is_large else None


def _is_indexed_by_loops(contraction: Contraction) -> bool:
    """Return whether each dimension of factor B's tensor is indexed by a single loop dimension, without stride or
    offset.
    """
    return contraction.b.axis_dims is not None


def _reads_b_as_stored(contraction: Contraction, type_: TensorType[Attribute], half: SSAValue | None) -> bool:
    """Return whether the contraction reads B as the argument stores it, without arithmetic other than widening.

    B must also be one matrix, or have one large enough matrix [K, N] for each index of its first dimension.

    half: the tensor of f16 or bf16 that kernels widen while they load it; None for other factors.
    """
    is_float = isinstance(contraction.acc, Float32Type | Float64Type)
    is_unconverted = is_float and type_.element_type == contraction.acc and contraction.b.is_element
    return (is_unconverted or half is not None) and _has_whole_slices(contraction, type_)


def _has_whole_slices(contraction: Contraction, type_: TensorType[Attribute]) -> bool:
    """Return whether the factor B is one matrix, or one large enough matrix for each index of its first dimension.

    The latter, [slices, K, N] with adjacent columns, is the case for sums that were split along K.
    """
    outer = set(contraction.outer) & contraction.b.dims
    if not outer:
        return True
    first, *inner = contraction.b.coordinates
    has_outer_dim_first = {dim for dim, _ in first.terms} == outer
    slices_are_matrices = len(inner) == 2  # K and N
    are_columns_last = contraction.b.is_contiguous(contraction.n)
    is_large = prod(type_.get_shape()[1:]) >= MIN_SLICE_ELEMENTS
    return has_outer_dim_first and slices_are_matrices and are_columns_last and is_large


def _widening_columns(contraction: Contraction, size: int, columns: int, levels: Sequence[Level]) -> int | None:
    """Return how many columns (three vectors) the register blocks have that widen B as they load it.

    Return None unless the kernels of all levels have such blocks, of the same width.

    Args:
        contraction: The contraction.
        size: Bytes of an accumulator.
        columns: Columns of B.
        levels: ISA levels of all targets.
    """
    rows = 1 if contraction.m is None else contraction.generic.extents[contraction.m]
    widths = {widening_columns(level, size, rows, columns) for level in levels}
    return widths.pop() if len(widths) == 1 else None


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
    if not isinstance(source, OpResult) or source.op.name not in CONSTANTS or not isinstance(source.type, TensorType):
        return []
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
