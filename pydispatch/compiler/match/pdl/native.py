"""Native constraints and rewrites that PDL patterns call by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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

from pydispatch.compiler.match.edit.symbols import clone, table_of
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
    """Replace values by the results of a dispatch that calls an external function, and return the dispatch.

    The function is called once. For each tensor it gets the base address and an offset in elements: inputs, then
    results, then the other operands.

    Args:
        arguments: Arguments of `rewriteAsFlowDispatch`: the root of the match, the name of the function, inputs,
            replaced tensors, the sizes of these (see `_result_dims`), and other operands.
        anchor: Operation before which the dispatch is inserted, with the same source location.
        program: Program, which gets the executable of the dispatch.
        spec: Call in the pattern, for the location of errors.
    """
    if len(arguments) != 6:
        raise CompileError(f"rewriteAsFlowDispatch takes 6 arguments, got {len(arguments)}", location_of(spec),
                           "the root, the name, inputs, replaced values, their sizes, other operands")  # fmt: skip
    _, name, inputs, replaced, sizes, others = arguments
    if not isinstance(name, StringAttr):
        raise CompileError(f"the name of the function is a string, got {name}", location_of(spec))
    for value in (*inputs, *others):
        if not isinstance(value.type, TensorType | IntegerType | AnyFloat):
            raise CompileError(f"'{name.data}' cannot be given a {value.type}", location_of(spec),
                               "operands are tensors, integers and floats; cast an index to i32 or i64")  # fmt: skip
    _check_replaced(replaced, name.data, spec)
    operands = [*inputs, *others]
    tensors = [v for v in operands if isinstance(v.type, TensorType)]
    scalars = [v for v in operands if not isinstance(v.type, TensorType)]
    executable = _executable(name.data, [v.type for v in inputs], [v.type for v in replaced],
                             [v.type for v in others], program, anchor)  # fmt: skip

    def add(op: Operation) -> SSAValue:
        """Insert an operation before the anchor, and return its first result."""
        set_location(op, anchor)
        anchor.parent.insert_op_before(op, anchor)  # type: ignore[union-attr]
        return op.results[0]

    dims = []
    for tensor in tensors:
        for d, size in enumerate(tensor.type.get_shape()):
            if size == DYNAMIC:
                dims.append(add(DimOp(tensor, add(ConstantOp.from_int_and_width(d, IndexType())))))
    dispatch = flow.DispatchOp(
        operands=[[], [*tensors, *scalars], dims, _result_dims(replaced, sizes, spec)],
        result_types=[[v.type for v in replaced]],
        properties={"entry_points": ArrayAttr([SymbolRefAttr(executable, [f"{name.data}_entry_point"])])},
    )
    add(dispatch)
    for old, new in zip(replaced, dispatch.results, strict=True):
        new.name_hint = old.name_hint
        for use in list(old.uses):
            # Operations before the dispatch compute its sizes from the old value.
            if use.operation is not dispatch and not _is_before(use.operation, dispatch):
                use.operation.operands[use.index] = new
    return [dispatch]


def _check_replaced(replaced: Sequence[SSAValue], name: str, spec: Operation) -> None:
    """Raise CompileError unless each replaced value is a tensor that an operation defines."""
    for value in replaced:
        if not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
            what = f"a result of type {value.type}" if isinstance(value, OpResult) else "an argument"
            raise CompileError(f"a dispatch of '{name}' cannot replace {what}", location_of(spec),
                               "the replaced values are tensors that operations of the match give")  # fmt: skip


def _is_before(user: Operation, dispatch: Operation) -> bool:
    """Return whether a use precedes the dispatch. Such a use computes a size from the old value and keeps it."""
    return user.parent is dispatch.parent and user.is_before_in_block(dispatch)


def _result_dims(replaced: Sequence[SSAValue], sizes: Sequence[SSAValue], spec: Operation) -> list[SSAValue]:
    """Return the dynamic sizes of the replaced tensors, by tensor and dimension; raise CompileError for a wrong number
    of sizes.

    sizes: in the same order, either the sizes of all dimensions, or only the dynamic ones.
    """
    shapes: list[int] = [s for v in replaced for s in v.type.get_shape()]  # type: ignore[attr-defined]
    dynamic = sum(1 for s in shapes if s == DYNAMIC)
    if len(sizes) == len(shapes):
        return [v for v, s in zip(sizes, shapes, strict=True) if s == DYNAMIC]
    if len(sizes) == dynamic:
        return list(sizes)
    raise CompileError(
        f"the replaced values have {len(shapes)} sizes, {dynamic} of them dynamic, but {len(sizes)} are given",
        location_of(spec), "give the size of every dimension of every replaced value",
    )  # fmt: skip


def _executable(
    function: str, inputs: Sequence[Attribute], results: Sequence[Attribute], others: Sequence[Attribute],
    program: ModuleOp, anchor: Operation,
) -> str:  # fmt: skip
    """Return the name of the executable that calls the function; create the executable if the program does not have
    it.

    The bindings and constants of the executable have the order of the dispatch: tensor operands, results, scalars. The
    arguments of the call have the order of the pattern: inputs, results, other operands.

    Args:
        function: Name of the external function.
        inputs: Types of the inputs.
        results: Types of the replaced values.
        others: Types of the other operands.
        program: Program, which gets the executable.
        anchor: Operation whose location its operations get.
    """
    types = [t.element_type if isinstance(t, TensorType) else t for t in (*inputs, *results, *others)]
    name = f"{function}_{'_'.join(map(str, types))}_executable"
    if name in table_of(program):
        return name
    from pydispatch import ir

    tensors = [t for t in (*inputs, *results, *others) if isinstance(t, TensorType)]
    scalars = [t for t in (*inputs, *others) if not isinstance(t, TensorType)]
    bindings = [f"%b{i}: !stream.binding" for i in range(len(tensors))]
    arguments = [*bindings, *(f"%s{i}: {t}" for i, t in enumerate(scalars))]
    lines, call, signature = [], [], []  # operations before the call; its arguments; their types
    input_count = len(tensors) - len(results)
    input_bindings, result_bindings = iter(range(input_count)), iter(range(input_count, len(tensors)))
    scalar_numbers = iter(range(len(scalars)))

    def pass_on(type: Attribute, binding: int | None) -> None:
        """Append an argument to the call: the memref of a binding with offset 0, or, without one, the next scalar."""
        if isinstance(type, TensorType):
            lines.append(f"%m{binding} = stream.binding.subspan %b{binding}[%c0] : !stream.binding -> "
                         f"memref<{type.element_type}>")  # fmt: skip
            call.append(f"%m{binding}, %c0")
            signature.append(f"memref<{type.element_type}>, index")
        else:
            call.append(f"%s{next(scalar_numbers)}")
            signature.append(str(type))

    for type in inputs:
        pass_on(type, next(input_bindings) if isinstance(type, TensorType) else None)
    for type in results:
        pass_on(type, next(result_bindings))
    for type in others:
        pass_on(type, next(input_bindings) if isinstance(type, TensorType) else None)
    body = "\n        ".join(lines)
    # llvm.bareptr: a memref is passed as its address alone.
    text = f"""
  stream.executable private @"{name}" {{
    stream.executable.export public @{function}_entry_point workgroups() -> (index, index, index) {{
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }}
    builtin.module {{
      func.func private @{function}({", ".join(signature)}) attributes {{llvm.bareptr = [true]}}
      func.func @{function}_entry_point({", ".join(arguments)}) {{
        %c0 = arith.constant 0 : index
        {body}
        func.call @{function}({", ".join(call)}) : ({", ".join(signature)}) -> ()
        return
      }}
    }}
  }}"""
    executable = ir.parse(text, f"<{function}>").body.block.first_op
    assert executable is not None
    copy = clone(executable)
    for inner in walk(copy):
        set_location(inner, anchor)
    first = program.body.block.first_op
    assert first is not None
    program.body.block.insert_op_before(copy, first)
    return name


REWRITES: dict[str, Callable[[Sequence[Any], Operation, ModuleOp, Operation], list[Any]]] = {
    "rewriteAsFlowDispatch": rewrite_as_dispatch,
}
"""Name -> a function of (bound values, insertion point, program, call in the spec) that returns the new operations."""
