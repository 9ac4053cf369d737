"""Vector scans on CPUs: loops that store a running combination of integers compute a vector of results at a time.

    for i = begin to end { total += x[i]; y[i] = total }

makes one addition and one store for each element: LLVM does not vectorize a loop whose results depend on each other. It
becomes, with an array `block` of 16 elements,

    for first = begin to last step 16 {
        parallel lane in 0..16 { block[lane] = x[first + lane] }
        total = pyd.prefix_scan total, block
        parallel lane in 0..16 { y[first + lane] = block[lane] }
    }
    for i = last to end { total += x[i]; y[i] = total }

The array is a vector register. Sums of integers are the same in any order; loops over floats stay as they are. Prefix
sums of 4 Mi integers, with 128 of them for each invocation, take 0.8 of the time (Intel Xeon with AMX).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernel_ir.bindings import SUBSPAN, read_only_memrefs
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, constant_or_value
from pydispatch.compiler.kernel_ir.readers import counts_indices
from pydispatch.compiler.kernel_ir.stack import MOST_OPTIMIZED_BYTES, stack_bytes
from pydispatch.compiler.kernel_ir.types import byte_size
from pydispatch.compiler.kernel_ir.vector_loops import LANES, allocated_on_stack, emit_lanes
from pydispatch.ir.core.walk import is_defined_outside, walk
from pydispatch.ir.dialects.pyd.prefix_scan import KINDS, PrefixScanOp
from pydispatch.ir.op_info import info_of

Access = memref.LoadOp | memref.StoreOp

_ALLOCATIONS = {memref.AllocOp.name, memref.AllocaOp.name}
"""Operations that allocate memory: only their results, and views of these, refer to it."""


def scan_in_vectors(function: FuncOp) -> None:
    """Insert a loop over vectors before each loop of a function that computes a prefix scan of integers.

    The original loop then computes the remaining elements, fewer than a vector has. Once the stack has no room for
    another vector, the remaining loops stay as they are.
    """
    entry, read_only = Entry(function), read_only_memrefs(function)
    allocated_bytes = stack_bytes(function)
    for loop in [op for op in walk(function) if isinstance(op, scf.ForOp)]:
        scan = _find_scan(loop, read_only)
        if scan is None:
            continue
        allocated_bytes += LANES * byte_size(scan.result.type)
        if allocated_bytes > MOST_OPTIMIZED_BYTES:  # the stack has no room for the vector of this scan
            return
        _emit_vectors(Build.before(entry, loop), loop, scan)


@dataclass(frozen=True)
class Scan:
    """Operations in the body of a scan loop, which stores the running combination of integers, such as their sum.

    `_find_scan` creates it. In `for i { total += x[i + 5]; y[i + 5] = total * 2 }`, the kind is "arith.addi", the
    element is `x[i + 5]`, and the result the new `total`. The inputs are `i + 5` and the load, the addresses only
    `i + 5`; the outputs are the product and the store.

    Attributes:
        kind: Name of the operation that combines the running value and an element, one of `KINDS`.
        element: The element of an iteration, the other operand of the combination.
        result: The running value after the iteration.
        inputs: Operations that do not depend on the running value. They compute `element`, in a loop before the scan.
        addresses: Operations of `inputs` that do not depend on loads, such as indices. The loop of `outputs`, after the
            scan, computes them again.
        outputs: Operations that depend on the running value, among them the store.
    """

    kind: str
    element: SSAValue
    result: SSAValue
    inputs: Sequence[Operation]
    addresses: Sequence[Operation]
    outputs: Sequence[Operation]


def _find_scan(loop: scf.ForOp, read_only: frozenset[SSAValue]) -> Scan | None:
    """Return the parts of a loop with a step of 1 that stores a scan of integers; None for other loops.

    A scan stores a running combination, such as a sum: `for i { total += x[i]; y[i] = total }`. The loop carries one
    integer, which only an operation of `KINDS` reads, and stores a value computed from it. Loads and the store access
    contiguous elements. A load reads the element that its own iteration stores, or memory that the store does not
    overlap.

    `read_only` are memrefs that nothing in the function writes.
    """
    block = loop.body.block
    combination = _combination_of(loop)
    if combination is None:
        return None
    # The operations before and after the combination, which are executed in separate loops.
    *operations, terminator = block.ops
    result = terminator.operands[0]
    parts = _parts_around(combination, operations, result)
    if parts is None:
        return None
    # The accesses: one store, which follows or is independent of all loads.
    loads = [op for op in parts.inputs if isinstance(op, memref.LoadOp)]
    stores = [op for op in parts.outputs if isinstance(op, memref.StoreOp)]
    accesses: list[Access] = [*loads, *stores]
    if len(stores) != 1 or stores[0].value not in parts.dependent:
        return None  # not a scan but a reduction, which LLVM vectorizes; loads may also follow a store of other values
    if not all(_is_contiguous(access, block) for access in accesses):
        return None
    if not all(_are_independent(stores[0], load, read_only) for load in loads):
        return None
    (element,) = (operand for operand in combination.operands if operand is not block.args[1])
    return Scan(combination.name, element, result, parts.inputs, parts.addresses, parts.outputs)


def _combination_of(loop: scf.ForOp) -> Operation | None:
    """Return the operation that computes the next running value of a loop from the running value and an element.

    Return None unless the loop counts by 1, carries one integer, which only this operation reads, and has enough
    iterations for a vector.
    """
    counts_by_1 = counts_indices(loop) and constant_or_value(loop.step) == 1
    if not counts_by_1 or len(loop.results) != 1 or _is_short(loop):
        return None
    running, *operations, terminator = loop.body.block.args[1], *loop.body.block.ops
    result = terminator.operands[0]
    combination = next((op for op in operations if result in op.results and op.name in KINDS), None)
    is_scan = combination is not None and [use.operation for use in running.uses] == [combination]
    return combination if is_scan and _fits_vectors(running.type) else None


class _Parts(NamedTuple):
    """Operations in the body of a scan loop, such as `for i { total += x[i]; y[i] = total }`, by their order.

    Attributes:
        inputs: Operations before the combination (`total += ...`): they compute the element, `x[i]`.
        addresses: Operations of `inputs` that depend on no load.
        outputs: Operations after the combination: they depend on the running value, or store.
        dependent: The result of the combination (the new `total`), and the results of `outputs`.
    """

    inputs: list[Operation]
    addresses: list[Operation]
    outputs: list[Operation]
    dependent: set[SSAValue]


def _parts_around(combination: Operation, operations: Sequence[Operation], result: SSAValue) -> _Parts | None:
    """Divide the operations of a loop's body into those before and those after a combination with this `result`.

    The operations before it, the inputs, run in one loop over lanes for 16 iterations; the operations after it, the
    outputs, then run in another such loop. The outputs cannot read values of the inputs, and compute addresses again.
    They must not repeat loads, because stores of other iterations may have changed the memory. So return None if an
    output is a load or reads a value computed from a load, as in `y[i] = total + x[i]`. Also return None if an
    operation has regions, or effects other than a load or store.

    Args:
        combination: The operation that combines the running value and an element.
        operations: The operations of the body, in order, without the terminator.
        result: The result of `combination`, the next running value.
    """
    # loaded: values computed from loads. dependent: values computed from the result of the combination.
    inputs, outputs, loaded, dependent = list[Operation](), list[Operation](), set[SSAValue](), {result}
    for op in operations:
        is_store, is_load = isinstance(op, memref.StoreOp), isinstance(op, memref.LoadOp)
        is_accepted = is_store or is_load or info_of(op).is_pure
        if op.regions or not is_accepted:
            return None
        is_output = is_store or not dependent.isdisjoint(op.operands)
        needs_load = is_load or not loaded.isdisjoint(op.operands)
        if is_output and needs_load:  # the value would be loaded after stores
            return None
        if is_output:
            outputs.append(op)
            dependent.update(op.results)
        elif op is not combination:
            inputs.append(op)
            if needs_load:
                loaded.update(op.results)
    addresses = [op for op in inputs if loaded.isdisjoint(op.results)]
    return _Parts(inputs, addresses, outputs, dependent)


def _is_short(loop: scf.ForOp) -> bool:
    """Return whether a loop is known to have fewer iterations than a vector has lanes."""
    lower, upper = constant_or_value(loop.lb), constant_or_value(loop.ub)
    return isinstance(lower, int) and isinstance(upper, int) and upper - lower < LANES


def _fits_vectors(type_: Attribute) -> bool:
    """Return whether a type is `index`, or an integer of 8, 16, 32 or 64 bits."""
    return isinstance(type_, IndexType) or (isinstance(type_, IntegerType) and type_.width.data in (8, 16, 32, 64))


def _is_contiguous(access: Access, block: Block) -> bool:
    """Return whether the iterations of a loop with this body access contiguous elements of memory, in order."""
    strides = cast("MemRefType[Attribute]", access.memref.type).get_strides()
    if not strides or strides[-1] != 1:
        return False
    *outer, last = (_slope(index, block) for index in access.indices)
    return last == 1 and all(slope == 0 for slope in outer)


def _slope(index: SSAValue, block: Block) -> int | None:
    """Return the increase of an index from one iteration of a loop to the next; None if it is not known."""
    if index is block.args[0]:
        return 1
    if is_defined_outside(index, block):
        return 0
    if not isinstance(index.owner, arith.AddiOp):
        return None
    left, right = (_slope(operand, block) for operand in index.owner.operands)
    return None if left is None or right is None else left + right


def _are_independent(store: Access, load: Access, read_only: frozenset[SSAValue]) -> bool:
    """Return whether no iteration stores to an element that a later one loads.

    Arguments of blocks, such as memory that an outer loop carries, may be any memory of the function. `read_only` are
    memrefs that nothing stores to.
    """
    if load.memref in read_only:
        return True
    if load.memref is store.memref:  # accesses are contiguous: with equal indices, no two iterations share an element
        return list(load.indices) == list(store.indices)
    owners = load.memref.owner, store.memref.owner
    origins = {owner.name if isinstance(owner, Operation) else "argument" for owner in owners}
    # Two different memrefs do not overlap if one is an allocation, and the other an allocation or a whole binding. Two
    # bindings may be the same buffer, and a view or an argument may be a part of the allocation.
    return bool(origins & _ALLOCATIONS) and origins <= _ALLOCATIONS | {SUBSPAN}


def _emit_vectors(build: Build, loop: scf.ForOp, scan: Scan) -> None:
    """Emit a loop that scans whole vectors of `LANES` elements, and let `loop` compute the elements after them.

    With 40 iterations from 0 on, the emitted loop computes the first 32 in two steps, and `loop` becomes one from 32 to
    40 that begins with the running value of iteration 31.
    """
    type_ = loop.results[0].type
    vector = allocated_on_stack(build, type_, LANES)  # the elements of a step, then their running values
    # The iterations from lower to end are whole vectors. A loop with upper < lower has no elements.
    lower, upper = constant_or_value(loop.lb), constant_or_value(loop.ub)
    elements = build.most(build.minus(upper, lower), 0)
    _, rest = build.divide(elements, LANES)
    end = build.plus(lower, build.minus(elements, rest))

    def step(inner: Build, first: SSAValue, carried: list[SSAValue]) -> Sequence[SSAValue]:
        """Emit the scan of the `LANES` elements from `first` on, and return the last result, which the loop carries."""
        _emit_elements(inner, loop, scan, vector, first)  # stores the elements in `vector`
        # The scan replaces them by the running values; `carried` has the one before the first of them.
        scanned = PrefixScanOp(
            operands=[carried[0], vector], result_types=[type_], properties={"kind": StringAttr(scan.kind)}
        )
        last = inner.let(scanned)
        _emit_results(inner, loop, scan, vector, first)
        return [last]

    (total,) = build.loop(lower, end, LANES, loop.iter_args, step)
    # Operands of an `scf.for`: lower bound, upper bound, step, initial values.
    loop.operands[0], loop.operands[3] = build.value(end), total


def _emit_elements(build: Build, loop: scf.ForOp, scan: Scan, vector: SSAValue, first: SSAValue) -> None:
    """Emit a parallel loop that stores the elements of the iterations from `first` on into `vector`.

    It runs `scan.inputs`, the operations of the body of `loop` that compute an element.
    """
    block = Block(arg_types=[INDEX])
    inner = build.inside(block)
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: inner.value(inner.plus(first, block.args[0]))}
    for op in scan.inputs:
        inner.insert(op.clone(values))
    inner.op(memref.StoreOp.get(values.get(scan.element, scan.element), vector, [block.args[0]]))
    inner.op(scf.ReduceOp())
    emit_lanes(build, LANES, block)


def _emit_results(build: Build, loop: scf.ForOp, scan: Scan, vector: SSAValue, first: SSAValue) -> None:
    """Emit a parallel loop that completes the iterations from `first` on, whose running values it loads from `vector`.

    It runs `scan.outputs`, with the store, and before them `scan.addresses` again.
    """
    block = Block(arg_types=[INDEX])
    inner = build.inside(block)
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: inner.value(inner.plus(first, block.args[0]))}
    values[scan.result] = inner.let(memref.LoadOp.get(vector, [block.args[0]]))
    for op in (*scan.addresses, *scan.outputs):
        inner.insert(op.clone(values))
    inner.op(scf.ReduceOp())
    emit_lanes(build, LANES, block)
