"""Native constraints and rewrites that PDL patterns call by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.tensor import DimOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.match.edit.symbols import are_equal, clone, table_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow


def _element_type(arguments: Sequence[Any]) -> str | None:
    """Check the constraint `checkTensorElementType(type, element)`; return None if it holds, else the reason."""
    type, element = arguments
    if not isinstance(type, TensorType):
        return f"expected a tensor, got {type}"
    return None if type.element_type == element else f"expected elements of {element}, got {type}"


CONSTRAINTS: dict[str, Callable[[Sequence[Any]], str | None]] = {"checkTensorElementType": _element_type}
"""Name -> a function of the bound values that returns None if the constraint holds, else the reason why not."""


def rewrite_as_dispatch(arguments: Sequence[Any], anchor: Operation, program: ModuleOp, spec: Operation) -> list[Any]:
    """Replace values by the results of a dispatch that calls an external function; return [the dispatch].

    The function is called once. For each tensor it gets the base address and an offset in elements: inputs, then
    results, then the other operands. For the function `scale`, an input %x, a replaced value %y and the other operand
    %n (i32), the dispatch is:

        %r = flow.dispatch @scale_f32_f32_i32_executable::@scale_entry_point(%x, %n)
            : (tensor<4xf32>, i32) -> tensor<4xf32>

    Uses of %y that are not before the dispatch are changed to %r.

    Args:
        arguments: Arguments of `rewriteAsFlowDispatch`: the root of the match, the name of the function, inputs,
            replaced tensors, the sizes of these (all of them, or the dynamic ones, in order), and other operands.
        anchor: Operation before which the dispatch is inserted, with the same source location.
        program: Program, which gets the executable of the dispatch.
        spec: Call in the pattern, for the location of errors.

    Raises:
        CompileError: An argument is missing, of the wrong kind, or of a type that cannot be passed.
    """
    if len(arguments) != 6:
        raise CompileError(f"rewriteAsFlowDispatch takes 6 arguments, got {len(arguments)}", location_of(spec),
                           "the root, the name, inputs, replaced values, their sizes, other operands")  # fmt: skip
    _, name, inputs, replaced, sizes, others = arguments
    if not isinstance(name, StringAttr):
        raise CompileError(f"the name of the function is a string, got {name}", location_of(spec))
    operands = [*inputs, *others]
    _check_operands(operands, name.data, spec)
    _check_replaced(replaced, name.data, spec)
    # The executable, and the dispatch: tensors before scalars, since scalars are constants of the executable.
    executable = _executable(name.data, [v.type for v in inputs], [v.type for v in replaced],
                             [v.type for v in others], program, anchor)  # fmt: skip
    tensors = [v for v in operands if isinstance(v.type, TensorType)]
    scalars = [v for v in operands if not isinstance(v.type, TensorType)]
    dispatch = flow.DispatchOp(
        operands=[[], [*tensors, *scalars], _dynamic_dims(tensors, anchor), _result_dims(replaced, sizes, spec)],
        result_types=[[v.type for v in replaced]],
        properties={"entry_points": ArrayAttr([SymbolRefAttr(executable, [f"{name.data}_entry_point"])])},
    )
    insert_before(dispatch, anchor)
    for old, new in zip(replaced, dispatch.results, strict=True):
        _replace_later_uses(old, new, dispatch)
    return [dispatch]


def _replace_later_uses(old: SSAValue, new: SSAValue, dispatch: Operation) -> None:
    """Replace the uses of a value by a result of `dispatch`, except where the sizes of the dispatch are computed."""
    new.name_hint = old.name_hint
    for use in list(old.uses):
        if use.operation is not dispatch and not _is_before(use.operation, dispatch):
            use.operation.operands[use.index] = new


def _dynamic_dims(tensors: Sequence[SSAValue], anchor: Operation) -> list[SSAValue]:
    """Return the dynamic sizes of tensors as index values, in the order of tensors and their dimensions.

    Each is a `tensor.dim` that is inserted before `anchor`.
    """
    dims = []
    for tensor in tensors:
        assert isinstance(tensor.type, TensorType)
        for axis, size in enumerate(tensor.type.get_shape()):
            if size == DYNAMIC:
                index = insert_before(ConstantOp.from_int_and_width(axis, IndexType()), anchor)
                dims.append(insert_before(DimOp(tensor, index), anchor))
    return dims


def _check_operands(operands: Sequence[SSAValue], name: str, spec: Operation) -> None:
    """Raise CompileError unless each operand of the function `name` is a tensor, an integer or a float."""
    for value in operands:
        if not isinstance(value.type, TensorType | IntegerType | AnyFloat):
            raise CompileError(f"'{name}' cannot be given a {value.type}", location_of(spec),
                               "operands are tensors, integers and floats; cast an index to i32 or i64")  # fmt: skip


def _check_replaced(replaced: Sequence[SSAValue], name: str, spec: Operation) -> None:
    """Raise CompileError unless each replaced value is a tensor that an operation defines."""
    for value in replaced:
        if not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
            refused = f"a result of type {value.type}" if isinstance(value, OpResult) else "an argument"
            raise CompileError(f"a dispatch of '{name}' cannot replace {refused}", location_of(spec),
                               "the replaced values are tensors that operations of the match give")  # fmt: skip


def _is_before(user: Operation, dispatch: Operation) -> bool:
    """Return whether `user`, which reads a value that the dispatch replaces, precedes the dispatch.

    Such an operation computes a size for the dispatch, and must still read the old value.
    """
    return user.parent is dispatch.parent and user.is_before_in_block(dispatch)


def _result_dims(replaced: Sequence[SSAValue], sizes: Sequence[SSAValue], spec: Operation) -> list[SSAValue]:
    """Return the dynamic sizes of the replaced tensors, in the order of tensors and dimensions, selected from `sizes`.

    sizes: in the same order, either the sizes of all dimensions, or only the dynamic ones. Raise CompileError for
        another number of them, located at `spec`.
    """
    all_sizes: list[int] = [s for v in replaced for s in v.type.get_shape()]  # type: ignore[attr-defined]
    dynamic_count = all_sizes.count(DYNAMIC)
    if len(sizes) == len(all_sizes):
        return [v for v, s in zip(sizes, all_sizes, strict=True) if s == DYNAMIC]
    if len(sizes) == dynamic_count:
        return list(sizes)
    raise CompileError(
        f"the replaced values have {len(all_sizes)} sizes, {dynamic_count} of them dynamic, but {len(sizes)} are given",
        location_of(spec), "give the size of every dimension of every replaced value",
    )  # fmt: skip


def _executable(
    function: str, inputs: Sequence[Attribute], results: Sequence[Attribute], others: Sequence[Attribute],
    program: ModuleOp, anchor: Operation,
) -> str:  # fmt: skip
    """Return the name of the executable that calls the function; create the executable if the program does not have
    it.

    The name states the element types in the order of the arguments. For a tensor<4xf32> as input, one as result and an
    i32 as other operand of the function `scale`, it is `scale_f32_f32_i32_executable`. Calls with the same bindings
    share an executable; one with others, such as a scalar f32 instead of a tensor, has a number at the end of its name.

    Args:
        function: Name of the external function.
        inputs: Types of the operands that the function takes before its results.
        results: Types of the replaced values, which the function writes.
        others: Types of the operands that the function takes after its results.
        program: Program, which gets the executable.
        anchor: Operation of the program whose source location the operations of the executable get, for messages.
    """
    from pydispatch import ir

    types = [t.element_type if isinstance(t, TensorType) else t for t in (*inputs, *results, *others)]
    base = f"{function}_{'_'.join(map(str, types))}_executable"
    symbols = table_of(program)
    name, suffix = base, 1
    # The first name that is free, or that an equal executable has.
    while True:
        text = _executable_text(name, function, inputs, results, others)
        executable = ir.parse(text, f"<{function}>").body.block.first_op
        assert executable is not None
        if name not in symbols:
            copy = clone(executable)  # the parsed operation belongs to a module of its own
            for inner in walk(copy):
                set_location(inner, anchor)
            first = program.body.block.first_op
            assert first is not None
            program.body.block.insert_op_before(copy, first)
            return name
        if are_equal(symbols[name], executable):
            return name
        name, suffix = f"{base}_{suffix}", suffix + 1


class _Call(NamedTuple):
    """Call of an external function in an executable, as MLIR text.

    Attributes:
        lines: Operations before the call, which create memrefs of bindings.
        arguments: Arguments of the call; a memref is followed by its offset, 0.
        types: Type of each argument.
    """

    lines: list[str]
    arguments: list[str]
    types: list[str]


def _executable_text(
    name: str, function: str, inputs: Sequence[Attribute], results: Sequence[Attribute], others: Sequence[Attribute]
) -> str:
    """Return the text of an executable `name` that calls an external function.

    The grid has one workgroup, since the function is called once. The bindings and constants of the executable have the
    order of the dispatch: tensor operands, results, scalars. The operands are `inputs` and `others`, which the PDL
    rewrite `rewriteAsFlowDispatch(inputs, results, others)` passes as two lists.

    Args:
        name: Name of the executable.
        function: Name of the external function.
        inputs: Types of the operands that the function takes before its results.
        results: Types of the replaced values, which the function writes.
        others: Types of the operands that the function takes after its results.
    """
    operands = (*inputs, *others)
    binding_count = sum(isinstance(type, TensorType) for type in operands) + len(results)
    scalars = [type for type in operands if not isinstance(type, TensorType)]
    bindings = [f"%b{i}: !stream.binding" for i in range(binding_count)]
    parameters = [*bindings, *(f"%s{i}: {type}" for i, type in enumerate(scalars))]
    call = _call_of(inputs, results, others)
    body = "\n        ".join(call.lines)
    types = ", ".join(call.types)
    # llvm.bareptr: a memref is passed as its address alone.
    return f"""
  stream.executable private @"{name}" {{
    stream.executable.export public @{function}_entry_point workgroups() -> (index, index, index) {{
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }}
    builtin.module {{
      func.func private @{function}({types}) attributes {{llvm.bareptr = [true]}}
      func.func @{function}_entry_point({", ".join(parameters)}) {{
        %c0 = arith.constant 0 : index
        {body}
        func.call @{function}({", ".join(call.arguments)}) : ({types}) -> ()
        return
      }}
    }}
  }}"""


def _call_of(inputs: Sequence[Attribute], results: Sequence[Attribute], others: Sequence[Attribute]) -> _Call:
    """Return the call of the external function in an executable.

    The arguments of the call have the order of `rewriteAsFlowDispatch`: inputs, results, other operands. The bindings
    %b0, %b1, ... have the order of the dispatch: all tensor operands, then results. Scalars are %s0, %s1, ... For the
    inputs (tensor<4xf32>, f32), a result tensor<4xf32> and the other operand tensor<4xi32>, the bindings are %b0 (the
    input), %b1 (the other operand) and %b2 (the result), and the arguments are
    `%m0, %c0, %s0, %m2, %c0, %m1, %c0`: a memref %m of each binding, followed by the offset 0.

    Args:
        inputs: Types of the operands that the function takes before its results.
        results: Types of the results, which the function writes.
        others: Types of the operands that the function takes after its results.
    """
    # Counters of the bindings of operands, of results, and of the scalars.
    operand_count = sum(isinstance(type, TensorType) for type in (*inputs, *others))
    operand_bindings, result_bindings = itertools.count(), itertools.count(operand_count)
    scalar_numbers = itertools.count()
    call = _Call([], [], [])
    arguments: list[tuple[Attribute, Iterator[int]]] = []  # (type, the counter from which it takes its binding)
    arguments += [(type, operand_bindings) for type in inputs]
    arguments += [(type, result_bindings) for type in results]
    arguments += [(type, operand_bindings) for type in others]
    for type, numbers in arguments:
        if isinstance(type, TensorType):
            binding = next(numbers)
            call.lines.append(f"%m{binding} = stream.binding.subspan %b{binding}[%c0] : !stream.binding -> "
                              f"memref<{type.element_type}>")  # fmt: skip
            call.arguments.append(f"%m{binding}, %c0")
            call.types.append(f"memref<{type.element_type}>, index")
        else:
            call.arguments.append(f"%s{next(scalar_numbers)}")
            call.types.append(str(type))
    return call


REWRITES: dict[str, Callable[[Sequence[Any], Operation, ModuleOp, Operation], list[Any]]] = {
    "rewriteAsFlowDispatch": rewrite_as_dispatch,
}
"""Name -> a function of (bound values, insertion point, program, call in the spec) that returns the new operations."""
