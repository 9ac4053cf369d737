"""Nodes that a kernel of the user's computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from xdsl.ir import Block

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.call import type_of
from pydispatch.frontends.onnx.scope import Values
from pydispatch.frontends.ops.custom import custom_call, result_types
from pydispatch.frontends.source import ReadOptions
from pydispatch.suggestions import close_matches


class CustomCallContext(Protocol):
    """Interface of the graph traversal that calls of user kernels use."""

    builder: Builder
    options: ReadOptions

    def type_of_info(self, info: model.ValueInfoProto) -> tuple[DType, tuple[int | str, ...] | None]:
        """Return the type that the file states for a value."""


class UserKernels:
    """The kernels that the user gives, by the names of operators, and which of them the model has."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {_without_default_domain(name): name for name in names}
        self._used: set[str] = set()
        self._seen: dict[str, str] = {}

    def named(self, domain: str, node: model.NodeProto, layer: str) -> str | None:
        """Return the user's name of the kernel for a node, and mark it as used; None where there is none. layer: what
        errors call the node.
        """
        name = kernel_name(domain, node)
        if self._names:
            self._seen.setdefault(name, layer)
        if name not in self._names:
            return None
        self._used.add(name)
        return self._names[name]

    def hints(self) -> dict[str, str]:
        """Return a hint for each user kernel that no node uses.

        The hint lists operators of the model with similar names, and one layer of each. If no name is similar, the hint
        lists all operators of the model.
        """
        hints = {}
        for name, spelling in self._names.items():
            if name in self._used:
                continue
            folded = {operator.rpartition("::")[2].lower(): operator for operator in self._seen}
            like = close_matches(name.rpartition("::")[2].lower(), folded, 3, 0.7)
            similar = ", ".join(f"{folded[operator]} of layer '{self._seen[folded[operator]]}'" for operator in like)
            known = ", ".join(sorted(self._seen))
            named = f"near are {similar}" if similar else f"it has {known}"
            hints[spelling] = f"the model has no operator of this name; {named}"
        return hints


def kernel_name(domain: str, node: model.NodeProto) -> str:
    """Return the name in `kernels` of a node's operator."""
    return f"{domain}::{node.op_type}" if domain else node.op_type


def _without_default_domain(name: str) -> str:
    """Return the name of an operator of ONNX itself without its domain."""
    return name.removeprefix("ai.onnx::").removeprefix("::")


def call(
    tracer: CustomCallContext,
    name: str,
    node: model.NodeProto,
    operands: Sequence[Tensor | None],
    attributes: Mapping[str, model.AttributeProto],
    values: Values,
    convert: Callable[[], Sequence[Tensor | None]] | None,
) -> list[Tensor]:
    """Add a call of the user's kernel for an operator, and return its results.

    The types of its results are those that the user or the graph states, or those of the operator that the kernel
    replaces. convert: writes that operator; None for an operator that only the user knows.
    """
    present = [x for x in operands if x is not None]
    names = [key for key in node.input if key]
    results: Sequence[tuple[DType, Shape]] | None
    results = result_types(tracer.builder, tracer.options.kernels, name, present, (), names)
    assumed = False
    if results is None and convert is not None:
        results = _types_of(tracer, convert, len(node.output))
    elif results is None:
        stated = [_stated(tracer, output, operands, values) for output in node.output]
        assumed = None in stated
        if assumed and not (tracer.options.assumes_types and present):
            raise _unstated(tracer, name, node.output[stated.index(None)], present)
        results = [(present[0].dtype, present[0].shape) if type_ is None else type_ for type_ in stated]
    if len(results) != len(node.output):
        raise tracer.builder.fail(f"'{name}' has {len(node.output)} results here, the user states {len(results)}")
    numbers = {a.name: a.f if type_of(a) == "f" else a.i for a in attributes.values() if type_of(a) in ("f", "i")}
    others = [*names, *node.output]
    return custom_call(tracer.builder, name, present, results, numbers, other_names=others, is_assumed=assumed)


def _types_of(
    tracer: CustomCallContext, convert: Callable[[], Sequence[Tensor | None]], count: int
) -> list[tuple[DType, Shape]]:
    """Return the types of the results of an operator, determined in a block that is discarded."""
    with tracer.builder.inside(Block()):
        tensors = list(convert())[:count]
    return [(x.dtype, x.shape) for x in tensors if x is not None]


def _stated(
    tracer: CustomCallContext, output: str, operands: Sequence[Tensor | None], values: Values
) -> tuple[DType, tuple[Size, ...]] | None:
    """Return the type that the graph states for a result; None where the graph states no type."""
    info = values.stated.get(output)
    if info is None:
        return None
    dtype, shape = tracer.type_of_info(info)
    return None if shape is None else (dtype, tuple(_size_named(tracer, n, operands) for n in shape))


def _unstated(tracer: CustomCallContext, name: str, output: str, operands: Sequence[Tensor]) -> Exception:
    types = ", ".join(map(str, operands))
    names = {spelling.rpartition("::")[2].lower(): spelling for spelling in tracer.options.kernels}
    like = close_matches(name.rpartition("::")[2].lower(), names, 1, 0.7)
    hint = f". A kernel is given for '{names[like[0]]}', which is another name" if like else ""
    return tracer.builder.fail(
        f"the model does not state the type of '{output}', a result of the custom operation '{name}' of {types}",
        f'state it with the kernel: kernels={{"{name}": pydispatch.CustomOperation(kernel, results=["in0"])}}, on the '
        f"command line: --results {name}=in0, or in the graph's value_info; in0 is the type of the first operand{hint}",
    )


def _size_named(tracer: CustomCallContext, n: int | str, operands: Sequence[Tensor | None]) -> Size:
    """Return a size that the graph states: a number, or the size of an operand that has this name."""
    if isinstance(n, int):
        return n
    known = {str(m): m for x in operands if x is not None for m in x.shape}
    if n not in known:
        raise tracer.builder.fail(f"the size '{n}' of its result is that of no operand")
    return known[n]
