"""Calls of kernels that the user supplies."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64, DType, UnknownTypeError, dtype_named
from pydispatch.graph.sizes import Expr, Shape, Size, product
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.dialects.pyd.custom import CustomOp
from pydispatch.operations.shapes import element
from pydispatch.patterns.kernels import CustomOperation
from pydispatch.patterns.types import TensorType

ASSUMED = "pyd.assumed"
"""Attribute of a custom operation whose result types are assumed, because nothing states them."""

Number = bool | int | float | Tensor
"""Value of a numeric attribute of a custom operation. A constant tensor of rank 0 also states the attribute's type."""


class _KernelValue(NamedTuple):
    """Value that a call of a custom operation passes to the kernel: a tensor, a number or a size.

    Attributes:
        name: Name of the kernel's parameter.
        value: The value.
        sizes: For each axis of a tensor the name of its dynamic size, or its static size as text; () for a number.
    """

    name: str
    value: SSAValue
    sizes: Sequence[str] = ()


def custom_call(
    builder: Builder, name: str, operands: Sequence[Tensor], results: Sequence[tuple[DType, Shape]],
    attributes: Mapping[str, Number] | None = None, names: Sequence[str] | None = None, float_dtype: DType = F32,
    other_names: Sequence[str] = (), is_assumed: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Add a call of the user's kernel `name`, which `compile(..., kernels={name: ...})` supplies, and return its
    results.

    A kernel may have parameters for each tensor (`names`, else in0, in1, ...), each numeric attribute, the results
    (out, or out0, out1, ...), each dynamic size (its symbol, else in0_size1), and `count`, the number of elements of
    the first result.

    Args:
        builder: The builder.
        name: Name of the custom operation.
        operands: The operands.
        results: Element type and shape of each result.
        attributes: Numeric attributes by name; a float is passed as `float_dtype`, an integer as i64, a tensor of one
            element as its element.
        names: Names of the operands for the kernel; None for in0, in1, ...
        float_dtype: Type of float attributes.
        other_names: Names in the model of the operands, then of the results, as far as it has them; kernels may use
            these names too.
        is_assumed: Whether the types of the results are assumed, because neither the user nor the model states them.
    """
    # What the kernel may have as parameters: tensors, attributes, results and sizes.
    inputs = list(names) if names is not None else [f"in{i}" for i in range(len(operands))]  # names of the operands
    known: dict[Size, str] = {}  # dynamic size → its name; `_size_name` and `_result_shapes` add names
    values: list[_KernelValue] = []
    for input_name, x in zip(inputs, operands, strict=True):
        sizes = [_size_name(known, n, f"{input_name}_size{axis}") for axis, n in enumerate(x.shape)]
        if x.dtype.is_complex:
            raise builder.fail(f"custom operation '{name}' of {x}: complex tensors are not passed to kernels",
                         "pass the real and the imaginary part")  # fmt: skip
        (value,) = builder.parts(x)
        values.append(_KernelValue(input_name, value, sizes))
    for key, attribute in (attributes or {}).items():
        values.append(_KernelValue(key, _attribute_value(builder, attribute, float_dtype)))
    outputs = ["out"] if len(results) == 1 else [f"out{i}" for i in range(len(results))]  # names of the results
    result_shapes, own_sizes = _result_shapes(outputs, [shape for _, shape in results], known)
    count = product(results[0][1]) if results else 0
    values += [_KernelValue(key, builder.index(n)) for key, n in (own_sizes | {"count": count}).items()]

    properties: dict[str, Attribute] = {
        "callee": StringAttr(name),
        "operand_names": _strings(v.name for v in values),
        "shapes": ArrayAttr([_strings(axes) for axes in (*(v.sizes for v in values), *result_shapes)]),
    }
    renamed = {key: other for key, other in zip([*inputs, *outputs], other_names, strict=False) if other != key}
    if renamed:  # "" where there is no other name
        properties["other_names"] = _strings(renamed.get(key, "") for key in (*(v.name for v in values), *outputs))
    op = CustomOp(
        operands=[[v.value for v in values]],
        result_types=[[tensor_type(dtype.element, shape) for dtype, shape in results]],
        properties=properties,
    )
    if is_assumed:
        op.attributes[ASSUMED] = UnitAttr()
    builder.add(op)
    return [builder.wrap(dtype, shape, value) for (dtype, shape), value in zip(results, op.results_, strict=True)]


def _attribute_value(builder: Builder, attribute: Number | Tensor, float_dtype: DType) -> SSAValue:
    """Return the value of an attribute: the element of a tensor, a float as `float_dtype`, or an integer as i64."""
    if isinstance(attribute, Tensor):
        return element(builder, attribute)
    return builder.scalar_constant(attribute, float_dtype if isinstance(attribute, float) else I64)


def _strings(texts: Iterable[str]) -> ArrayAttr[StringAttr]:
    """Return texts as an attribute."""
    return ArrayAttr([StringAttr(text) for text in texts])


def _result_shapes(
    outputs: Sequence[str], shapes: Sequence[Shape], known: dict[Size, str]
) -> tuple[list[list[str]], dict[str, Size]]:
    """Return the shapes of results as text, and the sizes that no operand has, by their new names.

    A dynamic size is written as its name in `known`, to which the new names (such as out_size0) are added.
    """
    texts: list[list[str]] = []
    own_sizes: dict[str, Size] = {}
    for output, shape in zip(outputs, shapes, strict=True):
        for axis, n in enumerate(shape):
            if isinstance(n, Expr) and n not in known:
                known[n] = f"{output}_size{axis}"
                own_sizes[known[n]] = n
        texts.append([known[n] if isinstance(n, Expr) else str(n) for n in shape])
    return texts, own_sizes


def result_types(
    builder: Builder, kernels: Mapping[str, object], name: str, operands: Sequence[Tensor], names: Sequence[str] = (),
    other_names: Sequence[str] = (),
) -> list[tuple[DType, Shape]] | None:  # fmt: skip
    """Return the result types that the user states for the custom operation `name`; None if the user states none.

    Raise CompileError for invalid types, and for any exception of the user's function.

    Args:
        builder: The builder.
        kernels: The user's kernels by name of the operation; of these only a CustomOperation states types.
        name: Name of the operation.
        operands: The operands.
        names: Their names for kernels; in0, in1, ... if there are none.
        other_names: Their names in the model.
    """
    custom = kernels.get(name)
    if not isinstance(custom, CustomOperation):
        return None
    keys = [*names] or [f"in{i}" for i in range(len(operands))]
    # Operands by both names; a name for kernels takes precedence. `other_names` may have names of results too.
    known = dict(zip(other_names, operands, strict=False)) | dict(zip(keys, operands, strict=True))
    try:
        listed = custom.results(*operands) if callable(custom.results) else custom.results
        if isinstance(listed, (str, Tensor, TensorType)) or not isinstance(listed, Sequence):
            raise _WrongType(f"expected a list with a type for each result, got {_shown(listed)}")
        return [_type_of(result, known) for result in listed]
    except Exception as error:  # whatever the user's function does
        shown = ", ".join(f"{key}: {x}" for key, x in zip(keys, operands, strict=True)) or "no operand"
        is_ours = isinstance(error, (_WrongType, UnknownTypeError))
        why = str(error) if is_ours else f"{type(error).__name__}: {error}"
        what = "function for the results" if callable(custom.results) else "list of results"
        raise builder.fail(
            f"the {what} of '{name}' failed: {why}",
            f"it gets {shown}, and gives a list with the type of each result: an operand or its name, "
            'pydispatch.f32["n", 3], "f32[n, 3]" or (dtype, shape)',
        ) from error


def _shown(value: object) -> str:
    """Return what the user states in place of a list of result types as text for an error message."""
    return f"the operand {value}" if isinstance(value, Tensor) else repr(value)


class _WrongType(Exception):
    """Error for an invalid result type that the user states; the message gives the reason."""


def _type_of(stated: Any, operands: Mapping[str, Tensor]) -> tuple[DType, Shape]:
    """Return the type that the user states for a result: an operand or its name, "f32[n, 3]", a TensorType, or (dtype,
    shape).

    A size may be the name of a dynamic size of an operand, as the n of "f32[n, 3]". `operands` are all operands by
    name. Raise _WrongType for any other value and for unknown sizes, UnknownTypeError for an unknown dtype.
    """
    if isinstance(stated, Tensor):
        return stated.dtype, stated.shape
    if isinstance(stated, str):
        if stated in operands:
            return operands[stated].dtype, operands[stated].shape
        parts = re.fullmatch(r"\s*(\w+)\s*\[(.*)\]\s*", stated, re.DOTALL)
        if parts is None:
            known_operands = ", ".join(operands) or "there is none"
            raise _WrongType(f"'{stated}' is no operand ({known_operands}), and no type such as f32[n, 3]")
        sizes = [n.strip() for n in parts[2].split(",")] if parts[2].strip() else []
        return dtype_named(parts[1]), tuple(_size_of(int(n) if n.isdecimal() else n, operands) for n in sizes)
    if isinstance(stated, TensorType) and stated.shape is not None:
        return dtype_named(stated.dtype), tuple(_size_of(n, operands) for n in stated.shape)
    if not isinstance(stated, (tuple, list)) or len(stated) != 2 or not isinstance(stated[1], (tuple, list)):
        raise _WrongType(f"{stated!r} is no type of a tensor")
    return dtype_named(stated[0]), tuple(_size_of(n, operands) for n in stated[1])


def _size_of(stated: Any, operands: Mapping[str, Tensor]) -> Size:
    """Return a size that the user states for a result of a kernel.

    It is a number, a computed size, or a name: that of a dynamic size, or `x_size0` for axis 0 of the operand x. Raise
    _WrongType for a name that no operand has, and for any other value.
    """
    if isinstance(stated, Expr):
        return stated
    if isinstance(stated, str):
        known: dict[str, Size] = {str(n): n for x in operands.values() for n in x.shape if isinstance(n, Expr)}
        known |= {f"{key}_size{axis}": n for key, x in operands.items() for axis, n in enumerate(x.shape)}
        if stated not in known:
            raise _WrongType(f"the size '{stated}' is that of no operand; there are {', '.join(known) or 'none'}")
        return known[stated]
    try:
        size = operator.index(stated)
    except TypeError:
        size = -1  # no integer: refused below
    if isinstance(stated, bool) or size < 0:
        raise _WrongType(f"a size is a number from 0 or a name, got {stated!r}")
    return size


def _size_name(known: dict[Size, str], n: Size, fallback: str) -> str:
    """Return the name of an operand's size for kernels: its symbol, else `fallback`. The name of a static size is its
    number.

    `known` maps dynamic sizes to the names that they have already; the name of n is added.
    """
    if not isinstance(n, Expr):
        return str(n)
    if n not in known:
        size_symbol = n.as_symbol()
        known[n] = size_symbol.name if size_symbol is not None and size_symbol.name.isidentifier() else fallback
    return known[n]
