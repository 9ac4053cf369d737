"""Declared types and shapes of a graph's inputs and outputs, and the shapes and constants that the caller supplies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.tensors import ModelFault, dtype_of
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor


def declared_type(builder: Builder, info: model.ValueInfoProto) -> tuple[DType, tuple[int | str, ...] | None]:
    """Return the declared element type and shape of a value; the shape is None if the rank is unknown.

    An axis without a number or a symbolic name gets the size name `<value>.<axis>`: of x with the shape [4, "n", ?], it
    is (4, "n", "x.2").

    Raise CompileError for a value that is no tensor, an element type that is not supported, and an invalid size.
    """
    type = info.type.tensor_type if info.type is not None else None
    if type is None:
        raise builder.fail(f"'{info.name}' is no tensor; sequences, maps and optional values cannot be passed")
    try:
        dtype = dtype_of(type.elem_type)
    except ModelFault as fault:
        raise builder.fail(f"'{info.name}': {fault}") from None
    if type.shape is None:
        return dtype, None
    # The sizes: a number, a symbolic name, or a name for this axis.
    sizes: list[int | str] = []
    for axis, dimension in enumerate(type.shape.dim):
        if len(dimension.dim_value):  # read as a repeated field: empty if absent, and the last value counts
            sizes.append(int(dimension.dim_value[-1]))
        else:
            sizes.append(dimension.dim_param or f"{info.name}.{axis}")
    if any(isinstance(n, int) and not 0 <= n < 2**40 for n in sizes):  # 2^40 elements exceed any memory
        raise builder.fail(f"'{info.name}' has the shape {sizes}")
    return dtype, tuple(sizes)


def check_names(builder: Builder, graph: model.GraphProto, names: Sequence[str]) -> None:
    """Raise CompileError if one of `names`, the inputs that the caller describes, is no input of the graph."""
    known = [info.name for info in graph.input]
    for name in names:
        if name not in known:
            raise builder.fail(f"the model has no input '{name}'; it has {', '.join(known)}")


def declare_input(builder: Builder, info: model.ValueInfoProto, shape: Sequence[int | str] | None) -> Input:
    """Return the declaration of an input. `shape` is the shape that the caller passed in `inputs`; None selects the
    shape in the model.
    """
    dtype, declared = declared_type(builder, info)
    if shape is None and declared is None:
        raise builder.fail(
            f"input '{info.name}' has no shape in the model", f"give it: inputs={{'{info.name}': (1, 3, 'h', 'w')}}"
        )
    if shape is not None and declared is not None and len(shape) != len(declared):
        raise builder.fail(f"input '{info.name}' has {len(declared)} axes; {len(shape)} sizes are given")
    sizes = shape if shape is not None else declared
    assert sizes is not None
    return Input(info.name, dtype, tuple(sizes))


def constant_input(builder: Builder, info: model.ValueInfoProto, elements: Any) -> Tensor:
    """Return an input of the graph as a constant with the elements that the caller passed in `constants`."""
    dtype, declared = declared_type(builder, info)
    try:
        constant = builder.constant(elements, dtype)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise builder.fail(f"constants: '{info.name}' is {dtype}: {error}") from None
    if declared is not None and (
        len(declared) != constant.rank
        or any(isinstance(n, int) and n != m for n, m in zip(declared, constant.shape, strict=True))
    ):
        raise builder.fail(f"constants: '{info.name}' has shape {list(declared)}, not {list(constant.shape)}")
    return constant


def as_declared(builder: Builder, result: Tensor, info: model.ValueInfoProto) -> Tensor:
    """Return an output with static sizes from its declaration in place of dynamic sizes derived from its nodes.

    An output f32[n, 4] that is declared as [8, "m"] becomes f32[8, 4]: names of sizes in the declaration say nothing.

    Raise CompileError if the declared type contradicts the derived one.
    """
    if info.type is None:
        return result
    dtype, declared = declared_type(builder, info)
    if dtype != result.dtype:
        raise builder.fail(f"output '{info.name}' is declared as {dtype}; it is {result.dtype}")
    if declared is None:
        return result
    if len(declared) != result.rank or any(
        isinstance(n, int) and isinstance(m, int) and n != m for n, m in zip(declared, result.shape, strict=True)
    ):
        raise builder.fail(f"output '{info.name}' is declared with shape {list(declared)}; it is {result}")
    shape = [n if isinstance(n, int) else m for n, m in zip(declared, result.shape, strict=True)]
    return builder.as_shape(result, shape)
