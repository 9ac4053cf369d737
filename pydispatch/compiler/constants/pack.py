"""Constant factors of products are laid out in panels, once, instead of in every call.

Kernels for CPUs read columns of a factor a few at a time (`kernels/matmul/panels.py`). Where these do not lie side by
side, each call would walk over many pages or copy the factor first.
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
from pydispatch.compiler.constants.relay import Matrix, in_panels
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import half_precision_b
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.cpu.plan import ASSUMED_ROWS
from pydispatch.compiler.kernels.matmul.cpu.problem import pays_in_place_b
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

LEAST_BYTES, LEAST_TURNED_BYTES = 64 << 10, 1 << 10
"""Of a factor: a smaller one is in the cache, however it lies. One whose rows are the columns of the product is copied
by every workgroup before it is read: 3x3 convolutions of 32x32x32 with a filter of 36 KiB ran at 119 GFLOP/s without
panels, 220 with them (AMD EPYC Zen 5, one worker)."""

LEAST_RAGGED = 4
"""Panels of a product's factor from which on the last one may be filled with zeros. 66 products of 16 rows by 24 to 544
columns, one in four of which has whole panels, took 2.59 ms, with the others' in panels, too, 1.79 (Zen 5)."""

FEW_PANELS = 2
"""Of a factor's row, which is read whole: blocks of all columns follow each other in memory without panels, too. With
them 8x65536x64 took 610 us, without 478; 64x16384x64 644 and 591; 3x3 filters of 56x56x64 898 and 891 (Zen 5)."""

FEW_ROWS = 2
"""Rows of results up to which panels do not pay where the factor is in the second-level cache: one or two rows wait for
the additions of a single panel. A larger factor passes from memory once, in the order in which panels lie.

f32, one worker of an AVX-512 EPYC, time with panels / without: 1x512x512 1.10, 1x768x768 0.89, 1x768x3072 0.65;
4x768x768 0.65, 8x768x768 0.62, 16x768x768 0.98, 64x768x768 1.00; 8x768x3072 0.48, 32x768x3072 0.73, 128x768x3072 0.93;
4x512x512 0.88, 16x512x512 0.86, 64x512x512 0.78, 512x512x512 0.95; 256x256: 0.69 to 1.01.
"""


@dataclass(frozen=True)
class Packed:
    """An argument of a dispatch function that its contraction alone reads, and its panels. index: of the argument;
    type: of the tensor that lies in panels; grouped: how that follows from the argument, None where it is that."""

    function: func.FuncOp
    index: int
    type: TensorType[Attribute]
    layout: Layout
    grouped: Grouped | None = None

    @property
    def panels(self) -> TensorType[Attribute]:
        return self.layout.type_of(self.type)


def pack_constants(module: ModuleOp, functions: DerivedFunctions, levels: Sequence[Level]) -> None:
    """Rewrite dispatch functions that read a factor which all their dispatches give as a constant. levels: of all
    targets."""
    dispatches = _dispatches(module)
    for executable in [op for op in module.body.block.ops if isinstance(op, flow.ExecutableOp)]:
        for function in [op for op in walk(executable) if isinstance(op, func.FuncOp)]:
            packed = _packed(function, levels)
            uses = dispatches.get((executable.sym_name.data, function.sym_name.data), [])
            if packed is not None and uses and all(_constant(op, packed) is not None for op in uses):
                for op in uses:
                    _give_panels(op, packed, functions)
                _use_panels(packed)
    _drop_unused(module, functions)


def _drop_unused(module: ModuleOp, functions: DerivedFunctions) -> None:
    """Erase the functions whose constants nothing uses any more."""
    constants = (op.properties.get("value") for op in walk(module) if op.name in CONSTANTS)
    used = {c.function.data for c in constants if isinstance(c, DerivedAttr)}
    for name in [name for name in functions.made if name not in used]:
        functions.made[name].detach()
        functions.made.pop(name).erase()


def _dispatches(module: ModuleOp) -> dict[tuple[str, str], list[flow.DispatchOp]]:
    """Return the dispatches in host functions, by (executable, export)."""
    dispatches: dict[tuple[str, str], list[flow.DispatchOp]] = {}
    for host in module.body.block.ops:
        for op in walk(host) if host.name in FUNCTIONS else ():
            if isinstance(op, flow.DispatchOp):
                for entry in op.entry_points.data:
                    names = entry.root_reference.data, entry.nested_references.data[-1].data
                    dispatches.setdefault(names, []).append(op)
    return dispatches


