"""Operations that only the user has a kernel for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import DTYPES, F32, I64, DType
from pydispatch.frontends.graph.sizes import Expr, Shape, Size, Symbol, product
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops.shapes import element
from pydispatch.ir.dialects.pyd.custom import CustomOp
from pydispatch.patterns.kernels import CustomOperation

Number = bool | int | float | Tensor
"""An attribute that is a number; a tensor of rank 0 that is known says its type."""


def custom_call(
    b: Builder, name: str, operands: Sequence[Tensor], results: Sequence[tuple[DType, Shape]],
    attributes: Mapping[str, Number] | None = None, names: Sequence[str] | None = None, float_dtype: DType = F32,
) -> list[Tensor]:  # fmt: skip
    """A call of the user's kernel `name`, given by `compile(..., kernels={name: ...})`.

    Kernels may name as arguments: each tensor (`names`, else in0, in1, ...), each attribute that is a number (a float
    as `float_dtype`, an integer as i64), out or out0, out1, ..., each size by its symbol or as in0_size1, and `count`,
    the number of elements of the first result.
    """
    tensors = list(names) if names is not None else [f"in{i}" for i in range(len(operands))]
    known: dict[Size, str] = {}
    shapes = []
    for tensor, t in zip(tensors, operands, strict=True):
        shapes.append([_size_name(known, n, f"{tensor}_size{axis}") for axis, n in enumerate(t.shape)])
    values: list[tuple[str, SSAValue]] = [
        (tensor, part)
        for tensor, t in zip(tensors, operands, strict=True)
        for part in (b.parts(t) if not t.dtype.is_complex else _no_complex(b, name, t))
    ]
    for key, number in (attributes or {}).items():
        if isinstance(number, Tensor):
            values.append((key, element(b, number)))
        else:
            values.append((key, b.number(number, float_dtype if isinstance(number, float) else I64)))
    outputs = ["out"] if len(results) == 1 else [f"out{i}" for i in range(len(results))]
    made: list[list[str]] = []
    extra: dict[str, Size] = {}
    for output, (_, shape) in zip(outputs, results, strict=True):
        made.append([])
        for axis, n in enumerate(shape):
            if isinstance(n, Expr) and n not in known:
                known[n] = f"{output}_size{axis}"
                extra[known[n]] = n
            made[-1].append(known[n] if isinstance(n, Expr) else str(n))
    extra["count"] = product(results[0][1]) if results else 0
    shapes += [[] for _ in attributes or {}] + [[] for _ in extra]
    values += [(key, b.index(n)) for key, n in extra.items()]
    op = CustomOp(
        operands=[[value for _, value in values]],
        result_types=[[tensor_type(dtype.element, shape) for dtype, shape in results]],
        properties={
            "callee": StringAttr(name), "operand_names": ArrayAttr([StringAttr(key) for key, _ in values]),
            "shapes": ArrayAttr([ArrayAttr([StringAttr(n) for n in each]) for each in (*shapes, *made)]),
        },
    )  # fmt: skip
    b.add(op)
    return [b.wrap(dtype, shape, value) for (dtype, shape), value in zip(results, op.results_, strict=True)]


def result_types(
    b: Builder, kernels: Mapping[str, object], name: str, operands: Sequence[Tensor]
) -> list[tuple[DType, Shape]] | None:
    """What the user says of the results of a custom operation; None where nothing is said."""
    given = kernels.get(name)
    if not isinstance(given, CustomOperation):
        return None
    expected = "a list with an operand, or (dtype, shape), for each result"
    try:
        listed = list(given.results(*operands))
        pairs = [(x.dtype, x.shape) if isinstance(x, Tensor) else (x[0], x[1]) for x in listed]
        return [(d if isinstance(d, DType) else DTYPES[str(d)], tuple(shape)) for d, shape in pairs]
    except Exception as error:  # whatever the user's function does
        given = ", ".join(map(str, operands)) or "no operand"
        raise b.fail(f"the function for the results of '{name}' failed: {type(error).__name__}: {error}",
                     f"it gets {given} and gives {expected}") from error  # fmt: skip


def _size_name(known: dict[Size, str], n: Size, fallback: str) -> str:
    """The name of an operand's size: its symbol, or `fallback`; a number stays one."""
    if not isinstance(n, Expr):
        return str(n)
    if n not in known:
        atoms = n.terms[0][0]
        plain = len(n.terms) == 1 and n.terms[0][1] == 1 and len(atoms) == 1 and isinstance(atoms[0], Symbol)
        known[n] = str(atoms[0]) if plain and str(atoms[0]).isidentifier() else fallback
    return known[n]


def _no_complex(b: Builder, name: str, t: Tensor) -> tuple[SSAValue, ...]:
    raise b.fail(f"custom operation '{name}' of {t}: complex tensors are not passed to kernels",
                 "pass the real and the imaginary part")  # fmt: skip