def _packed(function: func.FuncOp, levels: Sequence[Level]) -> Packed | None:
    """Return the argument of a function to store in panels, with their layout; None where that does not pay."""
    if not function.body.blocks:
        return None
    match = contraction_in(function)
    if match is None:
        return None
    c = match[0]
    grouped = grouped_factor(function, c, levels)
    halves = [half_precision_b(c, level) for level in levels]
    half = halves[0] if grouped is None and None not in halves else None
    value = (half or c.generic.inputs[c.b.main]) if grouped is None else grouped.argument
    if not isinstance(value, BlockArgument) or value.owner is not function.body.block:
        return None
    type_ = value.type if grouped is None else grouped.packed_type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    if grouped is None and (value.uses.get_length() != 1 or not _is_plain(c, type_, half)):
        return None
    layout = _layout(c, type_, grouped, levels)
    return None if layout is None else Packed(function, value.index, type_, layout, grouped)


def _layout(
    contraction: Contraction, type_: TensorType[Attribute], grouped: Grouped | None, levels: Sequence[Level]
) -> Layout | None:
    """Return the panels of a factor; None where they do not pay."""
    if contraction.n is None or not _is_whole(contraction):
        return None
    (axis,) = contraction.b.positions_of(contraction.n)
    columns = type_.get_shape()[axis]
    if grouped is not None:
        (steps,), group = contraction.b.positions_of(contraction.k), grouped.arithmetic.group
        width = PANEL_BYTES // i32.size
        whole = columns % width == 0 and type_.get_shape()[steps] % group == 0
        return Layout(axis, width, group, steps) if whole and prod(type_.get_shape()) >= LEAST_TURNED_BYTES else None
    element = cast(
        "Float32Type | Float64Type", type_.element_type if contraction.acc == Float64Type() else Float32Type()
    )
    width = PANEL_BYTES // element.size
    if columns % width and columns % (width // 2) == 0 and not contraction.b.is_last(contraction.n):
        width //= 2  # 16, 48 or 80 channels
    if columns % width and (contraction.reductions or columns < LEAST_RAGGED * width):
        return None
    return Layout(axis, width) if _pays(contraction, type_, element.size, levels) else None


def _is_whole(contraction: Contraction) -> bool:
    """Return whether the factor's tensor is read at dimensions of the product, each once."""
    return all(len(x.terms) == 1 and x.terms[0][1] == 1 and x.constant == 0 for x in contraction.b.coordinates)


def _is_plain(contraction: Contraction, type_: TensorType[Attribute], half: SSAValue | None) -> bool:
    """Return whether the factor is an element of the argument and nothing else, in the type of the sums or one that
    blocks widen.
    """
    floats = (
        isinstance(contraction.acc, Float32Type | Float64Type)
        and type_.element_type == contraction.acc
        and contraction.b.direct
    )
    return (floats or half is not None) and not set(contraction.outer) & contraction.b.dims


def _pays(contraction: Contraction, type_: TensorType[Attribute], size: int, levels: Sequence[Level]) -> bool:
    """size: bytes of an element."""
    *_, columns = type_.get_shape()
    total = prod(type_.get_shape()) * size
    rows = 1 if contraction.m is None else contraction.generic.extents[contraction.m]
    rows = None if rows is None else rows * prod(contraction.generic.extents[d] or 1 for d in contraction.outer)
    if not contraction.b.is_last(contraction.n):  # each row of the factor is a column of the product
        return total >= LEAST_TURNED_BYTES and (rows is None or rows > 4)
    if total < LEAST_BYTES or columns * size <= FEW_PANELS * PANEL_BYTES:
        return False
    if (rows is not None and rows > FEW_ROWS) or total > min(level.model.l2.share for level in levels):
        return True
    steps = prod(type_.get_shape()[:-1])
    here = [
        pays_in_place_b(level, ASSUMED_ROWS, level.block_rows, PANEL_BYTES, columns * size, steps) for level in levels
    ]
    return rows is None and not all(here)


def _use_panels(packed: Packed) -> None:
    """Change the argument of a dispatch function from a matrix to its packed panels."""
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
    if packed.grouped is None:
        argument.replace_all_uses_with(ops[-1].results[0])
    else:
        multiply_packed(packed.grouped, ops[-1].results[0])
    block.erase_arg(argument)
    inputs = [a.type for a in block.args]
    function.properties["function_type"] = FunctionType.from_lists(inputs, list(function.function_type.outputs))


def _constant(op: flow.DispatchOp, packed: Packed) -> OpResult | None:
    """Return the constant, or view of one, that a dispatch passes for the packed argument; None when it passes
    something else.
    """
    value = op.arguments[packed.index]
    return value if isinstance(value, OpResult) and is_constant(value) else None


def _give_panels(op: flow.DispatchOp, packed: Packed, functions: DerivedFunctions) -> None:
    """Pass a derived constant, which holds the packed panels, to the dispatch instead of the matrix."""
    value = _constant(op, packed)
    assert value is not None
    ops = [] if packed.grouped is not None else _panels_of_matrix(value, packed, functions)
    if not ops:
        ops, source = _made_again(value, functions)
        if packed.grouped is not None:
            ops += packed_elements(packed.grouped, source)
            source = ops[-1].results[0]
        ops += into_panels(source, packed.layout)
    for new in ops:
        set_location(new, value.op)
    name = functions.add(ops, ops[-1].results)
    arguments = list(op.arguments)
    arguments[packed.index] = constant_of(name, 0, value, packed.panels).results[0]
    op.operands = [*op.workload, *arguments, *op.argument_dims, *op.result_dims]
    _erase_unused(value)


def _panels_of_matrix(value: OpResult, packed: Packed, functions: DerivedFunctions) -> list[Operation]:
    """Build the operations that compute the panels of a constant, or of a transposed one, along its first or last
    dimension; none for others.
    """
    source: SSAValue = value
    while isinstance(source, OpResult) and source.op.name in RESHAPES:
        source = source.op.operands[0]
    if not isinstance(source, OpResult) or source.op.name not in CONSTANTS or not isinstance(source.type, TensorType):
        return []
    sizes, layout = shape_of(value), packed.layout
    if layout.axis not in (0, len(sizes) - 1) or len(sizes) < 2:
        return []
    axis = 0 if layout.axis == 0 else 1
    columns = sizes[layout.axis]
    rest = prod(sizes) // columns
    attribute = source.op.properties["value"]
    matrix = functions.transposed.get(attribute.function.data) if isinstance(attribute, DerivedAttr) else None
    if matrix is not None and source is value:
        return in_panels(matrix, Layout(1 - axis, layout.width), packed.panels)
    if columns != shape_of(source)[0 if axis == 0 else -1] or (isinstance(attribute, DerivedAttr) and matrix is None):
        return []
    rows = (columns, rest) if axis == 0 else (rest, columns)
    return in_panels(Matrix(attribute, source.type, *rows), Layout(axis, layout.width), packed.panels)


def _erase_unused(value: SSAValue) -> None:
    """Erase what nothing reads of a view and its source."""
    while isinstance(value, OpResult) and not value.uses.get_length():
        op, operands = value.op, list(value.op.operands)
        erase_op(op)
        if not operands:
            return
        value = operands[0]


def _made_again(value: OpResult, functions: DerivedFunctions) -> tuple[list[Operation], SSAValue]:
    """Build operations that make a constant or a view of one again, and return them and the value: they derive it, so
    that it need not be stored, or copy the constant.
    """
    if value.op.operands:
        (operand,) = value.op.operands
        assert isinstance(operand, OpResult)
        ops, source = _made_again(operand, functions)
        view = value.op.clone({operand: source})
        return [*ops, view], view.results[0]
    attribute = value.op.properties["value"]
    maker = functions.made.get(attribute.function.data) if isinstance(attribute, DerivedAttr) else None
    if maker is not None:
        mapping: dict[SSAValue, SSAValue] = {}
        *inner, last = maker.regions[0].block.ops
        if len(last.operands) == 1:
            copies = [op.clone(mapping) for op in inner]
            return copies, mapping[last.operands[0]]
    copy = value.op.clone()
    return [copy], copy.results[0]
